"""Order statistics along an axis: sorting, medians, modes, runs of equal elements."""

from __future__ import annotations

from forge import dtypes
from forge.compose.axes import moved, neighbours, part, places, transposed
from forge.compose.indexing import nonzero
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def sort(g: Composer, x: Value, axis: int, descending: bool = False) -> tuple[Value, Value]:
    """The elements sorted along ``axis``, and their positions in ``x``; the sort is stable."""
    keys = g.cast(x, "uint8") if x.dtype == "bool" else x
    order = g.call("argsort", keys, axis=axis, is_ascend=not descending, dtype="int64")
    return g.call("gather", x, order, axis=axis), order


def median(
    g: Composer, x: Value, axis: int, keepdims: bool = False, *, skips_nan: bool = False
) -> tuple[Value, Value]:
    """The median along ``axis``, the smaller one of an even number of elements, and its position.

    NaN if there is a NaN, unless ``skips_nan``: then the median of the other elements.
    """
    data = _with_last(g, x, axis)
    last = data.rank - 1
    order = g.call("argsort", data, axis=last)
    count = Term(g, g.extent(data, last)).reshape(*[1] * data.rank)
    if dtypes.is_float(x.dtype):
        numbers = Term(g, g.cast(g.call("logical_not", g.call("isnan", data)), "int64")).sum(last)
        if skips_nan:
            place = (numbers - 1).maximum(0).floor_divide(2)
        else:
            place = numbers.equals(count).where((count - 1).floor_divide(2), numbers)
    else:
        place = (count - 1).floor_divide(2)
    middle = g.call("broadcast_to", place.value, shape=(*data.shape[:-1], 1))
    return _at(g, x, axis, keepdims, data, order, middle)


def mode(g: Composer, x: Value, axis: int, keepdims: bool = False) -> tuple[Value, Value]:
    """The most frequent element along ``axis``, the smallest in case of a tie, and its last position."""
    if x.dtype == "bool":
        value, index = mode(g, g.cast(x, "uint8"), axis, keepdims)
        return g.cast(value, "bool"), index
    data = _with_last(g, x, axis)
    last, size = data.rank - 1, data.shape[-1]
    order = g.call("argsort", data, axis=last)
    before, following = neighbours(g, g.call("gather", data, order, axis=last), last)
    place = Term(g, places(g, data, last))
    begins = Term(g, g.call("not_equal", following, before)).where(Term(g, part(g, place.value, 0, 1, size)), 0)
    first = g.call("broadcast_to", g.constant(0, "int64"), shape=(*data.shape[:-1], 1))
    starts = g.multi("cummax", g.call("concatenate", first, begins.value, axis=last), axis=last)[0]
    longest = g.call("argmax", (place - Term(g, starts)).value, axis=last, keepdims=True)
    return _at(g, x, axis, keepdims, data, order, longest)


def _with_last(g: Composer, x: Value, axis: int) -> Value:
    """``x`` with ``axis`` at the end."""
    return transposed(g, x, moved(x.rank, [axis], [x.rank - 1]))


def _at(
    g: Composer, x: Value, axis: int, keepdims: bool, data: Value, order: Value, place: Value
) -> tuple[Value, Value]:
    """The element of ``data``, which is ``x`` with ``axis`` at the end, at ``place`` in ``order``, and its position."""
    index = g.call("gather", order, place, axis=data.rank - 1)
    value = g.call("gather", data, index, axis=data.rank - 1)
    shape = [1 if k == axis else d for k, d in enumerate(x.shape) if keepdims or k != axis]
    return g.reshape(value, shape), g.reshape(index, shape)


def unique_consecutive(g: Composer, x: Value, axis: int) -> tuple[Value, Value, Value]:
    """Runs of equal slices along ``axis``: one slice of each, the number of its run for each slice, their lengths."""
    size = x.shape[axis]
    if size == 0:
        nothing = g.call("zeros", shape=(0,), dtype="int64")
        return x, nothing, nothing
    changes = g.call("not_equal", *neighbours(g, x, axis))
    others = tuple(k for k in range(x.rank) if k != axis)
    changes = g.call("any", changes, axis=others) if others else changes
    starts = g.call("concatenate", g.constant([True], "bool"), changes, axis=0)
    (first,) = nonzero(g, starts)
    inverse = g.call("subtract", g.call("cumsum", g.cast(starts, "int64"), axis=0), g.constant(1, "int64"))
    ends = g.call("concatenate", first, g.reshape(g.extent(x, axis), (1,)), axis=0)
    lengths = g.call("subtract", part(g, ends, 0, 1, first.shape[0] + 1), first)
    return g.call("take", x, first, axis=axis), inverse, lengths
