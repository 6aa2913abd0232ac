"""Converts the nodes of a graph, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from forge.errors import ImportModelError
from forge.frontends.convert import located
from forge.frontends.converter import Converter
from forge.frontends.onnx import functions
from forge.frontends.onnx.context import Context
from forge.frontends.onnx.nodes import node_names, used_names
from forge.frontends.onnx.ranks import with_rest
from forge.frontends.onnx.registry import REGISTRY, check_attribute_kinds
from forge.frontends.onnx.scope import OnnxScope
from forge.frontends.onnx.tensors import attribute_value
from forge.frontends.order import OrderedNode, topological
from forge.frontends.prune import prune
from forge.frontends.registry import as_list
from forge.frontends.scope import Region
from forge.ir.types import Type


def convert_nodes(scope: OnnxScope, nodes: Iterable[onnx.NodeProto], results: Iterable[str]) -> None:
    """Converts ``nodes``, in topological order, into the scope's graph; values called ``results`` are used later.

    Raises:
        ForgeError: a node cannot be converted; the message names node, operator and opset.
    """
    listed = list(nodes)
    names = node_names(listed)
    steps = [OrderedNode(name, node.op_type, used_names(node), node.output) for node, name in zip(listed, names)]
    ordered = [(listed[k], names[k]) for k in topological(steps, scope.knows)]
    for position, (node, name) in enumerate(ordered):
        splits = node.op_type == "If" and scope.prefix + name in scope.state.ranks.splits
        with located(_Place(scope, node, name)):
            if not splits:
                convert_node(scope, node, name)
                continue
            convert_node(scope, with_rest(node, [n for n, _ in ordered[position + 1 :]], results), name)
            return


def convert_node(scope: OnnxScope, node: onnx.NodeProto, name: str) -> None:
    scope.state.count_node()
    opset = node_opset(scope, node)
    operands = [scope.lookup(name) if name else None for name in node.input]
    is_loose = scope.state.ranks.check(node.op_type, opset, operands)
    context = Context(scope, node, opset, scope.prefix + name)
    start = len(scope.graph.nodes)
    converter = REGISTRY.lookup(node.domain, node.op_type, opset)
    results: Any = NotImplemented
    if converter is not None and (converter.is_own or functions.find(scope, node) is None):
        check_attribute_kinds(node, opset)
        exact = any(v is not None and getattr(v.type, "dtype", "") == "float64" for v in operands)
        attributes = exact_defaults(converter) if exact else {}
        attributes.update({a.name: attribute_value(a, scope.state.reader, exact) for a in node.attribute})
        results = REGISTRY.convert(converter, context, operands, attributes)
    if results is NotImplemented:
        results = functions.expand(scope, node, operands, opset, context.name, convert_nodes)
    values = as_list(results)
    scope.state.ranks.loose.update(v for v in values if is_loose and v is not None)
    scope.bind(node.output, values, start, context.name)


def exact_defaults(converter: Converter) -> dict[str, Any]:
    """Defaults of float attributes in single precision, as the format defines them; doubles tell the difference."""
    return {name: float(np.float32(d)) for name, d in converter.attributes.items() if isinstance(d, float)}


def node_opset(scope: OnnxScope, node: onnx.NodeProto) -> int:
    """The version of the node's domain that is imported; 1 for domains that nothing imports."""
    return scope.versions.get(REGISTRY.canonical(node.domain), 1)


@dataclass(frozen=True)
class _Place:
    """A node as messages name it; most need no text."""

    scope: OnnxScope
    node: onnx.NodeProto
    name: str

    def __str__(self) -> str:
        node, domain = self.node, f"{self.node.domain}." if self.node.domain else ""
        return f"node {self.scope.prefix + self.name!r} ({domain}{node.op_type}, opset {node_opset(self.scope, node)})"


def build_region(
    scope: OnnxScope, graph: onnx.GraphProto, input_types: Sequence[Type], prefix: str = "", is_branch: bool = False
) -> Region:
    """Converts a sub-graph with inputs of the given types into a closed region; the ranks of results of a branch may be loose.

    Raises:
        ImportModelError: it has another number of inputs, or graphs are nested too deeply.
    """
    if len(graph.input) != len(input_types):
        raise ImportModelError(f"sub-graph {graph.name!r}: got {len(graph.input)} inputs; expected {len(input_types)}")
    inner = scope.nested(graph.name, prefix)
    for declared, type_ in zip(graph.input, input_types):
        inner.define(declared.name, inner.graph.add_input(type_, inner.unique(declared.name)))
    inner.add_initializers(graph)
    inner.add_declarations(graph)
    convert_nodes(inner, graph.node, [output.name for output in graph.output])
    inner.graph.outputs = [inner.required(output.name) for output in graph.output]
    if not is_branch:
        scope.state.ranks.check_outputs(inner.graph.outputs)
    prune(inner.graph)
    return Region(inner.graph, list(inner.captures))
