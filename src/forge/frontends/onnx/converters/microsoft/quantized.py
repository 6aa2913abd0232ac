"""Element-wise operators, pools and moves on quantized tensors: real numbers are computed with and rounded again."""

from __future__ import annotations

from dataclasses import dataclass

from forge import dtypes
from forge.compose import quantized
from forge.compose.pooling import global_pool
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.microsoft.activations import softmax_behind
from forge.frontends.onnx.converters.microsoft.convolutions import channels_behind, channels_first
from forge.frontends.onnx.converters.nn import pool as pooling
from forge.frontends.onnx.converters.quantized import quantize as quantization
from forge.frontends.onnx.converters.shape import concatenate
from forge.frontends.onnx.registry import converts

Ints = tuple[int, ...]


def real(g: Context, x: Value, scale: Value, zero_point: Value | None) -> Value:
    """(x - zero_point) * scale, for a single scale."""
    parameters = [None if v is None else g.reshape(v, ()) for v in (scale, zero_point)]
    return g.call("qnn.dequantize", x, *parameters, out_dtype="float32")


def rounded(g: Context, x: Value, scale: Value, zero_point: Value | None, dtype: str) -> Value:
    """round(x / scale) + zero_point, saturated, for a single scale."""
    parameters = [None if v is None else g.reshape(v, ()) for v in (scale, zero_point)]
    return g.call("qnn.quantize", x, *parameters, out_dtype=dtype)


converts("QuantizeLinear", domain=DOMAIN, lacks=("block_size", "output_dtype", "precision", "saturate"))(quantization.quantize)
converts("DequantizeLinear", domain=DOMAIN, lacks=("block_size", "output_dtype"))(quantization.dequantize)


@converts("QLinearAdd", domain=DOMAIN)
def add(
    g: Context, a: Value, a_scale: Value, a_zero_point: Value | None, b: Value, b_scale: Value, b_zero_point: Value | None,
    c_scale: Value, c_zero_point: Value | None = None,
) -> Value:
    total = g.call("add", real(g, a, a_scale, a_zero_point), real(g, b, b_scale, b_zero_point))
    return rounded(g, total, c_scale, c_zero_point, a.dtype)


@converts("QLinearMul", domain=DOMAIN)
def multiply(
    g: Context, a: Value, a_scale: Value, a_zero_point: Value | None, b: Value, b_scale: Value, b_zero_point: Value | None,
    c_scale: Value, c_zero_point: Value | None = None,
) -> Value:
    """The product of integers is exact; it is scaled once."""
    product = g.call("multiply", quantized.centred(g, a, a_zero_point), quantized.centred(g, b, b_zero_point))
    zero_point = g.scalar(0, a) if c_zero_point is None else c_zero_point
    return quantized.requantized(g, product, (a_scale, b_scale), c_scale, zero_point)


@converts("MulInteger", domain=DOMAIN)
def multiply_integers(
    g: Context, a: Value, a_zero_point: Value | None, b: Value, b_zero_point: Value | None = None
) -> Value:
    return g.call("multiply", quantized.centred(g, a, a_zero_point), quantized.centred(g, b, b_zero_point))


@converts("QLinearLeakyRelu", domain=DOMAIN)
def leaky_relu(
    g: Context, x: Value, x_scale: Value, x_zero_point: Value | None, y_scale: Value, y_zero_point: Value | None = None,
    *, alpha: float = 0.01,
) -> Value:
    result = g.call("nn.leaky_relu", real(g, x, x_scale, x_zero_point), alpha=alpha)
    return rounded(g, result, y_scale, y_zero_point, x.dtype)


@converts("QLinearSigmoid", domain=DOMAIN)
def sigmoid(
    g: Context, x: Value, x_scale: Value, x_zero_point: Value | None, y_scale: Value, y_zero_point: Value | None = None
) -> Value:
    return rounded(g, g.call("sigmoid", real(g, x, x_scale, x_zero_point)), y_scale, y_zero_point, x.dtype)


