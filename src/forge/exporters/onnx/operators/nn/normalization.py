"""Softmax and normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.registry import exports
from forge.ops.core.op import Op
from forge.ops.nn.normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm
from forge.ops.nn.softmax import LogSoftmax, Softmax, SoftmaxAttrs
from forge.ops.quantized.quantize import Dequantize, Quantize
from forge.ops.quantized.unpack import Unpack, unpacked


@exports(Softmax, LogSoftmax)
def softmax(g: Emitter, op: Op[SoftmaxAttrs], x: Ref) -> Ref:
    return g.op(type(op).__name__, x, axis=op.attrs.axis)


def _parameters(g: Emitter, op: LayerNorm | RmsNorm, x: Ref, given: Ref | None, used: bool, default: float) -> Ref:
    """gamma or beta in the shape of the normalized axes."""
    shape = op.data.shape[op.attrs.axis % op.result.rank :]
    if given is not None and used:
        return g.unsqueeze(given, *range(len(shape) - g.document.ranks[given.name]))
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
    scale = _parameters(g, op, x, gamma, attrs.scale, 1.0)
    bias = _parameters(g, op, x, beta, attrs.center, 0.0) if beta is not None and attrs.center else None
    return g.op("LayerNormalization", x, scale, bias, axis=attrs.axis, epsilon=attrs.epsilon)


@exports(RmsNorm)
def rms_norm(g: Emitter, op: RmsNorm, x: Ref, gamma: Ref | None = None) -> Ref:
    attrs = op.attrs
    if g.has("RMSNormalization") and _is_exact(x, attrs.epsilon):
        scale = _parameters(g, op, x, gamma, True, 1.0)
        return g.op("RMSNormalization", x, scale, axis=attrs.axis, epsilon=attrs.epsilon)
    wide = g.cast(x, "float32") if dtypes.bits(x.dtype) < 32 else x
    rank = op.result.rank
    axes = g.ints(range(attrs.axis % rank, rank))
    square = g.op("ReduceMean", g.op("Mul", wide, wide), axes, keepdims=1)
    normal = g.cast(g.op("Div", wide, g.op("Sqrt", g.op("Add", square, g.like(attrs.epsilon, wide)))), x.dtype)
    return normal if gamma is None else g.op("Mul", normal, gamma)


@exports(BatchNorm, InstanceNorm)
def channel_norm(g: Emitter, op: Op[Any], x: Ref, *parameters: Ref) -> Any:
    """ONNX has channels in axis 1, and both parameters."""
    attrs = op.attrs
    is_plain = attrs.axis % op.result.rank == 1 and attrs.scale and attrs.center and _is_exact(x, attrs.epsilon)
    return g.op(f"{type(op).__name__}alization", x, *parameters, epsilon=attrs.epsilon) if is_plain else NotImplemented


@exports(GroupNorm)
def group_norm(g: Emitter, op: GroupNorm, x: Ref, gamma: Ref, beta: Ref) -> Any:
    attrs = op.attrs
    if not g.has("GroupNormalization", 21) or not (attrs.scale and attrs.center) or x.dtype == "float64":
        return NotImplemented
    return g.op("GroupNormalization", x, gamma, beta, num_groups=attrs.num_groups, epsilon=attrs.epsilon)


@exports(Quantize)
def quantize(g: Emitter, op: Quantize, x: Ref, scale: Ref, zero: Ref | None = None) -> Any:
    if not _has_blocks(g, op) or op.attrs.away:
        return NotImplemented
    axis = _scale_axis(op)
    if zero is None and op.attrs.out_dtype != "uint8":
        zero = g.const(0, op.attrs.out_dtype)
        zero = zero if axis is None else g.op("Expand", zero, g.dims(op.scale.shape))
    scales = _scales(g, axis, scale, zero)
    return g.op("QuantizeLinear", x, *scales, dtype=op.attrs.out_dtype, axis=axis, block_size=op.attrs.block_size or None)


@exports(Dequantize)
def dequantize(g: Emitter, op: Dequantize, x: Ref, scale: Ref, zero: Ref | None = None) -> Any:
    """With a zero point where onnxruntime moves reshapes before the conversion: its copy would round to uint8 without one."""
    if not _has_blocks(g, op):
        return NotImplemented
    axis = _scale_axis(op)
    if zero is None and axis is None and op.data.constant is None and op.data.dtype == "int8" and g.opset < 21:
        zero = g.const(0, op.data.dtype)
    scales = _scales(g, axis, scale, zero)
    return g.op("DequantizeLinear", x, *scales, dtype=op.result.dtype, axis=axis, block_size=op.attrs.block_size or None)


@exports(Unpack)
def unpack(g: Emitter, op: Unpack, x: Ref) -> Any:
    """A constant of a type below a byte, which ONNX packs itself."""
    array, since = op.data.constant, 21 if dtypes.bits(op.result.dtype) == 4 else 25
    if array is None or not g.has("DequantizeLinear", since):
        return NotImplemented
    return g.const(unpacked(array, op.result.dtype), name=op.data.name)


def _has_blocks(g: Emitter, op: Quantize | Dequantize) -> bool:
    """Whether the opset has blocks, if there are any."""
    return not op.attrs.block_size or g.has("DequantizeLinear", 21)


def _scale_axis(op: Quantize | Dequantize) -> int | None:
    """The axis along which there is a scale for each element or block; None: one for the whole tensor."""
    return op.attrs.axis if op.attrs.block_size or op.scale.shape not in ((), (1,)) else None


def _scales(g: Emitter, axis: int | None, *x: Ref | None) -> list[Ref | None]:
    """What is for the whole tensor as a scalar."""
    return [v if v is None or axis is not None else g.scalar(v) for v in x]
