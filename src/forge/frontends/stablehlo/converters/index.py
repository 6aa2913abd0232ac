"""Gathers with any dimension numbers, and what they share with scatters.

Both become operators whose index tuples lie along the first dimension of the indices: of the tensor, the batching dimensions and
those that indices name come first; windows of more than one element along these become indices of their elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters.shape import MAX_CONSTANT, broadcast_into, sliced, window
from forge.frontends.stablehlo.registry import converts
from forge.ir.nodes import Value

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Numbers:
    """Dimension numbers of a gather or scatter.

    Attributes:
        batching, index_batching: dimensions of the tensor and of the indices that go together.
        indexed: dimensions of the tensor that indices name, in their order.
        dropped: dimensions of the tensor that windows lack, besides the batching ones.
        windows: dimensions of the result, or of the updates, that are those of windows.
        vector: the dimension of the indices along which index tuples lie.
    """

    batching: Ints
    index_batching: Ints
    indexed: Ints
    dropped: Ints
    windows: Ints
    vector: int

    @classmethod
    def of(cls, numbers: Mapping[str, Any], *names: str) -> Numbers:
        """Those of an attribute whose fields, in the order of these, are called ``names``."""
        batching, index_batching, indexed, dropped, windows = (tuple(numbers[name]) for name in names)
        return cls(batching, index_batching, indexed, dropped, windows, numbers["index_vector_dim"])

    def check(self, g: Context, rank: int, indices: Value, result_rank: int) -> None:
        """Raises OpAttributeInvalid where they do not fit a tensor of ``rank``."""
        named = (*self.batching, *self.indexed)
        kept = rank - len(self.batching) - len(self.dropped)
        tuples = 1 if self.vector == indices.rank else indices.shape[self.vector] if 0 <= self.vector < indices.rank else -1
        fits = (
            len(set(named)) == len(named) and all(0 <= axis < rank for axis in (*named, *self.dropped))
            and len(self.batching) == len(self.index_batching) and len(self.windows) == kept and tuples == len(self.indexed)
            and all(0 <= axis < result_rank for axis in self.windows) and len(set(self.windows)) == kept
            and all(0 <= axis < indices.rank and axis != self.vector for axis in self.index_batching))
        if not fits:
            operands = f"a tensor of rank {rank} and indices {indices.type}"
            raise g.invalid(f"dimension numbers: got {self}; expected those of {operands}")

    def order(self, rank: int) -> Ints:
        """Dimensions of the tensor: batching ones, indexed ones, others."""
        first = (*self.batching, *self.indexed)
        return (*first, *(axis for axis in range(rank) if axis not in first))

    def window_axes(self, rank: int) -> list[int]:
        """Dimensions of the tensor that windows have, in order."""
        return [axis for axis in range(rank) if axis not in (*self.batching, *self.dropped)]

    def outer_order(self, outer: int) -> list[int]:
        """Where `index_tuples` has its ``outer`` dimensions from, among those of the indices without their tuples."""
        own = [axis for axis in range(outer + 1) if axis != self.vector][:outer]
        return [own.index(axis) for axis in (*self.index_batching, *(axis for axis in own if axis not in self.index_batching))]


def index_tuples(g: Context, indices: Value, numbers: Numbers) -> Value:
    """Indices as int64 with index tuples along the first dimension, then the batching dimensions, then the others."""
    if numbers.vector == indices.rank:
        indices = g.reshape(indices, (*indices.shape, 1))
    others = [axis for axis in range(indices.rank) if axis != numbers.vector and axis not in numbers.index_batching]
    return g.moved(g.cast(indices, "int64"), (numbers.vector, *numbers.index_batching, *others))


def positions(g: Context, size: Dim) -> Value:
    """0, 1, .. size - 1."""
    if isinstance(size, int) and size <= MAX_CONSTANT:
        return g.constant(np.arange(size), "int64")
    return g.count(g.scope.size(g, size), size)


def with_windows(g: Context, starts: Value, sizes: Sequence[Dim], wide: Sequence[int]) -> Value:
    """Index tuples of all elements of windows: one more dimension at the end for each of ``wide``, positions in tuples."""
    rank, count = starts.rank, starts.shape[0]
    total = rank + len(wide)
    result = g.reshape(starts, (*starts.shape, *[1] * len(wide)))
    for k, (position, size) in enumerate(zip(wide, sizes)):
        along = g.reshape(positions(g, size), [size if axis == rank + k else 1 for axis in range(total)])
        chosen = g.constant(np.reshape(np.arange(count) == position, (-1, *[1] * (total - 1))), "int64")
        result = g.call("add", result, g.call("multiply", along, chosen))
    return result


_GATHER = ("operand_batching_dims", "start_indices_batching_dims", "start_index_map", "collapsed_slice_dims", "offset_dims")


@converts("gather")
def gather(
    g: Context, operand: Value, start_indices: Value, *, dimension_numbers: Mapping[str, Any], slice_sizes: Ints,
    indices_are_sorted: bool = False,
) -> Value:
    return gathered(g, operand, start_indices, Numbers.of(dimension_numbers, *_GATHER), slice_sizes)


@converts("dynamic_gather")
def dynamic_gather(
    g: Context, operand: Value, start_indices: Value, slice_sizes: Value, *, dimension_numbers: Mapping[str, Any],
    indices_are_sorted: bool = False,
) -> Value:
    sizes = g.dims(slice_sizes)
    if sizes is None:
        raise g.unsupported("slice_sizes are computed at run time, of more than sizes; expected expressions of sizes")
    return gathered(g, operand, start_indices, Numbers.of(dimension_numbers, *_GATHER), sizes)


@converts("torch_index_select")
def torch_index_select(g: Context, operand: Value, index: Value, *, dim: int, batch_dims: int) -> Value:
    return g.call("take", operand, index, axis=dim, batch_dims=batch_dims, mode="clip")


def gathered(g: Context, data: Value, indices: Value, numbers: Numbers, sizes: Sequence[Dim]) -> Value:
    """Windows of ``sizes`` of data, whose starts are moved so that they lie inside."""
    rank = data.rank
    if len(sizes) != rank:
        raise g.invalid(f"slice_sizes: got {tuple(sizes)}; expected {rank} numbers")
    numbers.check(g, rank, indices, len(g.result_type().shape))
    free = [axis not in (*numbers.indexed, *numbers.batching) for axis in range(rank)]
    ends = [size if is_free else whole for size, is_free, whole in zip(sizes, free, data.shape)]
    tuples = index_tuples(g, indices, numbers)
    found, axes = _read(g, sliced(g, data, (0,) * rank, ends, (1,) * rank), tuples, numbers, sizes)
    return _arranged(g, found, numbers, rank, tuples.rank - 1, axes)


def _read(
    g: Context, data: Value, tuples: Value, numbers: Numbers, sizes: Sequence[Dim]
) -> tuple[Value, Sequence[int]]:
    """What is read, with the dimensions of index tuples first; and which of data's the others are."""
    rank, outer, count, indexed = data.rank, tuple(tuples.shape[1:]), len(numbers.batching), numbers.indexed
    if not outer:
        zero = g.constant([0], "int64")
        starts = [_row(g, tuples, indexed.index(axis)) if axis in indexed else zero for axis in range(rank)]
        return window(g, data, g.call("concatenate", *starts, axis=0) if starts else zero, sizes), range(rank)
    order = numbers.order(rank)
    moved, rest = g.moved(data, order), order[count + len(indexed):]
    if not indexed:
        places = (*range(count), *(len(outer) + k for k in range(len(rest))))
        return broadcast_into(g, moved, places, (*outer, *moved.shape[count:])), rest
    starts_inside = _clamped(g, tuples, [data.shape[axis] - sizes[axis] for axis in indexed])
    wide = [k for k, axis in enumerate(indexed) if not dims.equal(sizes[axis], 1)]
    if len(indexed) == 1 and not wide:
        rows = g.reshape(starts_inside, outer)
        return g.call("take", moved, rows, axis=count, batch_dims=count, mode="fast"), rest
    tuples = with_windows(g, starts_inside, [sizes[indexed[k]] for k in wide], wide)
    return g.call("gather_nd", moved, tuples, batch_dims=count), [*(indexed[k] for k in wide), *rest]


