"""Conversions between real numbers and integers: those of torch's own exporter of quantised models, and those of torchao.

torch multiplies by the reciprocal of a scale; Forge's operator divides by the scale, which may give a neighbouring integer: what
goes into it is multiplied before, and its scale is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes
from forge.compose import quantized
from forge.compose.products import dense, matmul
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

DECOMPOSED = "quantized_decomposed"
TORCHAO = "torchao"


@dataclass(frozen=True)
class _Spread:
    """What a scale or a zero point has an element for: the tensor, each index of ``axis``, or each block of ``axis``.

    Attributes:
        shape: of scales and zero points.
    """

    shape: tuple[Dim, ...] = ()
    axis: int = -1
    block_size: int = 0

    def over(self, g: Context, parameter: Value, x: Value) -> Value:
        """``parameter`` in a shape of as many axes as ``x`` that broadcasts against it."""
        spread = quantized.spread(g, g.reshape(parameter, self.shape), x, self.axis, self.block_size)
        return spread if spread.rank else g.reshape(spread, (1,) * x.rank)


def _quantized(g: Context, scaled: Value, zero_point: Value | None, spread: _Spread, low: int, high: int) -> Value:
    """``round(scaled) + zero_point``, limited to ``[low, high]``."""
    wide = g.cast(scaled, "float64" if scaled.dtype == "float64" else "float32")
    ones = g.scalar(1.0, wide)
    if zero_point is not None and spread.shape:
        ones = g.call("full", ones, shape=spread.shape)
    result = g.call("qnn.quantize", wide, ones, zero_point, out_dtype=g.dtype, axis=spread.axis if ones.rank else -1,
                    block_size=spread.block_size if ones.rank else 0)
    least, most = dtypes.integer_range(g.dtype)
    return result if low <= least and high >= most else g.call("clip", result, a_min=low, a_max=high)


def _dequantized(g: Context, x: Value, scale: Value, zero_point: Value | None, spread: _Spread) -> Value:
    """``(x - zero_point) * scale`` in the type of the scale."""
    scale = g.reshape(scale, spread.shape)
    if zero_point is not None and zero_point.shape != scale.shape:
        zero_point = g.call("broadcast_to", zero_point, shape=scale.shape)
    real = g.call("qnn.dequantize", x, scale, zero_point, out_dtype=scale.dtype, axis=spread.axis, block_size=spread.block_size)
    return g.cast(real, g.dtype)


def _zero_point(g: Context, given: Operand | None, dtype: str, spread: _Spread) -> Value | None:
    """A zero point in the type of the integers; None where it is known to be 0."""
    if given is None:
        return None
    value = g.tensor(given)
    known = g.array(value)
    if known is not None:
        low, high = dtypes.integer_range(dtype)
        if np.any(known != np.rint(known)) or np.any(known < low) or np.any(known > high):
            raise g.unsupported(f"zero_point: got numbers that {dtype} lacks; supported: integers from {low} to {high}")
        if not known.any():
            return None
    elif not dtypes.is_integer(value.dtype):
        raise g.unsupported(f"zero_point: got {value.type}; supported: integers, or constants that are whole numbers")
    return g.cast(g.reshape(value, spread.shape), dtype)


def _narrow(g: Context, x: Value, zero_point: Operand | None, low: int | None, high: int | None) -> Value:
    """A constant of int8 whose integers and zero points have four bits, as the limits say, as one of int4."""
    if x.dtype != "int8" or low is None or high is None or low < -8 or high > 7:
        return x
    codes = x.constant
    zeros = g.array(zero_point) if isinstance(zero_point, Value) else np.asarray(zero_point or 0)
    if codes is None or zeros is None or any(v.size and (v.min() < -8 or v.max() > 7) for v in (codes, zeros)):
        return x
    return quantized.weight(g.builder, codes.astype(dtypes.numpy_dtype("int4")))


def _inverse(g: Context, scale: Value) -> Value:
    return g.call("divide", g.scalar(1.0, scale), scale)


@converts("quantize_per_tensor.default", "quantize_per_tensor.tensor", domain=DECOMPOSED)
def quantize_per_tensor(
    g: Context, input: Value, scale: Operand, zero_point: Operand, *, quant_min: int, quant_max: int,  # noqa: A002
    dtype: str | None = None,
) -> Value:
    """The reciprocal of the scale is rounded to float32."""
    spread = _Spread()
    wide = scale if isinstance(scale, Value) else g.constant(scale, "float64")
    inverse = g.reshape(g.cast(_inverse(g, wide), "float32"), ())
    scaled = g.call("multiply", g.cast(input, "float32"), inverse)
    return _quantized(g, scaled, _zero_point(g, zero_point, g.dtype, spread), spread, quant_min, quant_max)


@converts("dequantize_per_tensor.default", "dequantize_per_tensor.tensor", domain=DECOMPOSED)
def dequantize_per_tensor(
    g: Context, input: Value, scale: Operand, zero_point: Operand, *, quant_min: int, quant_max: int,  # noqa: A002
    dtype: str | None = None, out_dtype: str | None = None,
) -> Value:
    wide = g.tensor(scale, "float64" if g.dtype == "float64" else "float32")
    return _dequantized(g, input, wide, _zero_point(g, zero_point, input.dtype, _Spread()), _Spread())


def _along(g: Context, x: Value, axis: int) -> _Spread:
    place = g.axis(axis, x.rank)
    return _Spread((x.shape[place],), place)


@converts("quantize_per_channel.default", domain=DECOMPOSED)
def quantize_per_channel(
    g: Context, input: Value, scales: Value, zero_points: Value, *, axis: int, quant_min: int, quant_max: int,  # noqa: A002
    dtype: str | None = None,
) -> Value:
    spread = _along(g, input, axis)
    scaled = g.call("multiply", *g.promoted(g.cast(input, "float32"), spread.over(g, _inverse(g, scales), input)))
    return _quantized(g, scaled, _zero_point(g, zero_points, g.dtype, spread), spread, quant_min, quant_max)


@converts("dequantize_per_channel.default", domain=DECOMPOSED)
def dequantize_per_channel(
    g: Context, input: Value, scales: Value, zero_points: Value | None, *, axis: int, quant_min: int,  # noqa: A002
    quant_max: int, dtype: str | None = None, out_dtype: str | None = None,
) -> Value:
    spread = _along(g, input, axis)
    return _dequantized(g, input, scales, _zero_point(g, zero_points, input.dtype, spread), spread)


def _groups(g: Context, x: Value, size: Dim) -> _Spread:
    """Blocks of the last axis."""
    *front, last = x.shape
    if not isinstance(size, int) or isinstance(last, int) and last % size:
        raise g.unsupported(f"blocks of {size} along the last axis of {x.type}; supported: blocks of a known size that fill it")
    return _Spread((*front, dims.floordiv(last, size)), x.rank - 1, size)


def _by_rows(g: Context, x: Value, scales: Value, zero_points: Value, spread: _Spread, low: int, high: int) -> Value:
    """The zero point is added before the sum is rounded."""
    scaled = g.call("multiply", *g.promoted(x, spread.over(g, _inverse(g, scales), x)))
    return _quantized(g, g.call("add", *g.promoted(scaled, spread.over(g, zero_points, x))), None, spread, low, high)


@converts("quantize_per_token.default", domain=DECOMPOSED)
def quantize_per_token(
    g: Context, input: Value, scales: Value, zero_points: Value, *, quant_min: int, quant_max: int,  # noqa: A002
    dtype: str | None = None,
) -> Value:
    return _by_rows(g, input, scales, zero_points, _groups(g, input, input.shape[-1]), quant_min, quant_max)


@converts("dequantize_per_token.default", domain=DECOMPOSED)
def dequantize_per_token(
    g: Context, input: Value, scales: Value, zero_points: Value, *, quant_min: int, quant_max: int,  # noqa: A002
    dtype: str | None = None, output_dtype: str | None = None,
) -> Value:
    spread = _groups(g, input, input.shape[-1])
    return _dequantized(g, input, scales, _zero_point(g, zero_points, input.dtype, spread), spread)


@converts("quantize_per_channel_group.default", domain=DECOMPOSED)
def quantize_per_channel_group(
    g: Context, input: Value, scales: Value, zero_points: Value, *, quant_min: int, quant_max: int,  # noqa: A002
    dtype: str | None = None, group_size: int = 128,
) -> Value:
    return _by_rows(g, input, scales, zero_points, _groups(g, input, group_size), quant_min, quant_max)


@converts("dequantize_per_channel_group.default", domain=DECOMPOSED)
def dequantize_per_channel_group(
    g: Context, input: Value, scales: Value, zero_points: Value | None, *, quant_min: int, quant_max: int,  # noqa: A002
    dtype: str | None = None, group_size: int = 128, output_dtype: str | None = None,
) -> Value:
    spread = _groups(g, input, group_size)
    input = _narrow(g, input, zero_points, quant_min, quant_max)  # noqa: A001
    return _dequantized(g, input, scales, _zero_point(g, zero_points, input.dtype, spread), spread)


@converts("choose_qparams.tensor", domain=DECOMPOSED)
def choose_qparams(
    g: Context, input: Value, *, quant_min: int, quant_max: int, eps: float, dtype: str | None = None,  # noqa: A002
) -> list[Value]:
    """Scale and zero point, of one element each, with which the integers span the tensor and 0."""
    low, high = (g.cast(v, "float32") for v in extremes(g, input, tuple(range(input.rank)), False))
    scale = g.call("divide", g.call("subtract", high, low), g.scalar(float(quant_max - quant_min), low))
    scale = g.call("maximum", scale, g.scalar(eps, scale))
    rounded = g.cast(g.call("round", g.call("divide", low, scale)), "int64")
    zero_point = g.call("subtract", g.scalar(quant_min, rounded), rounded)
    zero_point = g.call("clip", zero_point, a_min=quant_min, a_max=quant_max)
    return [g.reshape(g.cast(v, meta), (1,)) for v, meta in ((scale, g.meta(0).dtype), (zero_point, g.meta(1).dtype))]


@converts("choose_qparams_symmetric.tensor", domain=DECOMPOSED)
def choose_qparams_symmetric(
    g: Context, input: Value, *, quant_min: int, quant_max: int, eps: float, dtype: str,  # noqa: A002
) -> list[Value]:
    """Scale and zero point, of one element each; the zero point is the middle of the integers."""
    low, high = extremes(g, input, tuple(range(input.rank)), False)
    most = g.call("maximum", g.call("negative", low), high)
    scale = g.cast(g.call("divide", most, g.scalar((quant_max - quant_min) / 2, most)), "float32")
    scale = g.call("maximum", scale, g.scalar(eps, scale))
    middle = 128 if dtype == "uint8" else 0
    return [g.reshape(g.cast(scale, g.meta(0).dtype), (1,)), g.constant([middle], g.meta(1).dtype)]


@converts("choose_qparams_per_token.default", domain=DECOMPOSED)
def choose_qparams_per_token(g: Context, input: Value, *, dtype: str) -> list[Value]:  # noqa: A002
    """Scales of rows, by which int8 spans them with a zero point of 0."""
    most = g.call("max", g.call("abs", input), axis=(input.rank - 1,), keepdims=True)
    most = g.cast(most, "float32") if most.dtype == "float16" else most
    scale = g.call("divide", g.call("maximum", most, g.scalar(1e-5, most)), g.scalar(127.0, most))
    return [g.cast(v, g.meta(k).dtype) for k, v in enumerate((scale, g.call("zeros_like", scale)))]


@converts("choose_qparams_per_token_asymmetric.default", "_choose_qparams_per_token_asymmetric_impl.default", domain=DECOMPOSED)
def choose_qparams_per_token_asymmetric(g: Context, input: Value, *, dtype: str) -> list[Value]:  # noqa: A002
    """Scales and zero points of rows, by which int8 spans them and 0; the end with the smaller error is exact."""
    low, high = extremes(g, input, (input.rank - 1,), True)
    scale = g.call("divide", g.call("subtract", high, low), g.scalar(255.0, low))
    scale = g.call("maximum", scale, g.scalar(float(np.finfo(np.float32).eps), scale))
    low, high = g.call("divide", low, scale), g.call("divide", high, scale)
    least, most = g.scalar(-128.0, scale), g.scalar(127.0, scale)
    errors = g.call("add", g.call("add", least, low), g.call("add", most, high))
    zero_point = g.call("where", g.call("greater", errors, g.scalar(0.0, errors)), g.call("subtract", least, low),
                        g.call("subtract", most, high))
    zero_point = g.call("round", g.call("clip", zero_point, a_min=-128.0, a_max=127.0))
    return [g.cast(v, g.meta(k).dtype) for k, v in enumerate((scale, zero_point))]


@converts("fake_quant_per_channel.default", domain=DECOMPOSED)
def fake_quant_per_channel(
    g: Context, input: Value, scales: Value, zero_points: Value, *, axis: int, quant_min: int, quant_max: int,  # noqa: A002
) -> Value:
    """Real numbers rounded to the integers and back."""
    spread = _along(g, input, axis)
    scale, zero = (spread.over(g, g.cast(v, "float32"), input) for v in (scales, zero_points))
    rounded = g.call("add", g.call("round", g.call("multiply", input, _inverse(g, scale))), zero)
    limited = g.call("clip", rounded, a_min=float(quant_min), a_max=float(quant_max))
    return g.call("multiply", g.call("subtract", limited, zero), scale)


def extremes(g: Context, x: Value, axes: tuple[int, ...], keepdims: bool) -> list[Value]:
    """The smallest and the largest element, or 0 where all are on one side of it."""
    zero = g.scalar(0, x)
    pairs = (("min", "minimum"), ("max", "maximum"))
    return [g.call(of_two, g.call(of_all, x, axis=axes, keepdims=keepdims), zero) for of_all, of_two in pairs]


@converts("convert_element_type.no_fuse", domain=DECOMPOSED)
def convert_element_type(g: Context, input: Value, *, dtype: str | None = None) -> Value:  # noqa: A002
    return g.cast(input, g.dtype)


def _blocks(g: Context, x: Value, block_size: Sequence[Dim]) -> _Spread:
    """How blocks of these sizes lie in ``x``; several axes may be cut only if all but one are cut into single elements."""
    cut = [k for k, (size, d) in enumerate(zip(block_size, x.shape)) if not dims.equal(size, d)]
    if not cut:
        return _Spread()
    if len(cut) == 1 and block_size[cut[0]] == 1:
        return _along(g, x, cut[0])
    long = [k for k, size in enumerate(block_size) if size != 1] or [x.rank - 1]
    axis, size = long[0], block_size[long[0]]
    if len(long) > 1 or not isinstance(size, int):
        raise g.unsupported(f"block_size: got {list(block_size)} for {x.type}; supported: blocks of a known size along one axis")
    shape = [dims.floordiv(d, size) if k == axis else d for k, d in enumerate(x.shape)]
    return _Spread(tuple(shape), axis, size)


@converts("quantize_affine.default", domain=TORCHAO)
def quantize_affine(
    g: Context, input: Value, scale: Value, zero_point: Value | None = None, *, block_size: tuple[Dim, ...],  # noqa: A002
    output_dtype: str | None = None, quant_min: int | None = None, quant_max: int | None = None,
) -> Value:
    spread = _blocks(g, input, block_size)
    low, high = _limits(g, g.dtype, quant_min, quant_max)
    scaled = g.call("multiply", *g.promoted(input, spread.over(g, _inverse(g, scale), input)))
    return _quantized(g, scaled, _zero_point(g, zero_point, g.dtype, spread), spread, low, high)


@converts("dequantize_affine.default", domain=TORCHAO)
def dequantize_affine(
    g: Context, input: Value, scale: Value, zero_point: Value | None = None, *, block_size: tuple[Dim, ...],  # noqa: A002
    input_dtype: str | None = None, quant_min: int | None = None, quant_max: int | None = None, output_dtype: str | None = None,
) -> Value:
    if not dtypes.is_integer(input.dtype):
        raise g.unsupported(f"input: got {input.type}; supported: integers")
    spread = _blocks(g, input, block_size)
    input = _narrow(g, input, zero_point, quant_min, quant_max)  # noqa: A001
    wide = g.cast(scale, "float32") if scale.dtype != g.dtype and scale.dtype != "float64" else scale
    return _dequantized(g, input, wide, _zero_point(g, zero_point, input.dtype, spread), spread)


def _limits(g: Context, dtype: str, low: int | None, high: int | None) -> tuple[int, int]:
    if not dtypes.is_integer(dtype):
        raise g.unsupported(f"target type: got {dtype}; supported: integers")
    least, most = dtypes.integer_range(dtype)
    return least if low is None else int(low), most if high is None else int(high)


@converts("choose_qparams_affine.default", domain=TORCHAO)
def choose_qparams_affine(
    g: Context, input: Value, *, mapping_type: str, block_size: tuple[Dim, ...], target_dtype: str,  # noqa: A002
    quant_min: int | None = None, quant_max: int | None = None, eps: float | None = None, scale_dtype: str | None = None,
    zero_point_dtype: str | None = None, keepdim: bool = False,
) -> list[Value]:
    """Scales and zero points of blocks, by which the integers span each block and 0."""
    least, most = _limits(g, target_dtype, quant_min, quant_max)
    shape: list[Dim] = []
    axes: list[int] = []
    for size, d in zip(block_size, input.shape):
        if not dims.equal(size, d) and size != 1:
            shape.append(dims.floordiv(d, size))
            d = size
        if size != 1:
            axes.append(len(shape))
        shape.append(d)
    low, high = extremes(g, g.reshape(input, shape), tuple(axes), True)
    smallest = float(np.finfo(np.float16).smallest_normal) if input.dtype == "float16" else float(np.finfo(np.float32).tiny)
    eps = smallest if eps is None else eps
    if mapping_type == "ASYMMETRIC":
        scale = g.call("divide", g.call("subtract", high, low), g.scalar(float(most - least), low))
        scale = g.call("maximum", scale, g.scalar(eps, scale))
        rounded = g.call("round", g.call("divide", low, scale))
        zero_point = g.call("subtract", g.scalar(least, rounded), rounded)
        zero_point = g.call("clip", zero_point, a_min=least, a_max=most)
    else:
        if mapping_type == "SYMMETRIC":
            scale = g.call("maximum", g.call("negative", low), high)
            scale = g.call("divide", scale, g.scalar(float(most - least) / 2, scale))
        else:
            sides = (g.call("divide", v, g.scalar(float(limit), v)) for v, limit in ((low, least), (high, most)))
            scale = g.call("maximum", *sides)
        scale = g.call("maximum", scale, g.scalar(eps, scale))
        zero_point = g.call("full", g.scalar(int((most + least + 1) / 2), scale), shape=scale.shape)
    return [g.reshape(g.cast(v, g.meta(k).dtype), g.meta(k).shape) for k, v in enumerate((scale, zero_point))]


@converts("_int_mm.default")
def int_mm(g: Context, self: Value, mat2: Value) -> Value:
    return matmul(g, g.cast(self, "int32"), g.cast(mat2, "int32"))


@converts("_weight_int8pack_mm.default")
def weight_int8pack_mm(g: Context, self: Value, mat2: Value, scales: Value) -> Value:
    """``self @ (mat2 * scales).T``: mat2 is [N, K] of int8, with a scale for each of the N; sums are of float32."""
    real = g.call("qnn.dequantize", mat2, g.cast(scales, "float32"), axis=0)
    return g.cast(dense(g, g.cast(self, "float32"), real), g.dtype)
