"""Quantized operators. Scales and zero points are per tensor, per axis or per block of an axis."""

from __future__ import annotations

from forge import dtypes
from forge.compose import quantized
from forge.compose.products import matmul
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.core.windows import ConvAttributes
from forge.frontends.onnx.converters.nn.convolution import conv
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype


@converts(
    "QuantizeLinear", since=10, introduced={"axis": 13, "saturate": 19, "block_size": 21, "output_dtype": 21, "precision": 21}
)
def quantize(
    g: Context, x: Value, scale: Value, zero_point: Value | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Value:
    """round(x / scale) + zero_point, saturated; floats of eight bits are cast instead of rounded."""
    dtype = _quantized_dtype(g, zero_point, output_dtype)
    if not precision and dtypes.is_integer(dtype) and dtypes.is_float(x.dtype) and x.dtype == scale.dtype:
        place = _axis(g, axis, x, scale, block_size)
        return g.call("qnn.quantize", x, scale, zero_point, axis=place, block_size=block_size, out_dtype=dtype)
    wide = element_dtype(precision, "attribute 'precision'") if precision else scale.dtype
    wide = wide if wide == "float64" else "float32"
    spread = quantized.spread(g, g.cast(scale, wide), x, axis, block_size)
    ratio = g.call("divide", g.cast(x, wide), spread)
    if not dtypes.is_integer(dtype):
        return g.call("cast", ratio, dtype=dtype, saturate=bool(saturate) or not dtype.startswith("float8"))
    rounded = g.call("round", ratio)
    if zero_point is not None:
        rounded = g.call("add", rounded, quantized.spread(g, g.cast(zero_point, wide), x, axis, block_size))
    low, high = dtypes.integer_range(dtype)
    return g.cast(g.call("clip", rounded, a_min=low, a_max=high), dtype)


def _axis(g: Context, axis: int, x: Value, scale: Value, block_size: int) -> int:
    """The axis of a scale for each of its elements or blocks; what is given for a single scale means nothing."""
    return -1 if not block_size and (scale.rank == 0 or scale.shape == (1,)) else g.axis(axis, x.rank)


def _quantized_dtype(g: Context, zero_point: Value | None, output_dtype: int) -> str:
    declared = element_dtype(output_dtype, "attribute 'output_dtype'") if output_dtype else None
    if zero_point is not None and declared not in (None, zero_point.dtype):
        raise g.invalid(f"attribute 'output_dtype': got {declared}; the zero point is {zero_point.dtype}; expected equal types")
    return zero_point.dtype if zero_point is not None else declared or "uint8"


@converts("DequantizeLinear", since=10, introduced={"axis": 13, "block_size": 21, "output_dtype": 21})
def dequantize(
    g: Context, x: Value, scale: Value, zero_point: Value | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """(x - zero_point) * scale."""
    dtype = element_dtype(output_dtype, "attribute 'output_dtype'") if output_dtype else scale.dtype
    if dtypes.is_integer(x.dtype) and dtype == scale.dtype:
        place = _axis(g, axis, x, scale, block_size)
        return g.call("qnn.dequantize", x, scale, zero_point, axis=place, block_size=block_size, out_dtype=dtype)
    wide = "float64" if scale.dtype == "float64" else "float32"
    data = quantized.difference(g, x, None if zero_point is None else quantized.spread(g, zero_point, x, axis, block_size), wide)
    spread = quantized.spread(g, g.cast(scale, wide), x, axis, block_size)
    return g.cast(g.call("multiply", data, spread), dtype)


@converts("MatMulInteger", since=10)
def matmul_integer(g: Context, a: Value, b: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None) -> Value:
    return matmul(g, quantized.centred_rows(g, a, a_zero_point), quantized.centred(g, b, b_zero_point))


@converts("QLinearMatMul", since=10)
def qlinear_matmul(
    g: Context, a: Value, a_scale: Value, a_zero_point: Value, b: Value, b_scale: Value, b_zero_point: Value, y_scale: Value,
    y_zero_point: Value,
) -> Value:
    total = matmul(g, quantized.centred_rows(g, a, a_zero_point), quantized.centred(g, b, b_zero_point))
    rows = g.reshape(a_scale, (*a_scale.shape, 1)) if a_scale.rank == 1 and a_scale.shape != (1,) else a_scale
    return quantized.requantized(g, total, (rows, b_scale), y_scale, y_zero_point)


@converts("ConvInteger", since=10)
def conv_integer(
    g: Context, x: Value, weight: Value, x_zero_point: Value | None = None, w_zero_point: Value | None = None, *,
    attrs: ConvAttributes,
) -> Value:
    kernel = quantized.centred(g, weight, quantized.per_channel(g, w_zero_point, weight))
    return conv(g, quantized.centred(g, x, x_zero_point), kernel, attrs=attrs)


@converts("QLinearConv", since=10)
def qlinear_conv(
    g: Context, x: Value, x_scale: Value, x_zero_point: Value, weight: Value, w_scale: Value, w_zero_point: Value, y_scale: Value,
    y_zero_point: Value, bias: Value | None = None, *, attrs: ConvAttributes,
) -> Value:
    total = conv_integer(g, x, weight, x_zero_point, w_zero_point, attrs=attrs)
    if bias is not None:
        total = g.call("nn.bias_add", total, bias)
    channels = w_scale
    if w_scale.rank == 1 and w_scale.shape != (1,):
        channels = g.reshape(w_scale, (*w_scale.shape, *[1] * (x.rank - 2)))
    return quantized.requantized(g, total, (x_scale, channels), y_scale, y_zero_point)
