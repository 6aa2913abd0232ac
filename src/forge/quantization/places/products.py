"""The nodes of a model that may be quantized layers, by which copies of it are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.core.product import Product
from forge.passes.split_recurrent import LAYERS


def products(graph: Graph) -> list[Node]:
    """Nodes that may be layers, in order, as in copies of ``graph`` in which layers are quantized."""
    return [node for node in graph.nodes if Product.of(node) is not None or node.op in LAYERS]


def is_recurrent(node: Node) -> bool:
    """Whether ``node`` is a recurrent layer of float32 with constant weights."""
    if node.op not in LAYERS or any(v is not None and v.dtype == "int8" for v in node.operands):
        return False
    x, w, r = node.operands[:3]
    if x is None or w is None or r is None or w.constant is None or r.constant is None:
        return False
    return x.constant is None and all(v.dtype == "float32" for v in (x, w, r))


def given_to(node: Node) -> dict[str, Value]:
    """Operands that are known at run time only, by name."""
    named = zip((o.name for o in node.op_def.operands), node.operands)
    return {name: v for name, v in named if v is not None and v.constant is None}


def node_again(builder: Builder, node: Node, values: Mapping[str, Value | None], **attributes: Any) -> Node:
    """``node`` with other operands, by name, and attributes; constants that it has are made again."""
    found: list[Value | None] = []
    for operand, value in zip(node.op_def.operands, node.op_def.arguments(node.operands)):
        if operand.name in values:
            found.append(values[operand.name])
        elif value is not None and value.constant is not None:
            found.append(builder.constant(value.constant, name=value.name))
        else:
            found.append(value)
    return builder.node(node.op_def, found, {**node.attributes, **attributes})
