"""Operators with constant weights, and how scales and shifts per output channel go into them.

``scale * (op(x, w) + b) + shift == op(x, scale * w) + (scale * b + shift)`` for every operator that is linear in its weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder, only_use
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.passes.matching import channel_vector, operand, pairs

FORWARD = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
WEIGHTED = (*FORWARD, "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", "nn.dense")

ADDITIONS = ("nn.bias_add", "add", "subtract")

MAX_ADDITIONS = 16
"""Additions after an operator that are searched; folding removes them one by one, so long chains are still folded."""


@dataclass(frozen=True)
class Weighted:
    """``anchor`` on a constant weight, the sum of the constants added to each channel after it, and the first addition's name."""

    anchor: Node
    weight: np.ndarray
    bias: np.ndarray | None
    name: str = ""

    @property
    def axis(self) -> int:
        """The channel axis of the result."""
        return channel_axis(self.anchor)

    @property
    def channels(self) -> int:
        return int(self.anchor.result.shape[self.axis])


def channel_axis(anchor: Node) -> int:
    """The axis of the result of ``anchor`` that its weight's output channels make up."""
    if anchor.op == "nn.dense":
        return anchor.result.rank - 1
    return int((anchor.attrs.out_layout or anchor.attrs.data_layout).index("C"))


def find_weighted(graph: Graph, value: Value) -> Weighted | None:
    """The operator that computes ``value`` through additions of constants, if nothing else uses it or what is between."""
    bias: np.ndarray | None = None
    name = ""
    while (node := value.producer) is not None and only_use(graph, value) is not None:
        if node.op in WEIGHTED:
            return _at_anchor(node, bias, name)
        step = _added(node)
        if step is None:
            return None
        value, vector = step
        if vector.shape[0] != 1 and bias is not None and bias.shape != vector.shape:
            return None
        bias = vector if bias is None else bias + vector
        name = node.name or name
    return None


def _at_anchor(anchor: Node, bias: np.ndarray | None, name: str) -> Weighted | None:
    weight, channels = operand(anchor, 1).constant, anchor.result.shape[channel_axis(anchor)]
    if weight is None or not dtypes.is_float(anchor.result.dtype) or not isinstance(channels, int):
        return None
    return Weighted(anchor, weight, bias, name) if bias is None or bias.shape == (channels,) else None


def _added(node: Node) -> tuple[Value, np.ndarray] | None:
    """(x, the constant added per channel) of a node that adds or subtracts one."""
    op = node.op
    for data, other in pairs(node) if op in ADDITIONS else ():
        anchor = None if other.constant is None or data.type != node.result.type else _anchor_below(data)
        if other.constant is None or anchor is None:
            continue
        axis = channel_axis(anchor)
        if op == "nn.bias_add":
            vector = other.constant if node.attrs.axis % node.result.rank == axis else None
        else:
            vector = channel_vector(other, node.result.rank, axis, node.result.shape[axis])
        if vector is not None:
            return data, -vector.astype(np.float64) if op == "subtract" else vector.astype(np.float64)
    return None


def _anchor_below(value: Value | None) -> Node | None:
    """The weighted operator under at most ``MAX_ADDITIONS``, whether its operands are constant or not."""
    for _ in range(MAX_ADDITIONS + 1):
        if value is None or value.producer is None:
            return None
        node = value.producer
        if node.op in WEIGHTED:
            return node
        if node.op not in ADDITIONS:
            return None
        value = next((v for v in node.operands if v is not None and v.constant is None), None)
    return None


def rebuild(builder: RuleBuilder, found: Weighted, scale: np.ndarray | None, shift: np.ndarray | None) -> Value:
    """``scale * found + shift`` as an operator with new weights and one bias."""
    anchor = found.anchor
    weight = found.weight if scale is None else scaled_weight(anchor, found.weight, scale)
    bias = np.zeros(found.channels) if found.bias is None else found.bias
    bias = (bias if scale is None else bias * scale) + (0.0 if shift is None else shift)
    constant = builder.constant(weight, name=operand(anchor, 1).name)
    has_bias = bool(np.any(bias))
    name = anchor.name if has_bias else anchor.name or found.name
    result = builder.call(anchor.op, anchor.operands[0], constant, name=name, **anchor.attributes)
    result.name = anchor.result.name
    if not has_bias:
        return result
    as_type = bias.astype(dtypes.numpy_dtype(anchor.result.dtype))
    return builder.call("nn.bias_add", result, builder.constant(as_type), name=found.name, axis=found.axis)


def scaled_weight(anchor: Node, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """``weight`` with the part of every output channel multiplied by its entry of ``scale``."""
    wide = weight.astype(np.float64)
    if anchor.op == "nn.dense":
        return np.asarray(wide * scale[:, None], weight.dtype)
    layout, groups = anchor.attrs.kernel_layout, anchor.attrs.groups
    outs = layout.index("O")
    if anchor.op in FORWARD:
        return np.asarray(wide * scale.reshape([-1 if k == outs else 1 for k in range(weight.ndim)]), weight.dtype)
    ins = layout.index("I")
    grouped = np.moveaxis(wide, (ins, outs), (0, 1))
    factors = np.repeat(scale.reshape(groups, -1), grouped.shape[0] // groups, axis=0)
    grouped = grouped * factors.reshape(*factors.shape, *[1] * (weight.ndim - 2))
    return np.ascontiguousarray(np.moveaxis(grouped, (0, 1), (ins, outs))).astype(weight.dtype)
