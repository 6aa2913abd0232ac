"""Images: sizes, colours, patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims
from forge.compose import axes as of_axes
from forge.compose.windows import same_padding
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.convolutions import is_first, per_axis
from forge.frontends.keras.converters.shapes import resized
from forge.frontends.keras.promotion import real, value
from forge.frontends.keras.registry import OPS, converts
from forge.ir.nodes import Value


def fitted(
    g: Context, x: Value, size: Sequence[int], first: bool, interpolation: str, *, crops: bool = False, pads: bool = False,
    fill: float = 0.0,
) -> Value:
    """Images of another size; ``crops`` cuts them to its ratio before, ``pads`` fills them up to it.

    Raises:
        OpAttributeUnimplemented: their ratio is not known.
    """
    batch = x if x.rank == 4 else g.call("expand_dims", x, axis=0)
    axes = (2, 3) if first else (1, 2)
    if crops or pads:
        height, width = (batch.shape[axis] for axis in axes)
        if not isinstance(height, int) or not isinstance(width, int):
            raise g.unsupported(f"got {x.type}; expected known sizes of images")
        wanted = int(float(width * size[0]) / size[1]), int(float(height * size[1]) / size[0])
        batch = _cut(g, batch, axes, (height, width), wanted) if crops else _filled(g, batch, axes, (height, width), wanted, fill)
    found = resized(g, batch, size, first, interpolation)
    return found if x.rank == 4 else g.call("squeeze", found, axis=(0,))


def _cut(g: Context, x: Value, axes: Sequence[int], sizes: Sequence[int], wanted: Sequence[int]) -> Value:
    kept = [max(min(size, target), 1) for size, target in zip(sizes, wanted)]
    for axis, size, target in zip(axes, sizes, kept):
        start = int(float(size - target) / 2)
        x = of_axes.part(g, x, axis, start, start + target)
    return x


def _filled(g: Context, x: Value, axes: Sequence[int], sizes: Sequence[int], wanted: Sequence[int], fill: float) -> Value:
    widths = [(0, 0)] * 4
    for axis, size, target in zip(axes, sizes, wanted):
        start = int(float(max(size, target) - size) / 2)
        widths[axis] = (start, start)
    return g.call("nn.pad", x, g.scalar(fill, x), pad_width=tuple(widths))


@converts("Resize", domain=OPS)
def resize(
    g: Context, images: Any, *, size: Any, interpolation: str = "bilinear", antialias: bool = False,
    crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False, fill_mode: str = "constant", fill_value: float = 0.0,
    data_format: Any = None,
) -> Value:
    if antialias:
        raise g.unsupported("antialias: got True; supported: False")
    return fitted(
        g, real(g, images), tuple(size), is_first(g, data_format), interpolation, crops=crop_to_aspect_ratio,
        pads=pad_to_aspect_ratio, fill=fill_value)


@converts("RGBToGrayscale", domain=OPS)
def rgb_to_grayscale(g: Context, images: Any, *, data_format: Any = None) -> Value:
    data = real(g, images)
    axis = data.rank - 3 if is_first(g, data_format) else data.rank - 1
    shape = [1] * data.rank
    shape[axis] = 3
    weights = g.constant(np.reshape([0.2989, 0.5870, 0.1140], shape), data.dtype)
    return g.call("sum", g.call("multiply", data, weights), axis=(axis,), keepdims=True)


def _spatial(x: Value, first: bool) -> tuple[int, int]:
    return (x.rank - 2, x.rank - 1) if first else (x.rank - 3, x.rank - 2)


def _margins(g: Context, size: Any, before: Any, after: Any, target: Any, sign: int) -> tuple[int, int]:
    """Elements before and after an axis, of which one or the other may be given by the size that is wanted."""
    if before is None or after is None:
        if not isinstance(size, int) or target is None:
            raise g.unsupported("got images without known sizes, and a size that is wanted; expected padding or cropping")
        more = sign * (target - size)
        before, after = (more - after, after) if before is None and after is not None else (before or 0, more - (before or 0))
    return int(before), int(after)


@converts("PadImages", domain=OPS)
def pad_images(
    g: Context, images: Any, *, top_padding: Any = None, left_padding: Any = None, bottom_padding: Any = None,
    right_padding: Any = None, target_height: Any = None, target_width: Any = None, data_format: Any = None,
) -> Value:
    data = value(g, images)
    rows, columns = _spatial(data, is_first(g, data_format))
    widths = [(0, 0)] * data.rank
    widths[rows] = _margins(g, data.shape[rows], top_padding, bottom_padding, target_height, 1)
    widths[columns] = _margins(g, data.shape[columns], left_padding, right_padding, target_width, 1)
    return g.call("nn.pad", data, g.scalar(0, data), pad_width=tuple(widths))


@converts("CropImages", domain=OPS)
def crop_images(
    g: Context, images: Any, *, top_cropping: Any = None, left_cropping: Any = None, bottom_cropping: Any = None,
    right_cropping: Any = None, target_height: Any = None, target_width: Any = None, data_format: Any = None,
) -> Value:
    data = value(g, images)
    rows, columns = _spatial(data, is_first(g, data_format))
    around = (
        (rows, _margins(g, data.shape[rows], top_cropping, bottom_cropping, target_height, -1)),
        (columns, _margins(g, data.shape[columns], left_cropping, right_cropping, target_width, -1)))
    for axis, (before, after) in around:
        data = of_axes.part(g, data, axis, before, data.shape[axis] - after)
    return data


@converts("ExtractPatches", domain=OPS)
def extract_patches(
    g: Context, images: Any, *, size: Any, strides: Any = None, dilation_rate: Any = None, padding: str = "valid",
    data_format: Any = None,
) -> Value:
    data = value(g, images)
    first = is_first(g, data_format)
    if data.rank != 4:
        raise g.unsupported(f"got {data.type}; supported: batches of images")
    data = g.moved(data, (0, 2, 3, 1)) if first else data
    kernel = per_axis(g, size, 2, "size")
    steps = kernel if strides is None else per_axis(g, strides, 2, "strides")
    gaps = per_axis(g, dilation_rate, 2, "dilation_rate")
    if padding == "same":
        around = same_padding(data.shape[1:3], kernel, steps, gaps)
        data = g.call("nn.pad", data, g.scalar(0, data), pad_width=((0, 0), (around[0], around[2]), (around[1], around[3]),
            (0, 0)))
    counts = [dims.floordiv(s - (k - 1) * d - 1, t) + 1 for s, k, d, t in zip(data.shape[1:3], kernel, gaps, steps)]
    parts = []
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            starts = (row * gaps[0], column * gaps[1])
            ends = tuple(start + (count - 1) * step + 1 for start, count, step in zip(starts, counts, steps))
            parts.append(g.call("strided_slice", data, begin=starts, end=ends, strides=steps, axes=(1, 2)))
    found = g.call("concatenate", *parts, axis=3)
    return g.moved(found, (0, 3, 1, 2)) if first else found
