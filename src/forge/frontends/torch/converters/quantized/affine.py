"""Conversions between real numbers and integers: those of torch's own exporter of quantized models, and those of torchao."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.compose import affine
from forge.compose.affine import Spread
from forge.compose.products import dense, matmul
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

DECOMPOSED = "quantized_decomposed"
TORCHAO = "torchao"


@dataclass(frozen=True, kw_only=True)
class Codes:
    """Limits of the integers; the types are those of the results."""

    quant_min: int
    quant_max: int
    dtype: str | None = None
    out_dtype: str | None = None
    output_dtype: str | None = None


def _quantized(g: Context, scaled: Value, zero_point: Operand | None, spread: Spread, codes: Codes) -> Value:
    found = _zero_point(g, zero_point, g.dtype, spread)
    return affine.quantize(g, scaled, found, spread, g.dtype, codes.quant_min, codes.quant_max)


def _dequantized(g: Context, x: Value, scale: Value, zero_point: Operand | None, spread: Spread) -> Value:
    return g.cast(affine.dequantize(g, x, scale, _zero_point(g, zero_point, x.dtype, spread), spread), g.dtype)


def _zero_point(g: Context, given: Operand | None, dtype: str, spread: Spread) -> Value | None:
    return affine.whole_zero_point(g, None if given is None else g.tensor(given), dtype, spread)


def _scaled(g: Context, x: Value, scale: Value, spread: Spread) -> Value:
    return g.call("multiply", *g.promoted(x, spread.over(g, affine.inverse(g, scale), x)))


def _results(g: Context, *values: Value) -> list[Value]:
    """In torch's types and shapes."""
    return [g.reshape(g.cast(v, g.meta(k).dtype), g.meta(k).shape) for k, v in enumerate(values)]


@converts("quantize_per_tensor.default", "quantize_per_tensor.tensor", domain=DECOMPOSED)
def quantize_per_tensor(g: Context, input: Value, scale: Operand, zero_point: Operand, *, codes: Codes) -> Value:  # noqa: A002
    """The reciprocal of the scale is rounded to float32."""
    wide = scale if isinstance(scale, Value) else g.constant(scale, "float64")
    inverse = g.reshape(g.cast(affine.inverse(g, wide), "float32"), ())
    return _quantized(g, g.call("multiply", g.cast(input, "float32"), inverse), zero_point, Spread(), codes)


@converts("dequantize_per_tensor.default", "dequantize_per_tensor.tensor", domain=DECOMPOSED)
def dequantize_per_tensor(g: Context, input: Value, scale: Operand, zero_point: Operand, *, codes: Codes) -> Value:  # noqa: A002
    wide = g.tensor(scale, "float64" if g.dtype == "float64" else "float32")
    return _dequantized(g, input, wide, zero_point, Spread())


@converts("quantize_per_channel.default", domain=DECOMPOSED)
def quantize_per_channel(
    g: Context, input: Value, scales: Value, zero_points: Value, *, axis: int, codes: Codes  # noqa: A002
) -> Value:
    spread = affine.along(g, input, axis)
    return _quantized(g, _scaled(g, g.cast(input, "float32"), scales, spread), zero_points, spread, codes)


@converts("dequantize_per_channel.default", domain=DECOMPOSED)
def dequantize_per_channel(
    g: Context, input: Value, scales: Value, zero_points: Value | None, *, axis: int, codes: Codes  # noqa: A002
) -> Value:
    return _dequantized(g, input, scales, zero_points, affine.along(g, input, axis))


