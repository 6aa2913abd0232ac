"""Constant factors and offsets per channel go into weights and one bias.

``multiply(nn.bias_add(nn.conv2d(%x, w), b), s)`` --> ``nn.bias_add(nn.conv2d(%x, s * w), s * b)``; divisions and
subtractions by constants the same way; ``add(nn.bias_add(y, b), c)`` --> ``nn.bias_add(y, b + c)``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from forge.ir.edits.rewrite import Declined, RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.passes.base import rewriting
from forge.passes.matching import channel_vector, pairs
from forge.passes.weighted import Weighted, find_weighted, rebuild

Effect = Callable[[np.ndarray], tuple[np.ndarray | None, np.ndarray | None]]

EFFECTS: dict[str, Effect] = {
    "multiply": lambda c: (c, None),
    "divide": lambda c: (1.0 / c, None),
    "add": lambda c: (None, c),
    "subtract": lambda c: (None, -c),
}
"""What ``op(x, c)`` is as (scale, shift) of x."""


@rule(*EFFECTS)
def fold_scale(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """op(x, w) * c == op(x, c * w), and the same for divisions, additions and subtractions of constants per channel"""
    for data, constant in pairs(node):
        found = find_weighted(builder.graph, data) if constant.constant is not None and data.type == node.result.type else None
        if found is None:
            continue
        vector = channel_vector(constant, found.product.result.rank, found.axis, found.channels)
        if vector is None:
            return Declined("the constant varies along other axes than the channels")
        if not _is_worthwhile(node, found, vector):
            return Declined("the only addition is the bias already" if node.op != "divide" else "a divisor is zero")
        return rebuild(builder, found, *EFFECTS[node.op](vector.astype(np.float64)))
    return None


def _is_worthwhile(node: Node, found: Weighted, vector: np.ndarray) -> bool:
    """An addition to a result without bias stays: it is one already. Division by zero stays visible."""
    if node.op in ("add", "subtract"):
        return found.bias is not None
    return node.op != "divide" or bool(np.all(vector != 0))


run = rewriting(fold_scale)
