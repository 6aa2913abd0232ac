"""Finds the operators of a model and what loads them, before conversion starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from forge.errors import OpNotImplemented
from forge.frontends.onnx import functions, registry
from forge.frontends.onnx.scope import FunctionKey, Options

CONVERTER = "converter"
FUNCTION = "function"
MISSING = "missing"


@dataclass
class Use:
    """An operator of a model.

    Attributes:
        opset: the version of its domain that the model imports.
        how: "converter", "function" (its body, the model's or the standard's, is expanded) or "missing".
        count: nodes, sub-graphs and functions included; a function's body counts once.
    """

    domain: str
    op: str
    opset: int
    how: str
    first_node: str
    count: int = 0


@dataclass
class _Search:
    own: Mapping[FunctionKey, onnx.FunctionProto]
    found: dict[tuple[str, str, str], Use] = field(default_factory=dict)
    ways: dict[tuple[FunctionKey, int], tuple[str, onnx.FunctionProto | None]] = field(default_factory=dict)
    visited: set[tuple[FunctionKey, tuple[tuple[str, int], ...]]] = field(default_factory=set)

    def nodes(self, nodes: Iterable[onnx.NodeProto], opsets: dict[str, int], prefix: str = "") -> None:
        listed = list(nodes)
        for node, own_name in zip(listed, node_names(listed)):
            name = prefix + own_name
            self.node(node, opsets, name)
            for graph in subgraphs(node):
                self.nodes(graph.node, opsets, f"{name}/")

    def node(self, node: onnx.NodeProto, opsets: dict[str, int], name: str) -> None:
        domain = registry.canonical_domain(node.domain)
        opset = opsets.get(domain, 1)
        called = functions.key(node), opset
        if called not in self.ways:
            self.ways[called] = self.resolve(node, domain, opset)
        how, function = self.ways[called]
        kind = domain, node.op_type, how
        if kind not in self.found:
            self.found[kind] = Use(domain, node.op_type, opset, how, name)
        self.found[kind].count += 1
        if function is None:
            return
        inner = {**opsets, **{registry.canonical_domain(o.domain): o.version for o in function.opset_import}}
        visit = (called[0], tuple(sorted(inner.items())))
        if visit not in self.visited:
            self.visited.add(visit)
            self.nodes(function.node, inner, f"{name}/")

    def resolve(self, node: onnx.NodeProto, domain: str, opset: int) -> tuple[str, onnx.FunctionProto | None]:
        """What loads a node, and the body that takes its place if that is known without the types of the call."""
        if registry.own(domain, node.op_type, opset) is not None:
            return CONVERTER, None
        function = self.own.get(functions.key(node))
        if function is not None:
            return FUNCTION, function
        if registry.lookup(domain, node.op_type, opset) is not None:
            return CONVERTER, None
        if functions.has_schema_body(node, opset):
            return FUNCTION, _typeless_body(node, opset)
        return MISSING, None


def node_names(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Names of the nodes of one graph. A node without one is called by its operator and position, as no other node is."""
    taken = {node.name for node in nodes}
    names = []
    for index, node in enumerate(nodes):
        name = node.name or f"{node.op_type}_{index}"
        while not node.name and name in taken:
            name += "_"
        names.append(name)
    return names


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Graphs among the node's attributes."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def used_operators(graph: onnx.GraphProto, options: Options, opsets: dict[str, int]) -> list[Use]:
    """All operators, in order of first use; sub-graphs and functions included."""
    search = _Search(options.functions)
    search.nodes(graph.node, opsets)
    return list(search.found.values())


def check_supported(graph: onnx.GraphProto, options: Options, opsets: dict[str, int]) -> None:
    """Raises OpNotImplemented that lists all operators that are missing."""
    missing = [use for use in used_operators(graph, options, opsets) if use.how == MISSING]
    if not missing:
        return
    lines = [f"  {m.domain or 'ai.onnx'}.{m.op} (opset {m.opset}): {_where(m)}" for m in missing]
    first = missing[0]
    domain = f", domain={first.domain!r}" if first.domain else ""
    raise OpNotImplemented(
        f"{len(missing)} {'operator is' if len(missing) == 1 else 'operators are'} not supported:\n" + "\n".join(lines) + "\n"
        f"'forge support onnx' lists what is; register a converter: @forge.frontends.onnx.register({first.op!r}{domain})"
    )


def _where(missing: Use) -> str:
    reason = registry.refusal(missing.domain, missing.op)
    return f"{missing.count}x, first at node {missing.first_node!r}" + (f": {reason}" if reason else "")


def _typeless_body(node: onnx.NodeProto, opset: int) -> onnx.FunctionProto | None:
    """The schema's body when it does not depend on types; None when it does."""
    schema = functions.find_schema(node, opset)
    return functions.schema_body(node, opset) if schema is not None and schema.has_function else None