@converts("QLinearSoftmax", domain=DOMAIN)
def softmax(
    g: Context, x: Value, x_scale: Value, x_zero_point: Value | None, y_scale: Value, y_zero_point: Value,
    *, axis: int = -1, opset: int,
) -> Value:
    """Before opset 13, over all axes from ``axis`` on together."""
    data = real(g, x, x_scale, x_zero_point)
    result = softmax_behind(g, data, axis) if opset < 13 else g.call("nn.softmax", data, axis=g.axis(axis, x.rank))
    return rounded(g, result, y_scale, y_zero_point, x.dtype)


@converts("QLinearGlobalAveragePool", domain=DOMAIN)
def global_average_pool(
    g: Context, x: Value, x_scale: Value, x_zero_point: Value, y_scale: Value, y_zero_point: Value, *, channels_last: int = 0
) -> Value:
    data = real(g, channels_first(g, x) if channels_last else x, x_scale, x_zero_point)
    result = rounded(g, global_pool(g, data, "avg"), y_scale, y_zero_point, x.dtype)
    return channels_behind(g, result) if channels_last else result


@dataclass(frozen=True, kw_only=True)
class LayoutPoolAttributes(pooling.AveragePoolAttributes):
    channels_last: int = 0


@converts("QLinearAveragePool", domain=DOMAIN, lacks=("dilations",))
def average_pool(
    g: Context, x: Value, x_scale: Value, x_zero_point: Value | None, y_scale: Value, y_zero_point: Value | None = None, *,
    attrs: LayoutPoolAttributes,
) -> Value:
    data = real(g, channels_first(g, x) if attrs.channels_last else x, x_scale, x_zero_point)
    result = rounded(g, pooling.average_pool(g, data, attrs=attrs), y_scale, y_zero_point, x.dtype)
    return channels_behind(g, result) if attrs.channels_last else result


@converts("QLinearReduceMean", domain=DOMAIN)
def reduce_mean(
    g: Context, x: Value, x_scale: Value, x_zero_point: Value | None, y_scale: Value, y_zero_point: Value | None = None,
    *, axes: Ints, keepdims: int,
) -> Value:
    mean = g.call("mean", real(g, x, x_scale, x_zero_point), axis=tuple(axes), keepdims=bool(keepdims))
    return rounded(g, mean, y_scale, y_zero_point, x.dtype)


@converts("ReduceSumInteger", domain=DOMAIN)
def reduce_sum_integer(g: Context, x: Value, *, axes: Ints, keepdims: int) -> Value:
    wide = g.cast(x, "int32" if dtypes.integer_range(x.dtype)[0] < 0 else "uint32")
    return g.call("sum", wide, axis=tuple(axes), keepdims=bool(keepdims))


@converts("QLinearConcat", domain=DOMAIN)
def concat(g: Context, y_scale: Value, y_zero_point: Value, *parts: Value, axis: int) -> Value:
    """Each part comes with its scale and zero point."""
    if not parts or len(parts) % 3:
        raise g.invalid(f"got {len(parts)} inputs after Y_zero_point; expected tensor, scale and zero point for each part")
    values = [real(g, *parts[k : k + 3]) for k in range(0, len(parts), 3)]
    return rounded(g, concatenate.concat(g, *values, axis=axis), y_scale, y_zero_point, y_zero_point.dtype)


@converts("QLinearWhere", domain=DOMAIN)
def where(
    g: Context, condition: Value, x: Value, x_scale: Value, x_zero_point: Value, y: Value, y_scale: Value, y_zero_point: Value,
    z_scale: Value, z_zero_point: Value,
) -> Value:
    chosen = g.call("where", condition, real(g, x, x_scale, x_zero_point), real(g, y, y_scale, y_zero_point))
    return rounded(g, chosen, z_scale, z_zero_point, x.dtype)
