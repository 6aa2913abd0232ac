"""Matrix products, convolutions and attention layers of quantized tensors. Sums of products of integers are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge import dims
from forge.compose import quantized
from forge.compose.products import matmul
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.core.windows import ConvAttributes
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.microsoft.attention import (
    ProjectedAttributes,
    check_options,
    head_sizes,
    projected_attention,
)
from forge.frontends.onnx.converters.microsoft.convolutions import channels_behind, channels_first
from forge.frontends.onnx.converters.quantized import quantize as quantization
from forge.frontends.onnx.registry import converts
from forge.ops.core.term import Term


@converts("MatMulInteger16", domain=DOMAIN)
def matmul_integer_16(g: Context, a: Value, b: Value) -> Value:
    wide = "uint32" if a.dtype == b.dtype == "uint16" else "int32"
    return matmul(g, g.cast(a, wide), g.cast(b, wide))


def scaled(g: Context, total: Value, scales: Sequence[Value], bias: Value | None = None) -> Value:
    """total * the product of the scales, which is computed first, + bias, as float32."""
    factor = _factor(g, scales)
    result = g.call("multiply", g.cast(total, "float32"), factor)
    return result if bias is None else g.call("add", result, bias)


def _factor(g: Context, scales: Sequence[Value]) -> Value:
    parts = [g.reshape(s, ()) if s.shape == (1,) else s for s in scales]
    return parts[0] if len(parts) == 1 else g.call("multiply", *parts)


@converts("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(
    g: Context, a: Value, b: Value, a_scale: Value, b_scale: Value, a_zero_point: Value | None = None,
    b_zero_point: Value | None = None, bias: Value | None = None,
) -> Value:
    """Scale and zero point of ``b`` are numbers, or one for each column."""
    total = matmul(g, quantized.centred(g, a, a_zero_point), quantized.centred(g, b, b_zero_point))
    return scaled(g, total, (a_scale, b_scale), bias)


@converts("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(
    g: Context, a: Value, b: Value, b_scale: Value, b_zero_point: Value | None = None, bias: Value | None = None
) -> Value:
    """``a`` is rounded to uint8 with a scale that its range gives, as DynamicQuantizeLinear does."""
    codes, scale, zero_point = _rounded_by_range(g, a)
    return matmul_integer_to_float(g, codes, b, scale, b_scale, zero_point, b_zero_point, bias)


def _rounded_by_range(g: Context, x: Value) -> tuple[Value, Value, Value]:
    """Codes of uint8, their scale and zero point; 0 is among the real numbers that have a code."""
    axes = tuple(range(x.rank))
    low, high = (Term(g, g.call(op, x, axis=axes, keepdims=False)) for op in ("min", "max"))
    low, high = low.minimum(0), high.maximum(0)
    width = high - low
    scale = width.equals(0).where(1, width / 255)
    zero_point = g.call("clip", g.call("round", (0 - low / scale).value), a_min=0.0, a_max=255.0)
    codes = g.cast(zero_point, "uint8")
    return g.call("qnn.quantize", x, scale.value, codes, out_dtype="uint8"), scale.value, codes


@converts("QGemm", domain=DOMAIN)
def gemm(
    g: Context, a: Value, a_scale: Value, a_zero_point: Value, b: Value, b_scale: Value, b_zero_point: Value,
    c: Value | None = None, y_scale: Value | None = None, y_zero_point: Value | None = None,
    *, alpha: float = 1.0, transA: int = 0, transB: int = 0,  # noqa: N803
) -> Value:
    """``alpha * (a @ b + c)``; without y_scale the result is real."""
    if a.rank != 2 or b.rank != 2:
        raise g.invalid(f"got ranks {a.rank} and {b.rank}; expected matrices")
    left = g.call("transpose", a, axes=(1, 0)) if transA else a
    right = g.call("transpose", b, axes=(1, 0)) if transB else b
    total = matmul(g, quantized.centred(g, left, a_zero_point), quantized.centred(g, right, b_zero_point))
    if c is not None:
        total = g.call("add", total, c)
    factor = _factor(g, (a_scale, b_scale))
    if alpha != 1.0:
        factor = (Term(g, factor) * alpha).value
    if y_scale is None:
        return scaled(g, total, (factor,))
    zero_point = g.scalar(0, a) if y_zero_point is None else y_zero_point
    return quantized.requantized(g, total, (factor, g.constant(1.0, "float32")), y_scale, zero_point)


@dataclass(frozen=True, kw_only=True)
class LayoutConvAttributes(ConvAttributes):
    channels_last: int = 0


@converts("QLinearConv", domain=DOMAIN)
def conv(
    g: Context, x: Value, x_scale: Value, x_zero_point: Value, weight: Value, w_scale: Value, w_zero_point: Value, y_scale: Value,
    y_zero_point: Value, bias: Value | None = None, *, attrs: LayoutConvAttributes,
) -> Value:
    data = channels_first(g, x) if attrs.channels_last else x
    weights = (weight, w_scale, w_zero_point)
    result = quantization.qlinear_conv(g, data, x_scale, x_zero_point, *weights, y_scale, y_zero_point, bias, attrs=attrs)
    return channels_behind(g, result) if attrs.channels_last else result


@converts("QAttention", domain=DOMAIN)
def attention(
    g: Context, x: Value, weights: Value, bias: Value, x_scale: Value, weights_scale: Value, mask_index: Value | None = None,
    x_zero_point: Value | None = None, weights_zero_point: Value | None = None, past: Value | None = None,
    *, attrs: ProjectedAttributes,
) -> list[Value]:
    """Attention after a projection of integers; scores and probabilities are real."""
    check_options(g, attrs.do_rotary, attrs.past_present_share_buffer)
    sizes = head_sizes(g, weights, attrs.num_heads, None)
    if dims.different(bias.shape[0], sum(sizes)):
        raise g.invalid(f"bias: got {bias.type}; expected {sum(sizes)} elements")
    projected = matmul_integer_to_float(g, x, weights, x_scale, weights_scale, x_zero_point, weights_zero_point, bias)
    return projected_attention(g, projected, sizes, mask_index, past, attrs)
