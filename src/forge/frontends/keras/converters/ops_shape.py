"""Operations of ``keras.ops`` that move, cut, join and index."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose import axes as of_axes
from forge.dims import Dim
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.shapes import reshaped
from forge.frontends.keras.promotion import FLOAT, together, value
from forge.frontends.keras.registry import OPS, converts
from forge.ir.nodes import Value


def known_sizes(g: Context, given: Any) -> tuple[Dim, ...]:
    """A shape: numbers, or values that are known now."""
    found: list[Dim] = []
    for size in given if isinstance(given, list | tuple) else [given]:
        if isinstance(size, Value):
            numbers = g.dims(size)
            if numbers is None:
                raise g.unsupported("got a size that is computed at run time; expected a number; fix it with shape=")
            found += numbers
        else:
            found.append(-1 if size is None else size)
    return tuple(found)


@converts("Reshape", domain=OPS)
def reshape(g: Context, x: Any, *, newshape: Any) -> Value:
    data, sizes = value(g, x), list(known_sizes(g, newshape))
    if sizes.count(-1) > 1:  # None stands for sizes that stay
        for k, size in enumerate(sizes):
            if size == -1 and k < data.rank and sizes.count(-1) > 1:
                sizes[k] = data.shape[k]
    return reshaped(g, data, sizes)


@converts("Ravel", domain=OPS)
def ravel(g: Context, x: Any) -> Value:
    return of_axes.ravel(g, value(g, x))


@converts("Transpose", domain=OPS)
def transpose(g: Context, x: Any, *, axes: Any = None) -> Value:
    data = value(g, x)
    order = tuple(reversed(range(data.rank))) if axes is None else tuple(g.axis(a, data.rank) for a in axes)
    return g.moved(data, order)


@converts("Swapaxes", domain=OPS)
def swapaxes(g: Context, x: Any, *, axis1: int, axis2: int) -> Value:
    data = value(g, x)
    order = list(range(data.rank))
    a, b = g.axis(axis1, data.rank), g.axis(axis2, data.rank)
    order[a], order[b] = order[b], order[a]
    return g.moved(data, order)


@converts("Moveaxis", domain=OPS)
def moveaxis(g: Context, x: Any, *, source: Any, destination: Any) -> Value:
    data = value(g, x)
    sources, targets = ([g.axis(a, data.rank) for a in (v if isinstance(v, tuple) else (v,))] for v in (source, destination))
    return g.moved(data, of_axes.moved(data.rank, sources, targets))


@converts("ExpandDims", domain=OPS)
def expand_dims(g: Context, x: Any, *, axis: Any) -> Value:
    data = value(g, x)
    given = axis if isinstance(axis, tuple) else (axis,)
    rank = data.rank + len(given)
    for place in sorted(g.axis(a, rank) for a in given):
        data = g.call("expand_dims", data, axis=place)
    return data


@converts("Squeeze", domain=OPS)
def squeeze(g: Context, x: Any, *, axis: Any = None) -> Value:
    data = value(g, x)
    if axis is None:
        over = tuple(k for k, size in enumerate(data.shape) if isinstance(size, int) and size == 1)
    else:
        over = tuple(g.axis(a, data.rank) for a in (axis if isinstance(axis, tuple) else (axis,)))
    return g.call("squeeze", data, axis=over) if over else data


@converts("BroadcastTo", domain=OPS)
def broadcast_to(g: Context, x: Any, *, shape: Any) -> Value:
    data, sizes = value(g, x), known_sizes(g, shape)
    lead = len(sizes) - data.rank
    return g.broadcast(data, [data.shape[k - lead] if size == -1 and k >= lead else size for k, size in enumerate(sizes)])


@converts("Concatenate", domain=OPS)
def concatenate(g: Context, xs: Any, *, axis: int = 0) -> Value:
    values = together(g, *xs)
    return g.call("concatenate", *values, axis=g.axis(axis, values[0].rank))


@converts("Append", domain=OPS)
def append(g: Context, x1: Any, x2: Any, *, axis: Any = None) -> Value:
    values = together(g, x1, x2)
    if axis is None:
        values = [of_axes.ravel(g, v) for v in values]
    return g.call("concatenate", *values, axis=g.axis(0 if axis is None else axis, values[0].rank))


@converts("Stack", domain=OPS)
def stack(g: Context, xs: Any, *, axis: int = 0) -> Value:
    values = together(g, *xs)
    return g.call("stack", *values, axis=g.axis(axis, values[0].rank + 1))


@converts("Hstack", "Vstack", "Dstack", domain=OPS)
def stack_along(g: Context, xs: Any) -> Value:
    place, least = {"H": (1, 1), "V": (0, 2), "D": (2, 3)}[g.layer.class_name[0]]
    values = [of_axes.at_least(g, v, least) for v in together(g, *xs)]
    return g.call("concatenate", *values, axis=min(place, values[0].rank - 1))


def _parts(g: Context, x: Any, sections: Any, axis: int, uneven: bool = False) -> list[Value]:
    data = value(g, x)
    place = g.axis(axis, data.rank)
    size = data.shape[place]
    if isinstance(sections, int) and isinstance(size, int):
        if not uneven and (sections < 1 or size % sections):
            raise g.invalid(f"indices_or_sections: got {sections} for {size} elements; expected a divisor")
        wide, more = divmod(size, sections)
        sections = tuple(np.cumsum([wide + (k < more) for k in range(sections)])[:-1].tolist())
    if isinstance(sections, int):
        raise g.unsupported(f"got {data.type}; expected a known size along axis {place}")
    bounds = [0, *sections, size]
    return [of_axes.part(g, data, place, begin, end) for begin, end in pairwise(bounds)]


@converts("Split", domain=OPS)
def split(g: Context, x: Any, *, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    return _parts(g, x, indices_or_sections, axis)


@converts("ArraySplit", domain=OPS)
def array_split(g: Context, x: Any, *, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    return _parts(g, x, indices_or_sections, axis, True)


@converts("Hsplit", "Vsplit", "Dsplit", domain=OPS)
def split_along(g: Context, x: Any, *, indices_or_sections: Any) -> list[Value]:
    axis = {"H": 1, "V": 0, "D": 2}[g.layer.class_name[0]]
    return _parts(g, x, indices_or_sections, min(axis, value(g, x).rank - 1))


@converts("Unstack", domain=OPS)
def unstack(g: Context, x: Any, *, num: Any = None, axis: int = 0) -> list[Value]:
    data = value(g, x)
    place = g.axis(axis, data.rank)
    count = data.shape[place] if num is None else num
    if not isinstance(count, int):
        raise g.unsupported(f"got {data.type}; expected a known size along axis {place}")
    return [g.call("take", data, g.constant(k, "int64"), axis=place) for k in range(count)]


@converts("Repeat", domain=OPS)
def repeat(g: Context, x: Any, *, repeats: Any, axis: Any = None) -> Value:
    data = value(g, x)
    data = of_axes.ravel(g, data) if axis is None else data
    place = g.axis(0 if axis is None else axis, data.rank)
    counts = repeats if isinstance(repeats, tuple) and len(repeats) != 1 else None
    if counts is None:
        return g.call("repeat", data, repeats=repeats[0] if isinstance(repeats, tuple) else int(repeats), axis=place)
    return g.call("take", data, g.constant(np.repeat(np.arange(len(counts)), counts), "int64"), axis=place)


@converts("Tile", domain=OPS)
def tile(g: Context, x: Any, *, repeats: Any) -> Value:
    data = value(g, x)
    counts = repeats if isinstance(repeats, tuple) else (repeats,)
    data = g.reshape(data, (*(1,) * (len(counts) - data.rank), *data.shape))
    return g.call("tile", data, reps=(*(1,) * (data.rank - len(counts)), *counts))


@converts("Flip", "Fliplr", "Flipud", domain=OPS)
def flip(g: Context, x: Any, *, axis: Any = None) -> Value:
    data = value(g, x)
    given = {"Fliplr": 1, "Flipud": 0}.get(g.layer.class_name, axis)
    over = range(data.rank) if given is None else given if isinstance(given, tuple) else (given,)
    return of_axes.flip(g, data, [g.axis(a, data.rank) for a in over])


@converts("Rot90", domain=OPS)
def rot90(g: Context, array: Any, *, k: int = 1, axes: Any = (0, 1)) -> Value:
    data = value(g, array)
    first, second = (g.axis(a, data.rank) for a in axes)
    return of_axes.rot90(g, data, k, (first, second))


@converts("Roll", domain=OPS)
def roll(g: Context, x: Any, *, shift: Any, axis: Any = None) -> Value:
    data = value(g, x)
    if axis is None:
        flat = of_axes.ravel(g, data)
        return g.reshape(g.call("roll", flat, shift=(int(shift),), axis=(0,)), data.shape)
    over = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(over)
    return g.call("roll", data, shift=shifts, axis=tuple(g.axis(a, data.rank) for a in over))


@converts("Pad", domain=OPS)
def pad(g: Context, x: Any, constant_values: Any = None, *, pad_width: Any, mode: str = "constant") -> Value:
    data = value(g, x)
    widths = pad_width if isinstance(pad_width, tuple) else ((pad_width, pad_width),)
    if all(isinstance(n, int) for n in widths):
        widths = (tuple(widths),)
    widths = tuple(widths) * (data.rank if len(widths) == 1 else 1)
    modes = {"constant": "constant", "edge": "edge", "reflect": "reflect", "symmetric": "symmetric", "wrap": "wrap"}
    if mode not in modes:
        raise g.unsupported(f"mode: got {mode!r}; supported: {', '.join(modes)}")
    number = g.constant(0 if constant_values is None else constant_values, data.dtype) if not isinstance(
        constant_values, Value) else g.cast(constant_values, data.dtype)
    return g.call("nn.pad", data, number, pad_width=widths, pad_mode=modes[mode])


@converts("Diag", domain=OPS)
def diag(g: Context, x: Any, *, k: int = 0) -> Value:
    data = value(g, x)
    return of_axes.diag_embed(g, data, k) if data.rank == 1 else g.call("diagonal", data, offset=k, axis1=0, axis2=1)


@converts("Diagflat", domain=OPS)
def diagflat(g: Context, x: Any, *, k: int = 0) -> Value:
    return of_axes.diag_embed(g, of_axes.ravel(g, value(g, x)), k)


@converts("Diagonal", domain=OPS)
def diagonal(g: Context, x: Any, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    data = value(g, x)
    return g.call("diagonal", data, offset=offset, axis1=g.axis(axis1, data.rank), axis2=g.axis(axis2, data.rank))


@converts("Trace", domain=OPS)
def trace(g: Context, x: Any, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    found = diagonal(g, x, offset=offset, axis1=axis1, axis2=axis2)
    found = g.cast(found, "int32") if found.dtype in ("bool", "int8", "int16") else found
    return g.call("sum", found, axis=(found.rank - 1,))


@converts("Tril", "Triu", domain=OPS)
def triangle(g: Context, x: Any, *, k: int = 0) -> Value:
    return g.call("trilu", value(g, x), g.constant(k, "int64"), upper=g.layer.class_name == "Triu")


@converts("Diff", domain=OPS)
def diff(g: Context, a: Any, *, n: int = 1, axis: int = -1) -> Value:
    data = value(g, a)
    return of_axes.diff(g, data, n, g.axis(axis, data.rank))


@converts("Meshgrid", domain=OPS)
def meshgrid(g: Context, *x: Any, indexing: str = "xy") -> list[Value]:
    return of_axes.meshgrid(g, [value(g, v) for v in x], indexing)


@converts("ZerosLike", "OnesLike", "EmptyLike", domain=OPS)
def filled_like(g: Context, x: Any, *, dtype: Any = None) -> Value:
    data = value(g, x)
    number = 1 if g.layer.class_name == "OnesLike" else 0
    return g.full(data.shape, number, data.dtype if dtype is None else dtypes.canonical(dtype))


@converts("FullLike", domain=OPS)
def full_like(g: Context, x: Any, fill_value: Any, *, dtype: Any = None) -> Value:
    data = value(g, x)
    return g.broadcast(g.cast(value(g, fill_value), data.dtype if dtype is None else dtypes.canonical(dtype)), data.shape)


@converts("Full", domain=OPS)
def full(g: Context, fill_value: Any, *, shape: Any, dtype: Any = None) -> Value:
    number = value(g, fill_value)
    return g.broadcast(g.cast(number, FLOAT if dtype is None else dtypes.canonical(dtype)), known_sizes(g, shape))


@converts("Arange", domain=OPS)
def arange(g: Context, start: Any, stop: Any = None, step: Any = None, *, dtype: Any = None) -> Value:
    low, high = (0, start) if stop is None else (start, stop)
    bounds = together(g, low, high, 1 if step is None else step)
    wanted = bounds[0].dtype if dtype is None else dtypes.canonical(dtype)
    return g.call("arange", *(g.cast(b, wanted) for b in bounds), dtype=wanted)


@converts("Size", domain=OPS)
def size(g: Context, x: Any) -> Value:
    return g.cast(g.size(dims.product(value(g, x).shape)), "int32")


@converts("Ndim", domain=OPS)
def ndim(g: Context, x: Any) -> Value:
    return g.constant(value(g, x).rank, "int32")