def _row(g: Context, tuples: Value, position: int) -> Value:
    return g.call("strided_slice", tuples, begin=(position,), end=(position + 1,), strides=(1,), axes=(0,))


def _clamped(g: Context, tuples: Value, room: Sequence[Dim]) -> Value:
    """Starts moved into [0, room]."""
    most = g.vector_of([g.scope.size(g, size) for size in room])
    shape = (len(room), *[1] * (tuples.rank - 1))
    return g.call("minimum", g.call("maximum", tuples, g.constant(0, "int64")), g.reshape(most, shape))


def _arranged(g: Context, found: Value, numbers: Numbers, rank: int, outer: int, axes: Sequence[int]) -> Value:
    """What was read, ``outer`` dimensions of index tuples and then ``axes`` of the tensor, in the order of the result."""
    kept = numbers.window_axes(rank)
    lacking = [axis for axis in kept if axis not in axes]
    own = [axis for axis in axes if axis in kept]
    inner = [found.shape[outer + k] for k, axis in enumerate(axes) if axis in kept]
    found = g.reshape(found, [*found.shape[:outer], *inner, *[1] * len(lacking)])
    own += lacking
    free = [k for k in range(outer + len(kept)) if k not in numbers.windows]
    places = {position: outer + own.index(axis) for position, axis in zip(numbers.windows, kept)}
    places |= {free[position]: k for k, position in enumerate(numbers.outer_order(outer))}
    return g.moved(found, [places[k] for k in range(outer + len(kept))])
