"""Slices whose bounds may be known, symbolic, or computed at run time, as TensorFlow and TFLite have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forge import dims
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


@dataclass(frozen=True)
class Masks:
    """Bits for entries of a strided slice: which bounds do not count, and which entries are not bounds of an axis."""

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0


def sliced(g: Composer, x: Value, begin: Value, size: Value) -> Value:
    """``size`` elements of ``x`` along each axis, from ``begin`` on; -1 is the rest."""
    starts, sizes = _bounds(g, begin, x.rank), _bounds(g, size, x.rank)
    wanted = [extent if n == -1 and at == 0 else n for n, at, extent in zip(sizes, starts, x.shape)]
    if any(isinstance(at, Value) for at in starts) and not any(isinstance(n, Value) or n == -1 for n in wanted):
        return g.call("dynamic_slice", x, g.cast(begin, "int64"), slice_sizes=tuple(wanted))
    return _cut(g, x, {axis: (low, _end(g, low, n, x.shape[axis]), 1) for axis, (low, n) in enumerate(zip(starts, sizes))})


def _end(g: Composer, begin: Dim | Value, size: Dim | Value, extent: Dim) -> Dim | Value:
    """Where a slice of a size ends; -1 is the rest."""
    if not isinstance(size, Value):
        return extent if size == -1 else _sum(g, begin, size)
    to_end = g.call("less", size, g.constant(0, "int64"))
    return g.call("where", to_end, g.size(extent), _scalar(g, _sum(g, begin, size)))


def strided_slice(
    g: Composer, x: Value, begin: Value, end: Value, strides: Value, masks: Masks, *, offset: bool = False
) -> Value:
    """From ``begin`` to ``end``; entries that ``masks`` shrinks are single elements, those of new axes are sizes of 1.

    Args:
        offset: ``end`` counts from ``begin``.
    """
    steps = g.required_ints(strides, "strides")
    starts, ends = _bounds(g, begin, len(steps)), _bounds(g, end, len(steps))
    removed: dict[int, Dim | Value] = {}
    taken: dict[int, tuple[Dim | Value | None, Dim | Value | None, int]] = {}
    shape: list[Dim | None] = []  # sizes of the result: None where a slice says it, 1 for new axes; removed ones are left out
    rest = x.rank - sum(not (masks.new_axis_mask | masks.ellipsis_mask) >> k & 1 for k in range(len(starts)))
    if rest < 0:
        raise g.invalid(f"got {len(starts)} entries, {-rest} more than the axes of {x.type}; expected at most one for each axis")
    axis = 0
    for k, (start, stop, step) in enumerate(zip(starts, ends, steps)):
        if masks.ellipsis_mask >> k & 1:
            shape += [None] * rest
            axis += rest
        elif masks.new_axis_mask >> k & 1:
            shape.append(1)
        else:
            if masks.shrink_axis_mask >> k & 1:
                removed[axis] = start
            else:
                low, high = (None if mask >> k & 1 else n for mask, n in ((masks.begin_mask, start), (masks.end_mask, stop)))
                taken[axis] = (low, _sum(g, start, stop) if offset and high is not None else high, step)
                shape.append(None)
            axis += 1
    shape += [None] * (x.rank - axis)
    if axis > x.rank:
        raise g.invalid(f"got bounds of {axis} axes for {x.type}")
    found = _at(g, _cut(g, x, taken), removed)
    kept = iter([size for axis, size in enumerate(found.shape) if axis not in removed])
    return g.reshape(found, [next(kept) if size is None else size for size in shape])


def _bounds(g: Composer, bounds: Value, count: int) -> list[Dim | Value]:
    """The elements of a vector, as numbers of rank 0 where they are computed at run time."""
    known = g.dims(bounds)
    if bounds.rank != 1 or not dims.equal(bounds.shape[0], count):
        raise g.invalid(f"got bounds of {bounds.type}; expected {count} integers, as there are strides")
    if known is not None:
        return list(known)
    wide = g.cast(bounds, "int64")
    if count == 1:
        return [g.reshape(wide, ())]
    return [g.call("take", wide, g.constant(k, "int64"), axis=0) for k in range(count)]


def _sum(g: Composer, a: Dim | Value, b: Dim | Value) -> Dim | Value:
    if isinstance(a, Value) or isinstance(b, Value):
        return g.call("add", _scalar(g, a), _scalar(g, b))
    return a + b


def _scalar(g: Composer, size: Dim | Value) -> Value:
    return size if isinstance(size, Value) else g.size(size)


def _at(g: Composer, x: Value, places: dict[int, Dim | Value]) -> Value:
    """``x`` with an extent of 1 along the axes of ``places``, at these."""
    static = {k: at for k, at in places.items() if not isinstance(at, Value)}
    x = _cut(g, x, {k: (at, at + 1 if at != -1 else x.shape[k], 1) for k, at in static.items()})
    if len(static) == len(places):
        return x
    starts = []
    for axis, size in enumerate(x.shape):
        at = places.get(axis) if axis not in static else None
        if isinstance(at, Value):
            from_end = g.call("less", at, g.constant(0, "int64"))
            at = g.call("where", from_end, g.call("add", at, g.size(size)), at)
        starts.append(g.reshape(g.constant(0, "int64") if at is None else _scalar(g, at), (1,)))
    sizes = tuple(1 if axis in places else size for axis, size in enumerate(x.shape))
    return g.call("dynamic_slice", x, g.call("concatenate", *starts, axis=0), slice_sizes=sizes)


def _cut(g: Composer, x: Value, taken: Mapping[int, tuple[Dim | Value | None, Dim | Value | None, int]]) -> Value:
    """``x`` from one bound to another along axes, None for all from the start, or to the end."""
    begin: list[Dim | Value] = []
    end: list[Dim | Value] = []
    for axis, (low, high, step) in taken.items():
        begin.append(low if low is not None else 0 if step > 0 else x.shape[axis] - 1)
        end.append(high if high is not None else x.shape[axis] if step > 0 else -(1 << 31))
    if not taken:
        return x
    strides = tuple(step for _, _, step in taken.values())
    if not any(isinstance(bound, Value) for bound in (*begin, *end)):
        return g.call("strided_slice", x, begin=tuple(begin), end=tuple(end), strides=strides, axes=tuple(taken))
    vectors = [g.call("concatenate", *(g.reshape(_scalar(g, n), (1,)) for n in side), axis=0) for side in (begin, end)]
    return g.call("strided_slice", x, *vectors, g.constant(strides, "int64"), g.constant(tuple(taken), "int64"))
