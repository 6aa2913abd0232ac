"""NumPy's advanced indexing: reads and writes at indices and masks for some axes; writes along an axis that reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge import dtypes
from forge.compose.axes import along, broadcast, broadcast_arrays, moved, ravel, transposed
from forge.compose.checks import checked_indices
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.reduce.window import neutral

Write = Callable[[Value, Value, str], Value]
"""(old value, updates, reduction) -> new value"""

_OF_BOOL = {"add": "max", "mul": "min", "max": "max", "min": "min", "mean": "mean"}
_NEUTRAL = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def nonzero(g: Composer, x: Value) -> list[Value]:
    """The indices of the elements that are not 0, one vector for each axis."""
    found = g.call("argwhere", x)
    if x.rank == 1:
        return [g.reshape(found, found.shape[:1])]
    return [g.reshape(c, found.shape[:1]) for c in g.multi("split", found, indices_or_sections=x.rank, axis=1)]


@dataclass(frozen=True)
class _Places:
    """Places in a tensor.

    Attributes:
        axes: the axes that are indexed.
        indices: one tensor of indices for each of them, all of one shape.
        result_axis: where the axes of the indices begin in the result of a read.
    """

    axes: list[int]
    indices: list[Value]
    result_axis: int

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.indices[0].shape


def _places(g: Composer, x: Value, indices: Sequence[Value | None], checks: bool) -> _Places:
    """Resolves ``indices``: integers index one axis, a mask as many as it has itself, None takes a whole axis."""
    axes: list[int] = []
    found: list[Value] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
            continue
        if index.dtype == "bool":
            columns = nonzero(g, index)
        else:
            columns = [checked_indices(g, g.cast(index, "int64"), x.shape[axis]) if checks else g.cast(index, "int64")]
        axes += range(axis, axis + len(columns))
        found += columns
        axis += max(len(columns), 1)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    return _Places(axes, broadcast_arrays(g, *found), axes[0] if together else 0)


def index(g: Composer, x: Value, indices: Sequence[Value | None], *, checks: bool = True) -> Value:
    """``x[indices]``, with integers, a boolean mask of rank 1 or more, or None for each of the first axes; not all are None.

    With ``checks``, a call fails if integers that arrive at run time are out of range.
    """
    at = _places(g, x, indices, checks)
    if len(at.axes) == 1:
        return g.call("take", x, at.indices[0], axis=at.axes[0])
    first = transposed(g, x, moved(x.rank, at.axes, range(len(at.axes))))
    found = g.call("gather_nd", first, g.call("stack", *at.indices, axis=0), index_rank=len(at.axes))
    rank = len(at.shape)
    return transposed(g, found, moved(found.rank, range(rank), range(at.result_axis, at.result_axis + rank)))


def put(g: Composer, x: Value, indices: Sequence[Value | None], values: Value, *, accumulate: bool = False) -> Value:
    """``x`` after ``x[indices] = values``; with ``accumulate`` after ``numpy.add.at(x, indices, values)``."""
    masked = None if accumulate else _masked(g, x, values, indices)
    if masked is not None:
        return masked
    at = _places(g, x, indices, checks=True)
    count, rank = len(at.axes), len(at.shape)
    rest = [d for k, d in enumerate(x.shape) if k not in at.axes]
    shape = (*rest[: at.result_axis], *at.shape, *rest[at.result_axis :])
    new = transposed(g, broadcast(g, values, shape), moved(len(shape), range(at.result_axis, at.result_axis + rank), range(rank)))
    order = moved(x.rank, at.axes, range(count))
    first = transposed(g, x, order)
    where = g.call("stack", *at.indices, axis=0)

    def write(old: Value, updates: Value, mode: str) -> Value:
        return g.call("scatter_nd", old, where, updates, mode=mode)

    result = _reduced(g, write, first, new, "add" if accumulate else "update")
    return transposed(g, result, [order.index(k) for k in range(x.rank)])


def _masked(g: Composer, x: Value, values: Value, indices: Sequence[Value | None]) -> Value | None:
    """A write through a single mask whose values do not depend on how many elements it marks; else None."""
    given = [(k, i) for k, i in enumerate(indices) if i is not None]
    ((axis, mask),) = given if len(given) == 1 else ((0, None),)
    if mask is None or mask.dtype != "bool":
        return None
    rest = x.rank - axis - mask.rank
    if values.rank > rest and not (values.rank == rest + 1 and values.shape[0] == 1) or values.rank and axis:
        return None
    new = g.reshape(values, values.shape[1:]) if values.rank > rest else values
    return g.call("where", g.reshape(mask, (*mask.shape, *(1,) * rest)), new, x)


def scatter(
    g: Composer, x: Value, indices: Value, updates: Value, axis: int, reduction: str = "update", *, include_self: bool = True
) -> Value:
    """``scatter_elements`` of any element type, with "mean" among the reductions; ``updates`` has the shape of ``indices``.

    Without ``include_self``, the old value of an element that is written to takes no part in the reduction. For bools, "add" is
    logical or and "mul" is logical and.
    """

    def write(old: Value, new: Value, mode: str) -> Value:
        return g.call("scatter_elements", old, indices, new, axis=axis, reduction=mode)

    return _reduced(g, write, x, updates, reduction, include_self)


def scatter_slices(
    g: Composer, x: Value, indices: Value, updates: Value, axis: int, reduction: str = "update", *, include_self: bool = True
) -> Value:
    """Scatters slice k of ``updates``, which broadcasts, to slice ``indices[k]`` of ``x`` along ``axis``; see `scatter`."""
    shape = (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :])
    each = g.call("broadcast_to", along(g, indices, axis, x.rank), shape=shape)
    return scatter(g, x, each, broadcast(g, updates, shape), axis, reduction, include_self=include_self)


def _reduced(g: Composer, write: Write, x: Value, updates: Value, mode: str, include_self: bool = True) -> Value:
    """``write`` of any element type, with "mean" among the reductions."""
    if mode == "update":
        return write(x, updates, mode)
    if x.dtype == "bool":
        old, new = g.cast(x, "uint8"), g.cast(updates, "uint8")
        return g.cast(_reduced(g, write, old, new, _OF_BOOL[mode], include_self), "bool")
    if mode == "mean":
        return _mean(g, write, x, updates, include_self)
    if not include_self:
        start = g.call("broadcast_to", g.constant(neutral(_NEUTRAL[mode], x.dtype), x.dtype), shape=updates.shape)
        x = write(x, start, "update")
    return write(x, updates, mode)


def _mean(g: Composer, write: Write, x: Value, updates: Value, include_self: bool) -> Value:
    ones, zeros = (g.call("broadcast_to", g.constant(k, x.dtype), shape=updates.shape) for k in (1, 0))
    count = g.call("broadcast_to", g.constant(1, x.dtype), shape=x.shape)
    if not include_self:
        x, count = write(x, zeros, "update"), write(count, zeros, "update")
    total, number = write(x, updates, "add"), write(count, ones, "add")
    return g.call("floor_divide" if dtypes.is_integer(x.dtype) else "divide", total, number)


def isin(g: Composer, x: Value, tests: Value) -> Value:
    """Which elements of ``x`` are among those of ``tests``."""
    return g.call("any", g.call("equal", g.reshape(x, (*x.shape, 1)), ravel(g, tests)), axis=(x.rank,))


def take_along_axis(g: Composer, x: Value, indices: Value, axis: int) -> Value:
    """``out[.., k, ..] = x[.., indices[.., k, ..], ..]``; sizes along other axes broadcast."""
    data, places = (_wide(g, a, b, axis) for a, b in ((x, indices), (indices, x)))
    return g.call("gather", data, places, axis=axis)


def _wide(g: Composer, x: Value, other: Value, axis: int) -> Value:
    sizes = [b if k != axis and isinstance(a, int) and a == 1 else a for k, (a, b) in enumerate(zip(x.shape, other.shape))]
    return broadcast(g, x, sizes)
