"""Axes of tensors: their parts, their order, tensors with more of them."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.broadcast import common_size
from forge.ops.core.composer import Composer


def part(g: Composer, x: Value, axis: int, begin: Dim, end: Dim, step: int = 1) -> Value:
    """``begin:end:step`` of ``x`` along ``axis``."""
    if isinstance(begin, int) and begin == 0 and step == 1 and dims.equal(end, x.shape[axis]):
        return x
    return g.call("strided_slice", x, begin=(begin,), end=(end,), strides=(step,), axes=(axis,))


def neighbours(g: Composer, x: Value, axis: int) -> tuple[Value, Value]:
    """All elements along ``axis`` but the last, and all but the first."""
    size = x.shape[axis]
    return part(g, x, axis, 0, size - 1), part(g, x, axis, 1, size)


def ravel(g: Composer, x: Value) -> Value:
    """``x`` as a vector."""
    return g.reshape(x, (dims.product(x.shape),))


def transposed(g: Composer, x: Value, order: Sequence[int]) -> Value:
    """``x`` with its axes in ``order``."""
    return x if list(order) == sorted(order) else g.call("transpose", x, axes=tuple(order))


def matrix_transpose(g: Composer, x: Value) -> Value:
    """``x`` with its last two axes exchanged."""
    return g.call("transpose", x, axes=(*range(x.rank - 2), x.rank - 1, x.rank - 2))


def moved(rank: int, sources: Sequence[int], targets: Sequence[int]) -> tuple[int, ...]:
    """The axes of a transposition that puts axes ``sources`` where ``targets`` say, the others in order."""
    order = [axis for axis in range(rank) if axis not in sources]
    for target, source in sorted(zip(targets, sources)):
        order.insert(target, source)
    return tuple(order)


def along(g: Composer, vector: Value, axis: int, rank: int) -> Value:
    """``vector`` along one axis of a tensor of that rank, which is 1 long along the others."""
    return g.reshape(vector, [vector.shape[0] if k == axis else 1 for k in range(rank)])


def places(g: Composer, x: Value, axis: int) -> Value:
    """0, 1, .. up to the size of ``x`` along ``axis``, as int64."""
    return g.count(g.extent(x, axis), x.shape[axis])


def broadcast(g: Composer, x: Value, shape: Sequence[Dim]) -> Value:
    """``x`` in ``shape``."""
    return x if x.shape == tuple(shape) else g.call("broadcast_to", x, shape=tuple(shape))


def broadcast_arrays(g: Composer, *values: Value) -> list[Value]:
    """``values`` in their common shape, by NumPy's rules."""
    rank = max(v.rank for v in values)
    columns = [[v.shape[k - rank + v.rank] for v in values if k >= rank - v.rank] for k in range(rank)]
    shape = tuple(map(common_size, columns))
    return [broadcast(g, v, shape) for v in values]


def at_least(g: Composer, x: Value, rank: int) -> Value:
    """``x`` with ``rank`` axes or more, as NumPy's ``atleast_1d``, ``atleast_2d`` and ``atleast_3d`` add them."""
    if x.rank >= rank:
        return x
    if x.rank == 0:
        return g.reshape(x, (1,) * rank)
    return g.reshape(x, (*x.shape, 1) if x.rank == 2 else (1, *x.shape, 1)[:rank])


def flip(g: Composer, x: Value, axes: Sequence[int]) -> Value:
    """``x`` in reverse order along ``axes``."""
    return g.call("reverse", x, axis=tuple(axes)) if axes and x.rank else x


def rot90(g: Composer, x: Value, k: int, axes: tuple[int, int]) -> Value:
    """``x`` rotated by ``k`` quarters in the plane of two axes, from the first towards the second."""
    first, second = axes
    order = list(range(x.rank))
    order[first], order[second] = second, first
    match k % 4:
        case 1:
            return transposed(g, flip(g, x, (second,)), order)
        case 2:
            return flip(g, x, axes)
        case 3:
            return transposed(g, flip(g, x, (first,)), order)
    return x


def meshgrid(g: Composer, vectors: Sequence[Value], indexing: str = "ij") -> list[Value]:
    """Coordinates of a grid: vector k along axis k; with ``indexing`` "xy" the first two axes change places."""
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    shape = tuple(vectors[k].shape[0] for k in order)
    return [
        g.call("broadcast_to", along(g, vector, order.index(k), len(vectors)), shape=shape) for k, vector in enumerate(vectors)
    ]


def diff(g: Composer, x: Value, n: int, axis: int) -> Value:
    """Differences of neighbours along ``axis``, ``n`` times; those of bools are whether they differ."""
    size = x.shape[axis]
    if isinstance(size, int) and size <= n:
        return part(g, x, axis, 0, 0)
    for _ in range(n):
        before, after = neighbours(g, x, axis)
        x = g.call("not_equal" if x.dtype == "bool" else "subtract", after, before)
    return x
