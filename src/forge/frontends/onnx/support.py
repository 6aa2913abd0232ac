"""Finds the operators of a model and what loads them, before conversion starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx

from forge.frontends.onnx import functions
from forge.frontends.onnx.nodes import node_names, subgraphs
from forge.frontends.onnx.registry import REGISTRY, find_schema
from forge.frontends.onnx.scope import FunctionKey, OnnxState
from forge.frontends.support import CONVERTER, FUNCTION, MISSING, Use


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
        domain = REGISTRY.canonical(node.domain)
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
        inner = {**opsets, **{REGISTRY.canonical(o.domain): o.version for o in function.opset_import}}
        visit = (called[0], tuple(sorted(inner.items())))
        if visit not in self.visited:
            self.visited.add(visit)
            self.nodes(function.node, inner, f"{name}/")

    def resolve(self, node: onnx.NodeProto, domain: str, opset: int) -> tuple[str, onnx.FunctionProto | None]:
        """What loads a node, and the body that takes its place if that is known without the types of the call."""
        if REGISTRY.own(domain, node.op_type, opset) is not None:
            return CONVERTER, None
        function = self.own.get(functions.key(node))
        if function is not None:
            return FUNCTION, function
        if REGISTRY.lookup(domain, node.op_type, opset) is not None:
            return CONVERTER, None
        if functions.has_schema_body(node, opset):
            return FUNCTION, _typeless_body(node, opset)
        return MISSING, None


def used_operators(graph: onnx.GraphProto, state: OnnxState, opsets: dict[str, int]) -> list[Use]:
    """All operators, in order of first use; sub-graphs and functions included."""
    search = _Search(state.functions)
    search.nodes(graph.node, opsets)
    return list(search.found.values())


def _typeless_body(node: onnx.NodeProto, opset: int) -> onnx.FunctionProto | None:
    """The schema's body when it does not depend on types; None when it does."""
    schema = find_schema(node.domain, node.op_type, opset)
    return functions.schema_body(node, opset) if schema is not None and schema.has_function else None
