"""Operators with constant weights, and how scales and shifts per output channel go into them.

``scale * (op(x, w) + b) + shift == op(x, scale * w) + (scale * b + shift)`` for every operator that is linear in its weight.
"""

from __future__ import annotations

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


def _weighted(node: Node) -> Product[Any] | None:
    """The operator of ``node`` where it has a weight of its own: matrix products become dense layers before."""
    return ConvBase.of(node) or Dense.of(node)


def find_weighted(graph: Graph, value: Value) -> Weighted | None:
    """Returns the operator that computes ``value`` through additions of constants, if nothing else uses it or what is between."""
    bias: np.ndarray | None = None
    name = ""
    while (node := value.producer) is not None and only_use(graph, value) is not None:
        product = _weighted(node)
        if product is not None:
            return _with_weight(product, bias, name)
        step = _added(node)
        if step is None:
            return None
        value, vector = step
        if vector.shape[0] != 1 and bias is not None and bias.shape != vector.shape:
            return None
        bias = vector if bias is None else bias + vector
        name = node.name or name
    return None


def _with_weight(product: Product[Any], bias: np.ndarray | None, name: str) -> Weighted | None:
    weight, channels = product.right.constant, product.result.shape[product.channel_axis]
    if weight is None or not dtypes.is_float(product.result.dtype) or not isinstance(channels, int):
        return None
    return Weighted(product, weight, bias, name) if bias is None or bias.shape == (channels,) else None


def _added(node: Node) -> tuple[Value, np.ndarray] | None:
    """(x, the constant added per channel) of a node that adds or subtracts one."""
    op = node.op
    for data, other in pairs(node) if op in ADDITIONS else ():
        below = None if other.constant is None or data.type != node.result.type else _product_below(data)
        if other.constant is None or below is None:
            continue
        axis = below.channel_axis
        if op == "nn.bias_add":
            vector = other.constant if node.attrs.axis % node.result.rank == axis else None
        else:
            vector = channel_vector(other, node.result.rank, axis, node.result.shape[axis])
        if vector is not None:
            return data, -vector.astype(np.float64) if op == "subtract" else vector.astype(np.float64)
    return None


def _product_below(value: Value | None) -> Product[Any] | None:
    """The product under at most ``MAX_ADDITIONS``, whether its operands are constant or not."""
    for _ in range(MAX_ADDITIONS + 1):
        node = None if value is None else value.producer
        if node is None or (product := _weighted(node)) is not None:
            return None if node is None else product
        if node.op not in ADDITIONS:
            return None
        value = next((v for v in node.operands if v is not None and v.constant is None), None)
    return None


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