def _by_blocks(name: str, block_size: int | None) -> None:
    """``block_size`` is the default; None: whole rows."""

    @converts(f"quantize_{name}.default", domain=DECOMPOSED)
    def quantize(
        g: Context, input: Value, scales: Value, zero_points: Value,  # noqa: A002
        *, group_size: int | None = block_size, codes: Codes,
    ) -> Value:
        """The zero point is added before the sum is rounded."""
        spread = affine.blocks_of_last(g, input, group_size or input.shape[-1])
        scaled = _scaled(g, input, scales, spread)
        total = g.call("add", *g.promoted(scaled, spread.over(g, zero_points, input)))
        return _quantized(g, total, None, spread, codes)

    @converts(f"dequantize_{name}.default", domain=DECOMPOSED)
    def dequantize(
        g: Context, input: Value, scales: Value, zero_points: Value | None,  # noqa: A002
        *, group_size: int | None = block_size, codes: Codes,
    ) -> Value:
        spread = affine.blocks_of_last(g, input, group_size or input.shape[-1])
        narrow = affine.narrowed(g, input, zero_points, codes.quant_min, codes.quant_max)
        return _dequantized(g, narrow, scales, zero_points, spread)


_by_blocks("per_token", None)
_by_blocks("per_channel_group", 128)


@converts("choose_qparams.tensor", domain=DECOMPOSED)
def choose_qparams(g: Context, input: Value, *, eps: float, codes: Codes) -> list[Value]:  # noqa: A002
    """Scale and zero point, of one element each, with which the integers span the tensor and 0."""
    low, high = affine.range_with_zero(g, g.cast(input, "float32"), tuple(range(input.rank)), False)
    return _results(g, *affine.asymmetric_parameters(g, low, high, codes.quant_min, codes.quant_max, eps))


@converts("choose_qparams_symmetric.tensor", domain=DECOMPOSED)
def choose_qparams_symmetric(g: Context, input: Value, *, eps: float, codes: Codes) -> list[Value]:  # noqa: A002
    """Scale and zero point, of one element each; the zero point is the middle of the integers."""
    low, high = affine.range_with_zero(g, g.cast(input, "float32"), tuple(range(input.rank)), False)
    scale = affine.symmetric_scale(g, low, high, codes.quant_min, codes.quant_max, eps)
    middle = 128 if codes.dtype == "uint8" else 0
    return [*_results(g, scale), g.constant([middle], g.meta(1).dtype)]


@converts("choose_qparams_per_token.default", domain=DECOMPOSED)
def choose_qparams_per_token(g: Context, input: Value, *, dtype: str) -> list[Value]:  # noqa: A002
    """Scales of rows, by which int8 spans them with a zero point of 0."""
    most = g.call("max", g.call("abs", input), axis=(input.rank - 1,), keepdims=True)
    most = g.cast(most, "float32") if most.dtype == "float16" else most
    scale = g.call("divide", g.call("maximum", most, g.scalar(1e-5, most)), g.scalar(127.0, most))
    return _results(g, scale, g.call("zeros_like", scale))


@converts("choose_qparams_per_token_asymmetric.default", "_choose_qparams_per_token_asymmetric_impl.default", domain=DECOMPOSED)
def choose_qparams_per_token_asymmetric(g: Context, input: Value, *, dtype: str) -> list[Value]:  # noqa: A002
    """Scales and zero points of rows, by which int8 spans them and 0; the end with the smaller error is exact."""
    low, high = affine.range_with_zero(g, input, (input.rank - 1,), True)
    scale, _ = affine.asymmetric_parameters(g, low, high, -128, 127, float(np.finfo(np.float32).eps))
    zero_point = affine.zero_point_of_least_error(g, g.call("divide", low, scale), g.call("divide", high, scale))
    return _results(g, scale, zero_point)


@converts("fake_quant_per_channel.default", domain=DECOMPOSED)
def fake_quant_per_channel(
    g: Context, input: Value, scales: Value, zero_points: Value, *, axis: int, codes: Codes  # noqa: A002
) -> Value:
    """Real numbers rounded to the integers and back."""
    spread = affine.along(g, input, axis)
    scale, zero = (spread.over(g, g.cast(v, "float32"), input) for v in (scales, zero_points))
    return affine.fake_quantize(g, input, scale, zero, codes.quant_min, codes.quant_max)


