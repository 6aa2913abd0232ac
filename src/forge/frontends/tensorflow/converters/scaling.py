"""Images [N, H, W, C] that are resized by weights of all elements along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from forge.dims import Dim
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value

MAX_WEIGHTS = 1 << 26
"""Of one axis."""
Array = np.ndarray


def _weighted(g: Context, x: Value, rows: Array, columns: Array) -> Value:
    weights = [g.constant(v.astype(np.float32)) for v in (rows, columns)]
    return g.call("einsum", g.cast(x, "float32"), *weights, equation="nhwc,yh,xw->nyxc")


def _sizes(g: Context, x: Value, size: Value) -> list[tuple[int, int]]:
    """Sizes of the images, and of the result, along both axes."""
    wanted, given = g.required_ints(size, "size"), x.shape[1:3]
    if x.rank != 4 or len(wanted) != 2 or min(wanted) < 1:
        raise g.invalid(f"got {x.type} and the size {wanted}; expected images, and height and width")
    return [(_known(g, n, m), m) for n, m in zip(given, wanted)]


def _known(g: Context, size: Dim, wanted: int) -> int:
    if not isinstance(size, int):
        raise g.unsupported(f"got an image with a side of {size}; expected known sizes")
    if size * wanted > MAX_WEIGHTS:
        raise g.unsupported(f"resizes {size} elements to {wanted}; expected at most {MAX_WEIGHTS} weights")
    return size


@converts("ResizeArea")
def resize_area(g: Context, x: Value, size: Value, *, align_corners: bool = False) -> Value:
    """Each element of the result is the mean of an area, of whose elements at its edges parts count."""
    return _weighted(g, x, *(_area(n, m, align_corners) for n, m in _sizes(g, x, size)))


def _area(size: int, wanted: int, align_corners: bool) -> Array:
    """Parts of elements that count for each element of the result, a row each."""
    less = int(align_corners and wanted > 1)
    step = np.float32(size - less) / np.float32(wanted - less)
    weights = np.zeros((wanted, size))
    for number in range(wanted):
        begin, end = (float(np.float32(k) * step) for k in (number, number + 1))
        for place in range(math.floor(begin), math.ceil(end)):
            part = min(place + 1.0, end) - max(float(place), begin)
            weights[number, min(place, size - 1)] += part / float(step)
    return weights


def _lanczos(radius: float) -> tuple[float, Callable[[Array], Array]]:
    return radius, lambda t: np.where(t > radius, 0, np.sinc(t) * np.sinc(t / radius))


def _cubic(near: tuple[float, ...], far: tuple[float, ...]) -> tuple[float, Callable[[Array], Array]]:
    return 2.0, lambda t: np.where(t >= 2, 0, np.where(t >= 1, np.polyval(far, t), np.polyval(near, t)))


_KERNELS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "lanczos1": _lanczos(1.0), "lanczos3": _lanczos(3.0), "lanczos5": _lanczos(5.0),
    "gaussian": (1.5, lambda t: np.where(t >= 1.5, 0, np.exp(-2.0 * t * t))),
    "box": (1.0, lambda t: np.where(t < 0.5, 1.0, np.where(t == 0.5, 0.5, 0.0))),
    "triangle": (1.0, lambda t: np.maximum(1 - t, 0)),
    "keyscubic": _cubic((1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2)),
    "mitchellcubic": _cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9)),
}
"""Radius and function of the distance."""


@converts("ScaleAndTranslate")
def scale_and_translate(
    g: Context, x: Value, size: Value, scale: Value, translation: Value, *, kernel_type: str = "lanczos3", antialias: bool = True
) -> Value:
    """Elements weighted by their distance; where the result lies outside of the image it is 0."""
    scales, moves = g.array(scale), g.array(translation)
    if kernel_type not in _KERNELS:
        raise g.invalid(f"kernel_type: got {kernel_type!r}; expected one of {', '.join(_KERNELS)}")
    if scales is None or moves is None:
        raise g.unsupported("scale and translation are computed at run time; expected constants; fix the sizes of the image")
    if scales.shape != (2,) or moves.shape != (2,) or not (scales > 0).all():
        raise g.invalid(f"got scale {scales} and translation {moves}; expected two positive numbers, and two numbers")
    both = [_spread(n, m, scales[k], moves[k], kernel_type, antialias) for k, (n, m) in enumerate(_sizes(g, x, size))]
    return _weighted(g, x, *both)


def _spread(size: int, wanted: int, scale: np.float32, move: np.float32, kernel: str, antialias: bool) -> Array:
    """Weights of the elements for each one of the result, a row each."""
    radius, function = _KERNELS[kernel]
    inverse = np.float32(1) / np.float32(scale)
    reach = max(inverse, np.float32(1)) if antialias else np.float32(1)
    at = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * inverse - inverse * np.float32(move)
    first = np.clip(np.ceil(at - np.float32(radius) * reach - np.float32(0.5)), 0, size - 1)
    last = np.clip(np.floor(at + np.float32(radius) * reach - np.float32(0.5)), 0, size - 1)
    places = np.arange(size)[None, :]
    weights = function(np.abs(places + 0.5 - at[:, None]) / reach)
    weights = np.where((places >= first[:, None]) & (places <= last[:, None]), weights, 0)
    total = weights.sum(axis=1, keepdims=True)
    outside = (at < 0) | (at > size)
    is_some = np.abs(total) >= 1000 * float(np.finfo(np.float32).tiny)
    weights = np.where(is_some, weights / np.where(is_some, total, 1), weights)
    return np.where(outside[:, None], 0, weights)
