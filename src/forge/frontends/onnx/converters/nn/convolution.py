"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose.windows import transposed_padding
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.core.windows import ConvAttributes, ConvTransposeAttributes, spatial_rank
from forge.frontends.onnx.registry import converts


@converts("Conv", since=1)
def conv(g: Context, x: Value, weight: Value, bias: Value | None = None, *, attrs: ConvAttributes) -> Value:
    rank = spatial_rank(g, x)
    if weight.rank != x.rank:
        raise g.invalid(f"weight: got rank {weight.rank}; expected {x.rank}, that of the data")
    kernel = attrs.kernel(g, weight)
    strides, dilations, pads = attrs.window(g, x, kernel)
    result = g.call(
        f"nn.conv{rank}d", x, weight, strides=strides, padding=pads, dilation=dilations, groups=attrs.group, kernel_size=kernel
    )
    return result if bias is None else g.call("nn.bias_add", result, bias)


@converts("ConvTranspose", since=1)
def conv_transpose(g: Context, x: Value, weight: Value, bias: Value | None = None, *, attrs: ConvTransposeAttributes) -> Value:
    rank = spatial_rank(g, x)
    kernel = attrs.kernel(g, weight)
    strides, dilations = attrs.strides_and_dilations(g, len(kernel))
    extra: tuple[Dim, ...] = tuple(attrs.output_padding or (0,) * rank)
    if attrs.output_shape:
        wanted: Sequence[Dim] = attrs.output_shape[-rank:]
    elif attrs.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * stride for size, stride in zip(x.shape[2:], strides)]
    else:
        wanted = ()
    if wanted:
        is_upper = attrs.auto_pad == "SAME_UPPER"
        pads, extra = transposed_padding(x.shape[2:], kernel, strides, dilations, extra, wanted, is_upper)
    else:
        pads = attrs.padding(g, x.shape[2:], kernel, strides, dilations)
    result = g.call(
        f"nn.conv{rank}d_transpose", x, weight, kernel_size=kernel, strides=strides, output_padding=extra, padding=pads,
        dilation=dilations, groups=attrs.group,
    )
    return result if bias is None else g.call("nn.bias_add", result, bias)
