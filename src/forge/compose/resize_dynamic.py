"""Resizing whose scales, sizes or region arrive at run time, or whose sizes are symbolic.

The formulas are those of ``resize``, computed by the graph. Linear and cubic interpolation multiply by a matrix of weights over
the axis, extended at both ends by as many copies of its end elements as the kernel reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

from forge.compose.resize_rules import COORDINATES, Method
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

WIDE = "float64"


@dataclass(frozen=True)
class RuntimeAxis:
    """One axis to resize; numbers are terms of rank 0."""

    axis: int
    size: Term
    target: Term  # an integer
    scale: Term
    start: Term | None = None
    end: Term | None = None


def element(g: Composer, vector: Value, position: int) -> Term:
    """One element of a vector, as a wide float."""
    return Term(g, g.cast(g.call("take", vector, g.constant(position, "int64"), axis=0), WIDE))


def extent(g: Composer, x: Value, axis: int) -> Term:
    """The size along an axis, as a wide float."""
    return Term(g, g.cast(g.extent(x, axis), WIDE))


def resize_axes(g: Composer, x: Value, axes: list[RuntimeAxis], method: Method) -> Value:
    """``x`` resized along each of ``axes``."""
    narrow = x.dtype
    if method.mode != "nearest":
        x = g.cast(x, narrow if narrow == WIDE else "float32")
    rejected: list[tuple[int, Term]] = []
    for axis in axes:
        positions = _positions(g, axis, method)
        if method.coordinates == "tf_crop_and_resize":
            rejected.append((axis.axis, (positions < 0).either(positions > axis.size - 1)))
        x = _resize_axis(g, x, axis, positions, method)
    for place, outside in rejected:
        shape: list[Dim] = [1] * x.rank
        shape[place] = outside.value.shape[0]
        x = outside.reshape(*shape).where(method.extrapolation, Term(g, x)).value
    return g.cast(x, narrow)


def _positions(g: Composer, axis: RuntimeAxis, method: Method) -> Term:
    """Where the elements of the result lie on the axis of the operand."""
    zero, one = g.constant(0, "int64"), g.constant(1, "int64")
    i = Term(g, g.call("arange", zero, axis.target.value, one, dtype="int64")).cast(WIDE)
    size, scale = axis.size, axis.scale
    exact = scale * size
    match method.coordinates:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        case "half_pixel_symmetric":
            return size / 2 * (1 - axis.target.cast(WIDE) / exact) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (exact > 1).where((i + 0.5) / scale - 0.5, -0.5)
        case "asymmetric":
            return i / scale
        case "align_corners":
            return exact.equals(1).where(0.0, i * (size - 1) / (exact - 1))
        case "tf_crop_and_resize":
            assert axis.start is not None and axis.end is not None
            length = axis.end - axis.start
            last = axis.target.cast(WIDE) - 1
            spread = last.equals(0).where(length / 2, i * length / last)
            return (spread + axis.start) * (size - 1)
    raise g.invalid(
        f"attribute 'coordinate_transformation_mode': got {method.coordinates!r}; expected one of {', '.join(COORDINATES)}"
    )


def _resize_axis(g: Composer, x: Value, axis: RuntimeAxis, positions: Term, method: Method) -> Value:
    if method.mode == "nearest":
        indices = _nearest(g, positions, method.nearest).maximum(0).minimum(axis.size - 1).cast("int64")
        return g.call("take", x, indices.value, axis=axis.axis, mode="clip")
    shrink = axis.scale.minimum(1.0) if method.antialias else axis.scale.minimum(1.0) * 0 + 1
    reach = (((1 if method.mode == "linear" else 2) / shrink).ceil() + 1).cast("int64")
    size = axis.size.cast("int64")
    columns = Term(g, g.call("arange", (reach * -1).value, (size + reach).value, g.constant(1, "int64"), dtype="int64"))
    weights = _weights(positions, columns.cast(WIDE), axis, shrink, method)
    inside = columns.maximum(0).minimum(size - 1)
    extended = g.call("take", x, inside.value, axis=axis.axis, mode="clip")
    order = [i for i in range(x.rank) if i != axis.axis] + [axis.axis]
    back = sorted(range(x.rank), key=order.__getitem__)
    moved = g.call("transpose", extended, axes=tuple(order))
    result = g.call("nn.dense", moved, g.cast(weights.value, x.dtype), units=None)
    return g.call("transpose", result, axes=tuple(back))


def _weights(positions: Term, columns: Term, axis: RuntimeAxis, shrink: Term, method: Method) -> Term:
    """A matrix with a row for each element of the result."""
    rows = positions.reshape(positions.value.shape[0], 1)
    row = columns.reshape(1, columns.value.shape[0])
    distance = abs((row - rows) * shrink)
    weights = (1 - distance).maximum(0) if method.mode == "linear" else _cubic(distance, method.cubic_coefficient)
    if method.exclude_outside:
        weights = (row < 0).either(row > axis.size - 1).where(0.0, weights)
    if method.exclude_outside or method.antialias:
        weights = weights / weights.sum(1)
    return weights


def _cubic(t: Term, a: float) -> Term:
    """Keys' kernel at distances ``t``."""
    near = (t * (a + 2) - (a + 3)) * t * t + 1
    far = ((t * a - 5 * a) * t + 8 * a) * t - 4 * a
    return (t <= 1).where(near, (t < 2).where(far, 0.0))


def _nearest(g: Composer, positions: Term, mode: str) -> Term:
    match mode:
        case "round_prefer_floor":
            return (positions - 0.5).ceil()
        case "round_prefer_ceil":
            return (positions + 0.5).floor()
        case "floor":
            return positions.floor()
        case "ceil":
            return positions.ceil()
    raise g.invalid(f"attribute 'nearest_mode': got {mode!r}; expected round_prefer_floor, round_prefer_ceil, floor or ceil")
