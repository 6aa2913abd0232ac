"""Operators with constant weights, and how scales and shifts per output channel go into them.

``scale * (op(x, w) + b) + shift == op(x, scale * w) + (scale * b + shift)`` for every operator that is linear in its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder, only_use
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.core.product import Product
from forge.ops.nn.convolution import ConvBase
from forge.ops.nn.matmul import Dense
from forge.passes.matching import channel_vector, pairs

ADDITIONS = ("nn.bias_add", "add", "subtract")

MAX_ADDITIONS = 16
"""Additions after an operator that are searched; folding removes them one by one, so long chains are still folded."""


@dataclass(frozen=True)
class Weighted:
    """A product with a constant weight, the sum of the constants added to each channel after it, the first addition's name."""

    product: Product[Any]
    weight: np.ndarray
    bias: np.ndarray | None
    name: str = ""

    @property
    def axis(self) -> int:
        """The channel axis of the result."""
        return self.product.channel_axis

    @property
    def channels(self) -> int:
        return int(self.product.result.shape[self.axis])


def find_weighted(graph: Graph, value: Value) -> Weighted | None:
    """Returns the operator that computes ``value`` through additions of constants, if nothing else uses it or what is between."""
    additions: list[tuple[Node, Value]] = []
    while (node := value.producer) is not None and only_use(graph, value) is not None and len(additions) <= MAX_ADDITIONS + 1:
        product: Product[Any] | None = ConvBase.of(node) or Dense.of(node)  # matrix products become dense layers before
        if product is not None:
            return _with_weight(product, additions)
        sides = pairs(node) if node.op in ADDITIONS else ()
        found = next((s for s in sides if s[1].constant is not None and s[0].type == node.result.type), None)
        if found is None:
            return None
        value = found[0]
        additions.append((node, found[1]))
    return None


def _with_weight(product: Product[Any], additions: Sequence[tuple[Node, Value]]) -> Weighted | None:
    axis, weight = product.channel_axis, product.right.constant
    channels = product.result.shape[axis]
    if weight is None or not dtypes.is_float(product.result.dtype) or not isinstance(channels, int):
        return None
    bias: np.ndarray | None = None
    for node, constant in additions:
        if node.op != "nn.bias_add":
            vector = channel_vector(constant, node.result.rank, axis, node.result.shape[axis])
        else:
            vector = constant.constant if node.attrs.axis % node.result.rank == axis else None
        if vector is None:
            return None
        vector = vector.astype(np.float64) * (-1 if node.op == "subtract" else 1)
        bias = vector if bias is None else bias + vector
    name = next((node.name for node, _ in reversed(additions) if node.name), "")
    return Weighted(product, weight, bias, name) if bias is None or bias.shape == (channels,) else None


def rebuild(builder: RuleBuilder, found: Weighted, scale: np.ndarray | None, shift: np.ndarray | None) -> Value:
    """Returns ``scale * found + shift`` as an operator with new weights and one bias."""
    product, node = found.product, found.product.node
    weight = found.weight if scale is None else product.scaled(found.weight, scale)
    bias = np.zeros(found.channels) if found.bias is None else found.bias
    bias = (bias if scale is None else bias * scale) + (0.0 if shift is None else shift)
    constant = builder.constant(weight, name=product.right.name)
    has_bias = bool(np.any(bias))
    name = node.name if has_bias else node.name or found.name
    result = builder.call(node.op, product.left, constant, name=name, **node.attributes)
    result.name = product.result.name
    if not has_bias:
        return result
    as_type = bias.astype(dtypes.numpy_dtype(product.result.dtype))
    return builder.call("nn.bias_add", result, builder.constant(as_type), name=found.name, axis=found.axis)
