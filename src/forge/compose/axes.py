"""Axes of tensors: their parts, their order, tensors with more of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.broadcast import common_size
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def part(g: Composer, x: Value, axis: int, begin: Dim, end: Dim, step: int = 1) -> Value:
    """``begin:end:step`` of ``x`` along ``axis``."""
    if isinstance(begin, int) and begin == 0 and step == 1 and dims.equal(end, x.shape[axis]):
        return x
    return g.call("strided_slice", x, begin=(begin,), end=(end,), strides=(step,), axes=(axis,))


def neighbours(g: Composer, x: Value, axis: int) -> tuple[Value, Value]:
    """``x`` without its last, and without its first, element along ``axis``."""
    size = x.shape[axis]
    return part(g, x, axis, 0, size - 1), part(g, x, axis, 1, size)


def slice_at(g: Composer, x: Value, axis: int, start: Value, length: Value, size: Dim | None = None) -> Value:
    """``length`` elements along ``axis`` from ``start``, which may be negative; ``size`` is ``length`` where it is known."""
    zero = g.constant(0, "int64")
    begin = g.call("where", g.call("less", start, zero), g.call("add", start, g.extent(x, axis)), start)
    return g.call("take", x, g.call("add", g.count(length, size), begin), axis=axis)


def split_at(g: Composer, x: Value, axis: int, ends: Value, parts: int) -> list[Value]:
    """NumPy's ``split`` at ``ends``, an int64 vector of ``parts - 1`` elements that arrives at run time."""
    size = Term(g, g.extent(x, axis))
    given = Term(g, ends)
    bounds = (given < 0).where(given + size, given).maximum(0).minimum(size).value
    begin, found = Term(g, g.constant(0, "int64")), []
    for k in range(parts):
        end = Term(g, g.call("take", bounds, g.constant(k, "int64"), axis=0)) if k < parts - 1 else size
        positions = Term(g, g.count((end - begin).maximum(0).value)) + begin
        found.append(g.call("take", x, positions.value, axis=axis))
        begin = end
    return found


def split_sizes(g: Composer, x: Value, sizes: Sequence[Dim], axis: int) -> list[Value]:
    """Parts of ``sizes``, of which one may be -1: what the others leave."""
    given = list(sizes)
    if -1 in given:
        rest = x.shape[axis]
        for size in given:
            rest = rest - size if size != -1 else rest
        given[given.index(-1)] = rest
    ends: list[Dim] = []
    total: Dim = 0
    for size in given[:-1]:
        total = total + size
        ends.append(total)
    return g.multi("split", x, indices_or_sections=tuple(ends), axis=axis) if ends else [x]


def repeat(g: Composer, x: Value, repeats: Dim, axis: int) -> Value:
    """Each element along ``axis`` ``repeats`` times."""
    if isinstance(repeats, int):
        return g.call("repeat", x, repeats=repeats, axis=axis) if repeats else part(g, x, axis, 0, 0)
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    wide = g.call("broadcast_to", g.call("expand_dims", x, axis=axis + 1), shape=(*before, size, repeats, *after))
    return g.reshape(wide, (*before, size * repeats, *after))


def diag_embed(g: Composer, x: Value, offset: int) -> Value:
    """Matrices with the last axis of ``x`` as the diagonal that is ``offset`` above the main one, else 0."""
    size = x.shape[-1] + abs(offset)
    zeros = g.call("zeros", shape=(*x.shape[:-1], size, size), dtype=x.dtype)
    return g.call("matrix_set_diag", zeros, x, k1=offset, k2=offset)


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
    """The positions 0, 1, .. along ``axis`` of ``x``, as an int64 vector."""
    return g.count(g.extent(x, axis), x.shape[axis])


def broadcast(g: Composer, x: Value, shape: Sequence[Dim]) -> Value:
    """``x`` broadcast to ``shape``."""
    return x if x.shape == tuple(shape) else g.call("broadcast_to", x, shape=tuple(shape))


def broadcast_arrays(g: Composer, *values: Value) -> list[Value]:
    """``values`` in their common shape, by NumPy's rules."""
    rank = max(v.rank for v in values)
    columns = [[v.shape[k - rank + v.rank] for v in values if k >= rank - v.rank] for k in range(rank)]
    shape = tuple(map(common_size, columns))
    return [broadcast(g, v, shape) for v in values]


def broadcast_shapes(g: Composer, first: Value, second: Value) -> Value:
    """The shape, a vector, that tensors of two shapes, vectors of known lengths, are broadcast to."""
    ranks = [v.shape[0] for v in (first, second)]
    if not all(isinstance(size, int) for size in ranks):
        raise g.unsupported("shapes of ranks that are known at run time only; expected known ones")
    longer = max(size for size in ranks if isinstance(size, int))
    ones = [g.constant(np.ones(longer - size), v.dtype) for size, v in zip(ranks, (first, second)) if isinstance(size, int)]
    a, b = (g.call("concatenate", one, v, axis=0) for one, v in zip(ones, (first, second)))
    return g.call("where", g.call("equal", a, g.scalar(1, a)), b, a)


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
