"""DeformConv."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.vision.grid_sample import Ints
from forge.frontends.onnx.registry import converts


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
