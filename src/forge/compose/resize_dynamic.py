"""Resizing whose scales, sizes or region arrive at run time, or whose sizes are symbolic.

The formulas are those of ``resize``, computed by the graph. Interpolation that is as wide as the step multiplies by a matrix of
weights over the axis, extended at both ends by as many copies of its end elements as the kernel reaches.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce

from forge.compose.resize_rules import AxisNumbers, Method, cubic, nearest_indices, source_positions
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

WIDE = "float64"


def element(g: Composer, vector: Value, position: int) -> Term:
    """One element of a vector, as a wide float."""
    return Term(g, g.cast(g.call("take", vector, g.constant(position, "int64"), axis=0), WIDE))


def extent(g: Composer, x: Value, axis: int) -> Term:
    """The size along an axis, as a wide float."""
    return Term(g, g.cast(g.extent(x, axis), WIDE))


def resize_axes(
    g: Composer, x: Value, axes: Sequence[tuple[int, AxisNumbers[Term]]], method: Method, sizes: Mapping[int, Dim] | None = None
) -> Value:
    """``x`` resized along each of ``axes``; ``sizes``: of those of the result that are known, as dimensions."""
    narrow = x.dtype
    if method.mode != "nearest":
        x = g.cast(x, narrow if narrow == WIDE else "float32")
    rejected: list[tuple[int, Term]] = []
    for axis, at in axes:
        places = g.count(at.target.cast("int64").value, None if sizes is None else sizes[axis])
        positions = source_positions(g, method.coordinates, Term(g, places).cast(WIDE), at)
        if method.coordinates == "tf_crop_and_resize":
            rejected.append((axis, (positions < 0).either(positions > at.size - 1)))
        x = _resize_axis(g, x, axis, at, positions, method)
    for place, outside in rejected:
        shape: list[Dim] = [1] * x.rank
        shape[place] = outside.value.shape[0]
        x = outside.reshape(*shape).where(method.extrapolation, Term(g, x)).value
    return g.cast(x, narrow)


def _resize_axis(g: Composer, x: Value, axis: int, at: AxisNumbers[Term], positions: Term, method: Method) -> Value:
    if method.mode == "nearest":
        indices = nearest_indices(g, positions, method.nearest).maximum(0).minimum(at.size - 1).cast("int64")
        return g.call("take", x, indices.value, axis=axis, mode="clip")
    if not method.antialias:
        return _weighted_reads(g, x, axis, at.size, positions, method)
    shrink = at.scale.minimum(1.0)
    reach = (((1 if method.mode == "linear" else 2) / shrink).ceil() + 1).cast("int64")
    size = at.size.cast("int64")
    columns = Term(g, g.call("arange", (reach * -1).value, (size + reach).value, g.constant(1, "int64"), dtype="int64"))
    weights = _weights(positions, columns.cast(WIDE), at.size, shrink, method)
    inside = columns.maximum(0).minimum(size - 1)
    extended = g.call("take", x, inside.value, axis=axis, mode="clip")
    order = [i for i in range(x.rank) if i != axis] + [axis]
    back = sorted(range(x.rank), key=order.__getitem__)
    moved = g.call("transpose", extended, axes=tuple(order))
    result = g.call("nn.dense", moved, g.cast(weights.value, x.dtype), units=None)
    return g.call("transpose", result, axes=tuple(back))


def _weighted_reads(g: Composer, x: Value, axis: int, size: Term, positions: Term, method: Method) -> Value:
    base = positions.ceil() - 1
    places = [base + offset for offset in ((0, 1) if method.mode == "linear" else (-1, 0, 1, 2))]
    distances = [abs(place - positions) for place in places]
    if method.mode == "linear":
        weights = [1 - distance for distance in distances]
    else:
        weights = [cubic(distance, method.cubic_coefficient) for distance in distances]
    if method.exclude_outside:
        weights = [(place < 0).either(place > size - 1).where(0.0, weight) for place, weight in zip(places, weights)]
        whole = reduce(operator.add, weights)
        weights = [weight / whole for weight in weights]
    shape: list[Dim] = [positions.value.shape[0] if k == axis else 1 for k in range(x.rank)]
    parts = []
    for place, weight in zip(places, weights):
        index = place.maximum(0).minimum(size - 1).cast("int64")
        part = Term(g, g.call("take", x, index.value, axis=axis, mode="clip"))
        parts.append(part * weight.cast(x.dtype).reshape(*shape))
    return reduce(operator.add, parts).value


def _weights(positions: Term, columns: Term, size: Term, shrink: Term, method: Method) -> Term:
    """A matrix with a row for each element of the result."""
    rows = positions.reshape(positions.value.shape[0], 1)
    row = columns.reshape(1, columns.value.shape[0])
    distance = abs((row - rows) * shrink)
    weights = (1 - distance).maximum(0) if method.mode == "linear" else cubic(distance, method.cubic_coefficient)
    if method.exclude_outside:
        weights = (row < 0).either(row > size - 1).where(0.0, weights)
    if method.exclude_outside or method.antialias:
        weights = weights / weights.sum(1)
    return weights
