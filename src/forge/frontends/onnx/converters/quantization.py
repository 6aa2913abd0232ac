"""Quantised operators. Scales and zero points are per tensor, per axis or per block of an axis."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims, dtypes
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.contraction import conv, product
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype

Ints = tuple[int, ...]


@converts("QuantizeLinear", since=10)
def quantize_10(g: Context, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    return quantize(g, x, scale, zero_point)


@converts("QuantizeLinear", since=13)
def quantize_13(g: Context, x: Value, scale: Value, zero_point: Value | None = None, *, axis: int = 1) -> Value:
    return quantize(g, x, scale, zero_point, axis=axis)


@converts("QuantizeLinear", since=19)
def quantize_19(
    g: Context, x: Value, scale: Value, zero_point: Value | None = None, *, axis: int = 1, saturate: int = 1
) -> Value:
    return quantize(g, x, scale, zero_point, axis=axis, saturate=saturate)


@converts("QuantizeLinear", since=21)
def quantize(
    g: Context,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Value:
    """round(x / scale) + zero_point, saturated; floats of eight bits are cast instead of rounded."""
    dtype = _quantized_dtype(g, zero_point, output_dtype)
    if not block_size and not precision and dtypes.is_integer(dtype) and dtypes.is_float(x.dtype) and x.dtype == scale.dtype:
        return g.call("qnn.quantize", x, scale, zero_point, axis=_axis(g, axis, x, scale), out_dtype=dtype)
    wide = element_dtype(precision, "attribute 'precision'") if precision else scale.dtype
    wide = wide if wide == "float64" else "float32"
    spread = _spread(g, g.cast(scale, wide), x, axis, block_size)
    ratio = g.call("divide", g.cast(x, wide), spread)
    if not dtypes.is_integer(dtype):
        return g.call("cast", ratio, dtype=dtype, saturate=bool(saturate) or not dtype.startswith("float8"))
    rounded = g.call("round", ratio)
    if zero_point is not None:
        rounded = g.call("add", rounded, _spread(g, g.cast(zero_point, wide), x, axis, block_size))
    low, high = dtypes.integer_range(dtype)
    return g.cast(g.call("clip", rounded, a_min=low, a_max=high), dtype)


def _axis(g: Context, axis: int, x: Value, scale: Value) -> int:
    """The axis of a scale for each of its elements; what is given for a single scale means nothing."""
    return -1 if scale.rank == 0 or scale.shape == (1,) else g.axis(axis, x.rank)


def _quantized_dtype(g: Context, zero_point: Value | None, output_dtype: int) -> str:
    declared = element_dtype(output_dtype, "attribute 'output_dtype'") if output_dtype else None
    if zero_point is not None and declared not in (None, zero_point.dtype):
        raise g.invalid(f"attribute 'output_dtype': got {declared}; the zero point is {zero_point.dtype}; expected equal types")
    return zero_point.dtype if zero_point is not None else declared or "uint8"


@converts("DequantizeLinear", since=10)
def dequantize_10(g: Context, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    return dequantize(g, x, scale, zero_point)


@converts("DequantizeLinear", since=13)
def dequantize_13(g: Context, x: Value, scale: Value, zero_point: Value | None = None, *, axis: int = 1) -> Value:
    return dequantize(g, x, scale, zero_point, axis=axis)


@converts("DequantizeLinear", since=21)
def dequantize(
    g: Context,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """(x - zero_point) * scale."""
    dtype = element_dtype(output_dtype, "attribute 'output_dtype'") if output_dtype else scale.dtype
    if not block_size and dtypes.is_integer(x.dtype) and dtype == scale.dtype:
        return g.call("qnn.dequantize", x, scale, zero_point, axis=_axis(g, axis, x, scale), out_dtype=dtype)
    wide = "float64" if scale.dtype == "float64" else "float32"
    data = _difference(g, x, None if zero_point is None else _spread(g, zero_point, x, axis, block_size), wide)
    spread = _spread(g, g.cast(scale, wide), x, axis, block_size)
    return g.cast(g.call("multiply", data, spread), dtype)


def _difference(g: Context, x: Value, zero_point: Value | None, dtype: str) -> Value:
    """x - zero_point without overflow."""
    if zero_point is None:
        return g.cast(x, dtype)
    if not dtypes.is_integer(x.dtype):
        return g.call("subtract", g.cast(x, dtype), g.cast(zero_point, dtype))
    wide = "int32" if dtypes.bits(x.dtype) <= 16 else "int64"
    return g.cast(g.call("subtract", g.cast(x, wide), g.cast(zero_point, wide)), dtype)


def _spread(g: Context, parameter: Value, x: Value, axis: int, block_size: int) -> Value:
    """A scale or zero point in a shape that broadcasts against ``x``."""
    if parameter.rank == 0 or (parameter.rank == 1 and parameter.shape == (1,) and not block_size):
        return g.reshape(parameter, ())
    place = g.axis(axis, x.rank)
    if block_size:
        return _repeated(g, parameter, x, place, block_size)
    if parameter.rank != 1:
        raise g.invalid(f"scale: got rank {parameter.rank}; expected 0 or 1, or a block_size")
    shape = [1] * x.rank
    return g.reshape(parameter, [*shape[:place], parameter.shape[0], *shape[place + 1 :]])


def _repeated(g: Context, parameter: Value, x: Value, axis: int, block_size: int) -> Value:
    """Each element ``block_size`` times along ``axis``, cut to the size of ``x``."""
    whole = g.call("repeat", parameter, repeats=block_size, axis=axis)
    if dims.equal(whole.shape[axis], x.shape[axis]):
        return whole
    return g.call("strided_slice", whole, begin=(0,), end=(x.shape[axis],), strides=(1,), axes=(axis,))


@converts("MatMulInteger", since=10)
def matmul_integer(g: Context, a: Value, b: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None) -> Value:
    return product(g, _centred_rows(g, a, a_zero_point), _centred(g, b, b_zero_point))


def _centred(g: Context, x: Value, zero_point: Value | None) -> Value:
    """x - zero_point in 32 bits."""
    wide = g.cast(x, "int32")
    return wide if zero_point is None else g.call("subtract", wide, g.cast(zero_point, "int32"))


def _centred_rows(g: Context, x: Value, zero_point: Value | None) -> Value:
    """A zero point for each row of a matrix is a vector."""
    if zero_point is not None and zero_point.rank == 1 and zero_point.shape != (1,):
        zero_point = g.reshape(zero_point, (*zero_point.shape, 1))
    return _centred(g, x, zero_point)


@converts("QLinearMatMul", since=10)
def qlinear_matmul(
    g: Context,
    a: Value,
    a_scale: Value,
    a_zero_point: Value,
    b: Value,
    b_scale: Value,
    b_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
) -> Value:
    total = product(g, _centred_rows(g, a, a_zero_point), _centred(g, b, b_zero_point))
    rows = g.reshape(a_scale, (*a_scale.shape, 1)) if a_scale.rank == 1 and a_scale.shape != (1,) else a_scale
    return _requantized(g, total, (rows, b_scale), y_scale, y_zero_point)


def _requantized(g: Context, total: Value, scales: Sequence[Value], y_scale: Value, y_zero_point: Value) -> Value:
    """round(total * scales / y_scale) + y_zero_point, saturated."""
    factor = g.call("multiply", *(g.cast(s, "float32") for s in scales))
    real = g.call("multiply", g.cast(total, "float32"), g.call("divide", factor, g.cast(y_scale, "float32")))
    rounded = g.call("add", g.call("round", real), g.cast(y_zero_point, "float32"))
    low, high = dtypes.integer_range(y_zero_point.dtype)
    return g.cast(g.call("clip", rounded, a_min=low, a_max=high), y_zero_point.dtype)


@converts("ConvInteger", since=10)
def conv_integer(
    g: Context,
    x: Value,
    weight: Value,
    x_zero_point: Value | None = None,
    w_zero_point: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    data = _centred(g, x, x_zero_point)
    taps = _centred(g, weight, _per_channel(g, w_zero_point, weight))
    return conv(
        g, data, taps, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads, strides=strides
    )


def _per_channel(g: Context, parameter: Value | None, weight: Value) -> Value | None:
    """One number for each output channel of a weight, in a shape that broadcasts against it."""
    if parameter is None or parameter.rank == 0 or parameter.shape == (1,):
        return parameter
    return g.reshape(parameter, (*parameter.shape, *[1] * (weight.rank - 1)))


@converts("QLinearConv", since=10)
def qlinear_conv(
    g: Context,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    weight: Value,
    w_scale: Value,
    w_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    total = conv_integer(
        g,
        x,
        weight,
        x_zero_point,
        w_zero_point,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    if bias is not None:
        total = g.call("nn.bias_add", total, bias)
    channels = w_scale
    if w_scale.rank == 1 and w_scale.shape != (1,):
        channels = g.reshape(w_scale, (*w_scale.shape, *[1] * (x.rank - 2)))
    return _requantized(g, total, (x_scale, channels), y_scale, y_zero_point)
