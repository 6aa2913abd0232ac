"""Col2Im."""

from __future__ import annotations

from forge.compose import windows
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.vision.grid_sample import Ints
from forge.frontends.onnx.registry import converts


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