@converts("convert_element_type.no_fuse", domain=DECOMPOSED)
def convert_element_type(g: Context, input: Value, *, dtype: str | None = None) -> Value:  # noqa: A002
    return g.cast(input, g.dtype)


def _limits(g: Context, dtype: str, low: int | None, high: int | None) -> Codes:
    if not dtypes.is_integer(dtype):
        raise g.unsupported(f"target type: got {dtype}; supported: integers")
    least, most = dtypes.integer_range(dtype)
    return Codes(quant_min=least if low is None else int(low), quant_max=most if high is None else int(high))


@converts("quantize_affine.default", domain=TORCHAO)
def quantize_affine(
    g: Context, input: Value, scale: Value, zero_point: Value | None = None, *, block_size: tuple[Dim, ...],  # noqa: A002
    output_dtype: str | None = None, quant_min: int | None = None, quant_max: int | None = None,
) -> Value:
    spread = affine.blocks(g, input, block_size)
    codes = _limits(g, g.dtype, quant_min, quant_max)
    return _quantized(g, _scaled(g, input, scale, spread), zero_point, spread, codes)


@converts("dequantize_affine.default", domain=TORCHAO)
def dequantize_affine(
    g: Context, input: Value, scale: Value, zero_point: Value | None = None, *, block_size: tuple[Dim, ...],  # noqa: A002
    input_dtype: str | None = None, quant_min: int | None = None, quant_max: int | None = None, output_dtype: str | None = None,
) -> Value:
    if not dtypes.is_integer(input.dtype):
        raise g.unsupported(f"input: got {input.type}; supported: integers")
    spread = affine.blocks(g, input, block_size)
    narrow = affine.narrowed(g, input, zero_point, quant_min, quant_max)
    wide = g.cast(scale, "float32") if scale.dtype != g.dtype and scale.dtype != "float64" else scale
    return _dequantized(g, narrow, wide, zero_point, spread)


@converts("choose_qparams_affine.default", domain=TORCHAO)
def choose_qparams_affine(
    g: Context, input: Value, *, mapping_type: str, block_size: tuple[Dim, ...], target_dtype: str,  # noqa: A002
    quant_min: int | None = None, quant_max: int | None = None, eps: float | None = None, scale_dtype: str | None = None,
    zero_point_dtype: str | None = None, keepdim: bool = False,
) -> list[Value]:
    """Scales and zero points of blocks, by which the integers span each block and 0."""
    codes = _limits(g, target_dtype, quant_min, quant_max)
    low, high = affine.range_of_blocks(g, input, block_size)
    smallest = float(np.finfo(np.float16).smallest_normal) if input.dtype == "float16" else float(np.finfo(np.float32).tiny)
    limits = (codes.quant_min, codes.quant_max, smallest if eps is None else eps)
    if mapping_type == "ASYMMETRIC":
        return _results(g, *affine.asymmetric_parameters(g, low, high, *limits))
    choose = affine.symmetric_scale if mapping_type == "SYMMETRIC" else affine.one_sided_scale
    scale = choose(g, low, high, *limits)
    middle = int((codes.quant_max + codes.quant_min + 1) / 2)
    return _results(g, scale, g.call("full", g.scalar(middle, scale), shape=scale.shape))


@converts("_int_mm.default")
def int_mm(g: Context, self: Value, mat2: Value) -> Value:
    return matmul(g, g.cast(self, "int32"), g.cast(mat2, "int32"))


@converts("_weight_int8pack_mm.default")
def weight_int8pack_mm(g: Context, self: Value, mat2: Value, scales: Value) -> Value:
    """``self @ (mat2 * scales).T``: mat2 is [N, K] of int8, with a scale for each of the N; sums are of float32."""
    real = g.call("qnn.dequantize", mat2, g.cast(scales, "float32"), axis=0)
    return g.cast(dense(g, g.cast(self, "float32"), real), g.dtype)
