"""Constant factors and offsets per channel go into weights and one bias.

``multiply(nn.bias_add(nn.conv2d(%x, w), b), s)`` --> ``nn.bias_add(nn.conv2d(%x, s * w), s * b)``; divisions and
subtractions by constants the same way; ``add(nn.bias_add(y, b), c)`` --> ``nn.bias_add(y, b + c)``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from forge.ir.nodes import Graph, Node, Value
from forge.passes.base import PassContext
from forge.passes.rewriting import channel_vector, live_nodes, on_all_graphs, replace
from forge.passes.weighted import Weighted, find_weighted, rebuild

Effect = Callable[[np.ndarray], tuple[np.ndarray | None, np.ndarray | None]]

EFFECTS: dict[str, Effect] = {
    "multiply": lambda c: (c, None),
    "divide": lambda c: (1.0 / c, None),
    "add": lambda c: (None, c),
    "subtract": lambda c: (None, -c),
}
"""What ``op(x, c)`` is as (scale, shift) of x."""


def run(graph: Graph, context: PassContext) -> int:
    return on_all_graphs(graph, _fold)


def _fold(graph: Graph) -> int:
    return sum(_fold_node(graph, node) for node in live_nodes(graph) if node.op in EFFECTS)


def _fold_node(graph: Graph, node: Node) -> int:
    left, right = node.operands
    sides = [(left, right)] if node.op in ("divide", "subtract") else [(left, right), (right, left)]
    for data, constant in sides:
        if data is None or constant is None or constant.constant is None or data.type != node.result.type:
            continue
        found = find_weighted(graph, data)
        vector = None if found is None else _vector(found, constant)
        if found is None or vector is None or not _worthwhile(node, found, vector):
            continue
        scale, shift = EFFECTS[node.op](vector)
        return int(replace(graph, node, rebuild(graph, node, found, scale, shift)))
    return 0


def _vector(found: Weighted, constant: Value) -> np.ndarray | None:
    vector = channel_vector(constant, found.anchor.result.rank, found.axis, found.channels)
    return None if vector is None else vector.astype(np.float64)


def _worthwhile(node: Node, found: Weighted, vector: np.ndarray) -> bool:
    """An addition to a result without bias stays: it is one already. Division by zero stays visible."""
    if node.op in ("add", "subtract"):
        return found.bias is not None
    return node.op != "divide" or bool(np.all(vector != 0))
