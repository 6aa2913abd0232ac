"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import windows
from forge.compose.windows import transposed_padding
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.core.windows import ConvAttributes, ConvTransposeAttributes, spatial_rank
from forge.frontends.onnx.converters.vision.grid_sample import Ints
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


@converts("DeformConv", since=19)
def deformable_convolution(
    g: Context, x: Value, weight: Value, offset: Value, bias: Value | None = None, mask: Value | None = None,
    *, dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None, offset_group: int = 1,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Value:
    if x.rank != 4:
        raise g.unsupported(f"input of rank {x.rank}; supported: 4")
    if kernel_shape is not None and kernel_shape != weight.shape[2:]:
        raise g.invalid(f"attribute 'kernel_shape': got {list(kernel_shape)}; expected that of W, {list(weight.shape[2:])}")
    operands = [x, offset, weight, mask]
    attributes = {"strides": strides or (1, 1), "padding": pads or (0, 0), "dilation": dilations or (1, 1)}
    result = g.call("nn.deformable_conv2d", *operands, **attributes, groups=group, offset_groups=offset_group)
    return result if bias is None else g.call("nn.bias_add", result, bias, axis=1)


@converts("Col2Im", since=18)
def column_to_image(
    g: Context, x: Value, image_shape: Value, block_shape: Value,
    *, dilations: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Value:
    rank = image_shape.shape[0]
    if not isinstance(rank, int):
        raise g.unsupported("the number of sizes in image_shape is known only at run time; expected a constant")
    strides, dilations, pads = strides or (1,) * rank, dilations or (1,) * rank, pads or (0,) * (2 * rank)
    image, block = g.dims(image_shape), g.ints(block_shape)
    if image is None or block is None:
        return windows.fold(g, x, image_shape, block_shape, strides=strides, padding=pads, dilations=dilations)
    return g.call("nn.fold", x, image_shape=image, block_shape=block, strides=strides, padding=pads, dilation=dilations)
