"""Layers that move, cut, repeat and pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dims
from forge.dims import Dim
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.convolutions import SPATIAL, checked_rank, is_first, layout_of, per_axis
from forge.frontends.keras.registry import converts
from forge.ir.nodes import Value


@converts("Flatten")
def flatten(g: Context, x: Value, *, data_format: Any = None) -> Value:
    if is_first(g, data_format) and x.rank > 1:
        x = g.moved(x, (0, *range(2, x.rank), 1))
    if x.rank < 2:
        return g.call("expand_dims", x, axis=1) if x.rank else x
    return g.reshape(x, (x.shape[0], dims.product(x.shape[1:])))


def reshaped(g: Context, x: Value, sizes: Sequence[Any]) -> Value:
    """``x`` with sizes of which one may be -1."""
    if not all(isinstance(size, int) and size >= -1 or not isinstance(size, int) for size in sizes):
        raise g.invalid(f"target_shape: got {tuple(sizes)}; expected sizes, of which one may be -1")
    if -1 not in sizes:
        return g.reshape(x, sizes)
    return g.call("reshape", x, newshape=tuple(sizes))


@converts("Reshape")
def reshape(g: Context, x: Value, *, target_shape: Any) -> Value:
    sizes: list[Dim] = list(target_shape)
    rest, total = [s for s in sizes if s != -1], x.shape[1:]
    if sizes.count(-1) == 1 and dims.is_static(*total):
        known = dims.product(rest)
        if isinstance(known, int) and known > 0:
            sizes[sizes.index(-1)] = dims.floordiv(dims.product(total), known)
    return reshaped(g, x, [x.shape[0], *sizes])


@converts("Permute")
def permute(g: Context, x: Value, *, dims: Any) -> Value:
    if sorted(dims) != list(range(1, x.rank)):
        raise g.invalid(f"dims: got {dims}; expected a permutation of 1 to {x.rank - 1}")
    return g.moved(x, (0, *dims))


@converts("RepeatVector")
def repeat_vector(g: Context, x: Value, *, n: int) -> Value:
    return g.broadcast(g.call("expand_dims", x, axis=1), (x.shape[0], n, *x.shape[1:]))


def pairs(g: Context, given: Any, rank: int, what: str) -> tuple[tuple[int, int], ...]:
    """Two numbers for each spatial axis: before and after it."""
    if isinstance(given, int):
        given = ((given, given),) * rank
    elif isinstance(given, tuple) and rank == 1 and len(given) == 2 and all(isinstance(n, int) for n in given):
        given = (given,)
    found = tuple((n, n) if isinstance(n, int) else n for n in given) if isinstance(given, tuple) else ()
    if len(found) != rank or any(not isinstance(p,
        tuple) or len(p) != 2 or any(type(n) is not int or n < 0 for n in p) for p in found):
        raise g.invalid(f"{what}: got {given!r}; expected {rank} pairs of numbers")
    return found


def _zero_padding(rank: int) -> Any:
    def convert(g: Context, x: Value, *, padding: Any, data_format: Any = None) -> Value:
        checked_rank(g, x, rank)
        around = pairs(g, padding, rank, "padding")
        widths = ((0, 0), (0, 0), *around) if is_first(g, data_format) else ((0, 0), *around, (0, 0))
        return g.call("nn.pad", x, g.scalar(0, x), pad_width=widths)

    return convert


def _cropping(rank: int) -> Any:
    def convert(g: Context, x: Value, *, cropping: Any, data_format: Any = None) -> Value:
        checked_rank(g, x, rank)
        axes = range(2, x.rank) if is_first(g, data_format) else range(1, x.rank - 1)
        cut = pairs(g, cropping, rank, "cropping")
        ends = [x.shape[axis] - after for axis, (_, after) in zip(axes, cut)]
        return g.call("strided_slice", x, begin=tuple(before for before, _ in cut), end=tuple(ends), strides=(1,) * rank,
            axes=tuple(axes))

    return convert


def _up_sampling(rank: int) -> Any:
    def convert(g: Context, x: Value, *, size: Any, data_format: Any = None, interpolation: str = "nearest") -> Value:
        checked_rank(g, x, rank)
        first = is_first(g, data_format)
        factors = per_axis(g, size, rank, "size")
        if interpolation != "nearest":
            return resized(g, x, [s * f for s, f in zip(x.shape[2:] if first else x.shape[1:-1], factors)], first, interpolation)
        for axis, factor in enumerate(factors, 2 if first else 1):
            x = g.call("repeat", x, repeats=factor, axis=axis) if factor != 1 else x
        return x

    return convert


for _rank in SPATIAL:
    converts(f"ZeroPadding{_rank}D")(_zero_padding(_rank))
    converts(f"Cropping{_rank}D")(_cropping(_rank))
    converts(f"UpSampling{_rank}D")(_up_sampling(_rank))

METHODS = {"bilinear": "linear", "nearest": "nearest_neighbor", "bicubic": "cubic", "lanczos3": "", "lanczos5": "", "area": ""}


def resized(g: Context, x: Value, size: Sequence[Dim], first: bool, interpolation: str) -> Value:
    """Images of another size, with centres of pixels at half numbers."""
    method = METHODS.get(interpolation.lower())
    if not method:
        raise g.unsupported(f"interpolation: got {interpolation!r}; supported: bilinear, nearest, bicubic")
    options: dict[str, Any] = {"coordinate_transformation_mode": "half_pixel"}
    if method == "nearest_neighbor":
        options["rounding_method"] = "round_prefer_ceil"
    if method == "cubic":
        options["cubic_alpha"] = -0.5
        options["cubic_exclude"] = True
    dtype = x.dtype
    data = x if dtype in ("float32", "float64") or method == "nearest_neighbor" else g.cast(x, "float32")
    found = g.call("image.resize2d", data, size=tuple(size), layout=layout_of(2, first), method=method, **options)
    return g.cast(found, dtype)
