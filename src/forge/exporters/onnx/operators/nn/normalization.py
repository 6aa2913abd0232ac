"""Softmax and normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.shape.reshape import data_shape
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node
from forge.ops.nn.normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm
from forge.ops.nn.softmax import SoftmaxAttrs
from forge.ops.quantized.quantize import Dequantize, Quantize


@exports("nn.softmax", "nn.log_softmax")
def softmax(g: Emitter, node: Node, x: Ref) -> Ref:
    attrs: SoftmaxAttrs = node.attrs
    return g.op("Softmax" if node.op == "nn.softmax" else "LogSoftmax", x, axis=attrs.axis)


def _parameters(g: Emitter, node: Node, x: Ref, given: Ref | None, used: bool, default: float) -> Ref:
    """gamma or beta in the shape of the normalised axes."""
    attrs: Any = node.attrs
    shape = data_shape(node)[attrs.axis % node.result.rank :]
    if given is not None and used:
        rank = next(v.rank for v in node.operands[1:] if v is not None and g.values[v] is given)
        return g.unsqueeze(given, *range(len(shape) - rank))
    if dims.is_static(*shape):
        return g.const(np.full(shape, default, dtypes.numpy_dtype(x.dtype)))
    return g.op("Expand", g.like(default, x), g.dims(shape))


def _is_exact(x: Ref, epsilon: float) -> bool:
    """Whether ONNX's attribute, a float32, is as exact as the elements of ``x``."""
    return x.dtype != "float64" or float(np.float32(epsilon)) == epsilon


@exports(LayerNorm)
def layer_norm(g: Emitter, op: LayerNorm, x: Ref, gamma: Ref | None = None, beta: Ref | None = None) -> Any:
    attrs = op.attrs
    if not _is_exact(x, attrs.epsilon):
        return NotImplemented
    scale = _parameters(g, op.node, x, gamma, attrs.scale, 1.0)
    bias = _parameters(g, op.node, x, beta, attrs.center, 0.0) if beta is not None and attrs.center else None
    return g.op("LayerNormalization", x, scale, bias, axis=attrs.axis, epsilon=attrs.epsilon)


@exports(RmsNorm)
def rms_norm(g: Emitter, op: RmsNorm, x: Ref, gamma: Ref | None = None) -> Ref:
    attrs = op.attrs
    if g.has("RMSNormalization") and _is_exact(x, attrs.epsilon):
        scale = _parameters(g, op.node, x, gamma, True, 1.0)
        return g.op("RMSNormalization", x, scale, axis=attrs.axis, epsilon=attrs.epsilon)
    wide = g.cast(x, "float32") if dtypes.bits(x.dtype) < 32 else x
    rank = op.result.rank
    axes = g.ints(range(attrs.axis % rank, rank))
    square = g.op("ReduceMean", g.op("Mul", wide, wide), axes, keepdims=1)
    normal = g.cast(g.op("Div", wide, g.op("Sqrt", g.op("Add", square, g.like(attrs.epsilon, wide)))), x.dtype)
    return normal if gamma is None else g.op("Mul", normal, gamma)


@exports(BatchNorm)
def batch_norm(g: Emitter, op: BatchNorm, x: Ref, gamma: Ref, beta: Ref, mean: Ref, variance: Ref) -> Any:
    attrs = op.attrs
    if attrs.axis % op.result.rank != 1 or not (attrs.scale and attrs.center and _is_exact(x, attrs.epsilon)):
        return NotImplemented
    return g.op("BatchNormalization", x, gamma, beta, mean, variance, epsilon=attrs.epsilon)


@exports(InstanceNorm)
def instance_norm(g: Emitter, op: InstanceNorm, x: Ref, gamma: Ref, beta: Ref) -> Any:
    attrs = op.attrs
    if attrs.axis % op.result.rank != 1 or not (attrs.scale and attrs.center and _is_exact(x, attrs.epsilon)):
        return NotImplemented
    return g.op("InstanceNormalization", x, gamma, beta, epsilon=attrs.epsilon)


@exports(GroupNorm)
def group_norm(g: Emitter, op: GroupNorm, x: Ref, gamma: Ref, beta: Ref) -> Any:
    attrs = op.attrs
    if not g.has_since("GroupNormalization", 21) or not (attrs.scale and attrs.center) or x.dtype == "float64":
        return NotImplemented
    return g.op("GroupNormalization", x, gamma, beta, num_groups=attrs.num_groups, epsilon=attrs.epsilon)


@exports(Quantize)
def quantize(g: Emitter, op: Quantize, x: Ref, scale: Ref, zero_point: Ref | None = None) -> Ref:
    attrs = op.attrs
    if zero_point is None and attrs.out_dtype != "uint8":
        zero_point = g.op("Expand", g.const(0, attrs.out_dtype), g.dims(op.scale.shape))
    step, zero = _scalar(g, op.node, 1, scale), _scalar(g, op.node, 1, zero_point)
    axis = attrs.axis if op.scale.shape not in ((), (1,)) else None
    return g.op("QuantizeLinear", x, step, zero, dtype=attrs.out_dtype, axis=axis)


@exports(Dequantize)
def dequantize(g: Emitter, op: Dequantize, x: Ref, scale: Ref, zero_point: Ref | None = None) -> Ref:
    step, zero = _scalar(g, op.node, 1, scale), _scalar(g, op.node, 1, zero_point)
    axis = op.attrs.axis if op.scale.shape not in ((), (1,)) else None
    return g.op("DequantizeLinear", x, step, zero, dtype=op.result.dtype, axis=axis)


def _scalar(g: Emitter, node: Node, operand: int, x: Ref | None) -> Ref | None:
    """A vector of one element as a scalar: it is for the whole tensor."""
    return g.op("Reshape", x, g.ints([])) if x is not None and data_shape(node, operand) == (1,) else x
