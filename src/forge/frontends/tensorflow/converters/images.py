"""Crops, patches and warps of images [N, H, W, C]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from forge import dims
from forge.compose import colours
from forge.compose.axes import along, places
from forge.dims import Dim
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.converters.windows import Images, images
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term
from forge.ops.reduce.window import neutral


@converts("CropAndResize")
def crop_and_resize(
    g: Context, x: Value, boxes: Value, numbers: Value, size: Value, *, method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Value:
    kinds = {"bilinear": "bilinear", "nearest": "nearest_neighbor"}
    if method not in kinds:
        raise g.invalid(f"method: got {method!r}; expected bilinear or nearest")
    return g.call(
        "image.crop_and_resize", g.cast(x, "float32"), boxes, numbers, crop_size=g.required_ints(size, "crop_size"),
        layout="NHWC", method=kinds[method], extrapolation_value=extrapolation_value)


@converts("Dilation2D")
def dilation_2d(
    g: Context, x: Value, weight: Value, *, strides: tuple[int, ...], rates: tuple[int, ...], padding: str
) -> Value:
    given = images(g, x, "NHWC", 2)
    steps, gaps = given.of(g, strides, "strides"), given.of(g, rates, "rates")
    around = given.padding(g, x, weight.shape[:2], steps, gaps, padding)
    if not dims.is_static(*around):
        x, around = _padded(g, x, around, neutral("max", x.dtype)), (0,) * 4
    found = g.call(
        "image.dilation2d", g.moved(x, (0, 3, 1, 2)), g.moved(weight, (2, 0, 1)), strides=steps, padding=around, dilations=gaps)
    return g.moved(found, (0, 2, 3, 1))


@converts("ExtractImagePatches")
def extract_image_patches(
    g: Context, x: Value, *, ksizes: tuple[int, ...], strides: tuple[int, ...], rates: tuple[int, ...], padding: str
) -> Value:
    given = images(g, x, "NHWC", 2)
    size, steps, gaps = (given.of(g, v, what) for v, what in ((ksizes, "ksizes"), (strides, "strides"), (rates, "rates")))
    return _patches(g, x, given, size, steps, gaps, padding)


@converts("ExtractVolumePatches")
def extract_volume_patches(
    g: Context, x: Value, *, ksizes: tuple[int, ...], strides: tuple[int, ...], padding: str
) -> Value:
    given = images(g, x, "NDHWC", 3)
    return _patches(g, x, given, given.of(g, ksizes, "ksizes"), given.of(g, strides, "strides"), (1, 1, 1), padding)


def _patches(
    g: Context, x: Value, given: Images, size: Sequence[int], steps: Sequence[int], gaps: Sequence[int], padding: str
) -> Value:
    """Elements of windows, channels last, along the last axis."""
    around = given.padding(g, x, size, steps, gaps, padding)
    if not dims.is_static(*around):
        x, around = _padded(g, x, around, 0), (0,) * (2 * given.spatial)
    found = g.call(
        "sliding_window", x, axis=1, window_shape=tuple(size), strides=tuple(steps), dilation=tuple(gaps), padding=around)
    inner = given.spatial + 1
    order = (*range(inner), *range(inner + 1, found.rank), inner)
    channels: Dim = x.shape[-1] * math.prod(size)
    return g.reshape(g.moved(found, order), (*found.shape[:inner], channels))


def _padded(g: Context, x: Value, around: Sequence[Dim], fill: float) -> Value:
    """Images, channels last, with sizes before all spatial axes, then after them."""
    pairs = zip(around, around[len(around) // 2 :])
    return g.call("nn.pad", x, g.constant(fill, x.dtype), pad_width=((0, 0), *pairs, (0, 0)))


@converts("RGBToHSV")
def rgb_to_hsv(g: Context, x: Value) -> Value:
    return colours.joined(g, colours.hsv_of_rgb(g, x))


@converts("HSVToRGB")
def hsv_to_rgb(g: Context, x: Value) -> Value:
    return colours.rgb_of_hsv(g, *colours.channels(g, x))


@converts("AdjustContrastv2")
def adjust_contrast(g: Context, x: Value, factor: Value) -> Value:
    """Distances from the mean of each channel grow."""
    data = Term(g, g.cast(x, "float32"))
    mean = Term(g, g.call("mean", data.value, axis=(x.rank - 3, x.rank - 2), keepdims=True))
    return ((data - mean) * Term(g, factor) + mean).cast(x.dtype).value


@converts("AdjustHue", "AdjustSaturation")
def adjust_colours(g: Context, x: Value, amount: Value) -> Value:
    hue, saturation, value = colours.hsv_of_rgb(g, g.cast(x, "float32"))
    by = Term(g, amount)
    if g.node.op == "AdjustHue":
        hue = (hue + by).floor_mod(1)
    else:
        saturation = (saturation * by).maximum(0).minimum(1)
    return g.cast(colours.rgb_of_hsv(g, hue, saturation, value), x.dtype)


@converts("ImageProjectiveTransformV2")
def projective_transform_v2(
    g: Context, x: Value, transforms: Value, size: Value, *, interpolation: str, fill_mode: str = "CONSTANT", dtype: str
) -> Value:
    return _warped(g, x, transforms, size, g.constant(0, x.dtype), interpolation, fill_mode)


@converts("ImageProjectiveTransformV3")
def projective_transform_v3(
    g: Context, x: Value, transforms: Value, size: Value, fill: Value, *, interpolation: str, fill_mode: str = "CONSTANT",
    dtype: str,
) -> Value:
    return _warped(g, x, transforms, size, g.cast(fill, x.dtype), interpolation, fill_mode)


def _warped(
    g: Context, x: Value, transforms: Value, size: Value, fill: Value, interpolation: str, fill_mode: str
) -> Value:
    """Elements from where a projective transform of eight numbers, one for each image or all, leads."""
    if interpolation not in ("NEAREST", "BILINEAR") or fill_mode not in _MAPPED:
        raise g.invalid(
            f"got interpolation {interpolation!r} and fill mode {fill_mode!r}; expected NEAREST or BILINEAR, and one of "
            f"{', '.join(_MAPPED)}")
    height, width = g.required_ints(size, "output_shape")
    p = [Term(g, g.reshape(g.call("take", transforms, g.constant(k, "int64"), axis=1), (transforms.shape[0], 1, 1)))
         for k in range(8)]
    column = Term(g, g.constant(np.arange(width, dtype=np.float32).reshape(1, 1, width)))
    line = Term(g, g.constant(np.arange(height, dtype=np.float32).reshape(1, height, 1)))
    depth = p[6] * column + p[7] * line + 1
    sides = [Term(g, g.cast(g.extent(x, axis), "float32")) for axis in (1, 2)]
    across, down = ((p[k] * column + p[k + 1] * line + p[k + 2]) / depth for k in (0, 3))
    at = [_MAPPED[fill_mode](t, side) for t, side in zip((down, across), sides)]

    def read(y: Term, across: Term) -> Term:
        return _read(g, x, (y, across), sides, fill)

    if interpolation == "NEAREST":
        found = read(*(Term(g, g.call("round_away", t.value)) for t in at))
    else:
        low = [t.floor() for t in at]
        (y, y0), (z, z0) = ((t, base) for t, base in zip(at, low))
        wide = [Term(g, g.call("expand_dims", t.value, axis=3)) for t in (y - y0, z - z0)]
        (a, b), (c, d) = ([read(line, at_).cast("float32") for at_ in (z0, z0 + 1)] for line in (y0, y0 + 1))
        upper, lower = (first * (1 - wide[1]) + second * wide[1] for first, second in ((a, b), (c, d)))
        found = (upper * (1 - wide[0]) + lower * wide[0]).cast(x.dtype)
    is_plane = Term(g, g.call("expand_dims", depth.equals(0).value, axis=3))
    return is_plane.where(Term(g, fill), found).value


def _reflected(t: Term, side: Term) -> Term:
    turned = t - (t / (side * 2)).floor() * side * 2
    return (turned >= side).where(side * 2 - turned - 1, turned).maximum(0).minimum(side - 1)


def _repeated(t: Term, side: Term) -> Term:
    last = (side - 1).maximum(1)
    below = t + ((t * -1) / last).floor() * side + side
    above = t - (t / last).floor() * side
    return (t < 0).where(below, (t > side - 1).where(above, t)).maximum(0).minimum(side - 1)


_MAPPED = {
    "CONSTANT": lambda t, side: t, "NEAREST": lambda t, side: t.maximum(0).minimum(side - 1), "REFLECT": _reflected,
    "WRAP": _repeated,
}


def _read(g: Context, x: Value, at: Sequence[Term], sides: Sequence[Term], fill: Value) -> Term:
    """Elements of images at whole places [N, h, w], and ``fill`` outside."""
    (y, z), (height, width) = at, sides
    inside = (y >= 0).both(y <= height - 1).both((z >= 0).both(z <= width - 1))
    rows, columns = (t.maximum(0).minimum(side - 1).cast("int64") for t, side in zip(at, sides))
    image = Term(g, along(g, places(g, x, 0), 0, 3))
    lines, width_ = (Term(g, g.extent(x, axis)) for axis in (1, 2))
    index = (image * lines + rows) * width_ + columns
    count = x.shape[0] * x.shape[1] * x.shape[2]
    found = g.call("take", g.reshape(x, (count, x.shape[3])), index.value, axis=0)
    return Term(g, g.call("expand_dims", inside.value, axis=3)).where(Term(g, found), Term(g, fill))
