"""Sliding windows: padding that gives a wanted size, and folds whose window arrives at run time."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

Sizes = tuple[Dim, ...]


def same_padding(
    spatial: Sequence[Dim], kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int], upper: bool = True
) -> Sizes:
    """Padding before all axes, then after them, with which windows give size / stride elements, rounded up.

    An odd element goes to the end if ``upper``, else to the front.
    """
    totals = [_same_total(*axis) for axis in zip(spatial, kernel, strides, dilations)]
    return halves(totals, upper)


def _same_total(size: Dim, kernel: Dim, stride: int, dilation: int) -> Dim:
    outputs = dims.ceildiv(size, stride)
    return dims.maximum((outputs - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)


def halves(totals: Sequence[Dim], upper: bool) -> Sizes:
    """Totals split into parts before and after; the odd element goes to the end when ``upper``."""
    small = [dims.floordiv(t, 2) for t in totals]
    large = [t - s for t, s in zip(totals, small)]
    return (*small, *large) if upper else (*large, *small)


def transposed_padding(
    spatial: Sequence[Dim],
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: Sequence[Dim],
    wanted: Sequence[Dim],
    upper: bool,
) -> tuple[Sizes, Sizes]:
    """Padding and output padding with which a transposed convolution gives the ``wanted`` sizes; ``extra`` is output padding."""
    totals: list[Dim] = []
    added: list[Dim] = []
    for size, taps, stride, dilation, more, target in zip(spatial, kernel, strides, dilations, extra, wanted):
        missing = stride * (size - 1) + more + (taps - 1) * dilation + 1 - target
        totals.append(dims.maximum(missing, 0))
        added.append(more + dims.maximum(-1 * missing, 0))
    return halves(totals, upper), tuple(added)


def element(g: Composer, vector: Value, position: int) -> Term:
    """One number of a vector."""
    return Term(g, g.call("take", vector, g.constant(position, "int64"), axis=0))


def fold(
    g: Composer,
    x: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """``nn.fold`` with an image and a window whose sizes, vectors of int64, arrive at run time.

    ``x`` is ``[N, C * taps, windows]``; each of its elements is added to the element of the image that it lies on.
    """
    count = len(strides)
    image, block = ([element(g, sizes, axis) for axis in range(count)] for sizes in (image_shape, block_shape))
    taps, size = _product(block), _product(image)
    channels = Term(g, g.extent(x, 1)).floor_divide(taps)
    width = taps * Term(g, g.extent(x, 2))
    columns = g.call("reshape", x, _vector(g, [Term(g, g.extent(x, 0)), channels, width]), newshape=None)
    position, inside = _positions(g, image, block, strides, padding, dilations)
    kept = g.call("where", inside, columns, g.scalar(0, x))
    places = g.call("broadcast_to", position, shape=kept.shape)
    zeros = g.call("full", g.scalar(0, x), _vector(g, [Term(g, g.extent(x, 0)), channels, size]), shape=None)
    total = g.call("scatter_elements", zeros, places, kept, axis=2, reduction="add")
    return g.call("reshape", total, _vector(g, [Term(g, g.extent(x, 0)), channels, *image]), newshape=None)


def _positions(
    g: Composer,
    image: Sequence[Term],
    block: Sequence[Term],
    strides: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
) -> tuple[Value, Value]:
    """Where in the flat image each tap of each window lies, and whether it lies in it, as vectors [taps * windows]."""
    count = len(image)
    position, inside = Term(g, g.constant(0, "int64")), Term(g, g.constant(True))
    for axis, (size, width) in enumerate(zip(image, block)):
        span = size + (padding[axis] + padding[axis + count]) - (width - 1) * dilations[axis] - 1
        starts = _along(g, span.floor_divide(strides[axis]) + 1, count + axis, 2 * count) * strides[axis]
        place = starts + _along(g, width, axis, 2 * count) * dilations[axis] - padding[axis]
        inside = inside.both(place >= 0).both(place < size)
        position = position * size + place.maximum(0).minimum(size - 1)
    flat = (g.call("reshape", v.value, newshape=(-1,)) for v in (position, inside))
    return next(flat), next(flat)


def _along(g: Composer, count: Term, axis: int, rank: int) -> Term:
    """0, 1, .. count - 1 along one of ``rank`` axes."""
    numbers = g.count(count.value)
    return Term(g, g.reshape(numbers, [numbers.shape[0] if k == axis else 1 for k in range(rank)]))


def _product(terms: Sequence[Term]) -> Term:
    total = terms[0]
    for term in terms[1:]:
        total = total * term
    return total


def _vector(g: Composer, terms: Sequence[Term]) -> Value:
    return g.call("concatenate", *(g.reshape(t.value, (1,)) for t in terms), axis=0)
