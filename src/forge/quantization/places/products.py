"""The nodes of a model that may be quantized layers, by which copies of it are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forge.ir.builder import Builder
from forge.ir.graph import Graph, clone_node
from forge.ir.nodes import Node, Value
from forge.ops.core.product import Product
from forge.ops.nn.recurrent import Recurrent


def products(graph: Graph) -> list[Node]:
    """Returns the nodes that may be layers, in an order that copies of ``graph`` keep in which layers are quantized."""
    return [node for node in graph.nodes if Product.of(node) is not None or Recurrent.of(node) is not None]


def is_recurrent(node: Node) -> bool:
    """Returns whether ``node`` is a recurrent layer of float32 with constant weights."""
    if Recurrent.of(node) is None or any(v is not None and v.dtype == "int8" for v in node.operands):
        return False
    x, w, r = node.operands[:3]
    if x is None or w is None or r is None or w.constant is None or r.constant is None:
        return False
    return x.constant is None and all(v.dtype == "float32" for v in (x, w, r))


def given_to(node: Node) -> dict[str, Value]:
    """Returns the operands of ``node`` that are known at run time only, by name."""
    named = zip((o.name for o in node.op_def.operands), node.operands)
    return {name: v for name, v in named if v is not None and v.constant is None}


def node_again(builder: Builder, node: Node, values: Mapping[str, Value | None], **attributes: Any) -> Node:
    """Inserts ``node`` again with other operands, by name, and attributes; the other constants are copied."""
    found: list[Value | None] = []
    for operand, value in zip(node.op_def.operands, node.op_def.arguments(node.operands)):
        if operand.name in values:
            found.append(values[operand.name])
        elif value is not None and value.constant is not None:
            found.append(builder.constant(value.constant, name=value.name))
        else:
            found.append(value)
    return builder.node(node.op_def, found, {**node.attributes, **attributes})


def joined_graph(*graphs: Graph) -> tuple[Graph, dict[Value, Value]]:
    """Returns a graph of the nodes of several, whose inputs of one name are one input; and its values by theirs."""
    joined = Graph()
    inputs = {v.name: joined.add_input(v.type, v.name) for v in graphs[0].inputs}
    known = {v: inputs[v.name] for graph in graphs for v in graph.inputs}
    for graph in graphs:
        for node in graph.nodes:
            joined.insert(clone_node(node, known))
    return joined, known
