"""Gather and scatter with any dimension numbers.

Both become operators whose indices are tuples along the first dimension: of the tensor, the batching dimensions and those that
indices name come first; windows of more than one element along these become indices of their elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.frontends.stablehlo import regions
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters.elementwise import binary
from forge.frontends.stablehlo.converters.reduce import combined
from forge.frontends.stablehlo.converters.shape import sliced, window
from forge.frontends.stablehlo.importer import build_region, converted_body
from forge.frontends.stablehlo.registry import converts
from forge.ir.nodes import Value

Ints = tuple[int, ...]


@dataclass(frozen=True)
class _Numbers:
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

    def check(self, g: Context, rank: int, indices: Value, result_rank: int) -> None:
        """Raises OpAttributeInvalid where they do not fit the operands."""
        named = (*self.batching, *self.indexed)
        kept = rank - len(self.batching) - len(self.dropped)
        tuples = 1 if self.vector == indices.rank else indices.shape[self.vector] if 0 <= self.vector < indices.rank else -1
        fits = (
            len(set(named)) == len(named) and all(0 <= axis < rank for axis in (*named, *self.dropped))
            and len(self.batching) == len(self.index_batching) and len(self.windows) == kept and tuples == len(self.indexed)
            and all(0 <= axis < result_rank for axis in self.windows) and len(set(self.windows)) == kept
            and all(0 <= axis < indices.rank and axis != self.vector for axis in self.index_batching))
        if not fits:
            raise g.invalid(f"dimension numbers: got {self} for a tensor of rank {rank} and indices {indices.type}; they do not fit")

    def order(self, rank: int) -> Ints:
        """Dimensions of the tensor: batching ones, indexed ones, others."""
        first = (*self.batching, *self.indexed)
        return (*first, *(axis for axis in range(rank) if axis not in first))

    def window_axes(self, rank: int) -> list[int]:
        """Dimensions of the tensor that windows have, in order."""
        return [axis for axis in range(rank) if axis not in (*self.batching, *self.dropped)]


def _gather_numbers(numbers: Mapping[str, Sequence[int]]) -> _Numbers:
    names = (
        "operand_batching_dims", "start_indices_batching_dims", "start_index_map", "collapsed_slice_dims", "offset_dims")
    return _Numbers(*(tuple(numbers[name]) for name in names), numbers["index_vector_dim"])  # type: ignore[arg-type]


def _scatter_numbers(numbers: Mapping[str, Sequence[int]]) -> _Numbers:
    names = (
        "input_batching_dims", "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "inserted_window_dims",
        "update_window_dims")
    return _Numbers(*(tuple(numbers[name]) for name in names), numbers["index_vector_dim"])  # type: ignore[arg-type]


@converts("gather")
def gather(
    g: Context, operand: Value, start_indices: Value, *, dimension_numbers: Mapping[str, Sequence[int]], slice_sizes: Ints,
    indices_are_sorted: bool = False,
) -> Value:
    return gathered(g, operand, start_indices, _gather_numbers(dimension_numbers), slice_sizes)


@converts("dynamic_gather")
def dynamic_gather(
    g: Context, operand: Value, start_indices: Value, slice_sizes: Value, *, dimension_numbers: Mapping[str, Sequence[int]],
    indices_are_sorted: bool = False,
) -> Value:
    sizes = g.dims(slice_sizes)
    if sizes is None:
        raise g.unsupported("slice_sizes are computed at run time, of more than sizes; expected expressions of sizes")
    return gathered(g, operand, start_indices, _gather_numbers(dimension_numbers), sizes)


def gathered(g: Context, data: Value, indices: Value, numbers: _Numbers, sizes: Sequence[Dim]) -> Value:
    """Windows of ``sizes`` of data, whose starts are moved so that they lie inside."""
    rank = data.rank
    if len(sizes) != rank:
        raise g.invalid(f"slice_sizes: got {tuple(sizes)}; expected {rank} numbers")
    numbers.check(g, rank, indices, len(g.result_type().shape))
    tuples, outer = _tuples(g, indices, numbers)
    count = len(numbers.batching)
    indexed, widths = numbers.indexed, [sizes[axis] for axis in numbers.indexed]
    whole = [0 if axis in indexed else 1 for axis in range(rank)]
    data = sliced(g, data, (0,) * rank, [sizes[k] if whole[k] and k not in numbers.batching else data.shape[k] for k in range(rank)],
                  (1,) * rank)
    room = [data.shape[axis] - size for axis, size in zip(indexed, widths)]
    if not outer and not count and indexed:
        starts = g.call("concatenate", *[_element(g, tuples, indexed.index(k)) if k in indexed else g.constant([0], "int64") for k in range(rank)], axis=0)
        found = window(g, data, starts, [sizes[k] for k in range(rank)])
        return _arranged(g, found, numbers, rank, sizes, 0, list(range(rank)))
    if not indexed:
        found = g.broadcast(g.reshape(g.moved(data, numbers.order(rank)), (*outer[:count], *[1] * (len(outer) - count), *(data.shape[k] for k in numbers.order(rank)[count:]))),
                            (*outer, *(data.shape[k] for k in numbers.order(rank)[count:])))
        return _arranged(g, found, numbers, rank, sizes, len(outer), list(numbers.order(rank)[count:]), count)
    starts = _clamped(g, tuples, room)
    order = numbers.order(rank)
    moved = g.moved(data, order)
    wide = [k for k, size in enumerate(widths) if not (isinstance(size, int) and size == 1)]
    if len(indexed) == 1 and not wide:
        flat = g.call("take", moved, g.reshape(starts, starts.shape[1:]), axis=count, batch_dims=count, mode="fast")
        return _arranged(g, flat, numbers, rank, sizes, len(outer), [*order[count + 1:]], count)
    places = _with_windows(g, starts, [widths[k] for k in wide], wide)
    found = g.call("gather_nd", moved, places, batch_dims=count)
    return _arranged(g, found, numbers, rank, sizes, len(outer), [*(indexed[k] for k in wide), *order[count + len(indexed):]], count)


def _tuples(g: Context, indices: Value, numbers: _Numbers) -> tuple[Value, tuple[Dim, ...]]:
    """Indices as int64 with index tuples along the first dimension, then the batching ones, then others; sizes of these."""
    if numbers.vector == indices.rank:
        indices = g.reshape(indices, (*indices.shape, 1))
    others = [axis for axis in range(indices.rank) if axis != numbers.vector and axis not in numbers.index_batching]
    moved = g.moved(g.cast(indices, "int64"), (numbers.vector, *numbers.index_batching, *others))
    return moved, tuple(moved.shape[1:])


def _element(g: Context, tuples: Value, position: int) -> Value:
    return g.call("strided_slice", tuples, begin=(position,), end=(position + 1,), strides=(1,), axes=(0,))


def _clamped(g: Context, tuples: Value, room: Sequence[Dim]) -> Value:
    """Starts moved into [0, room]."""
    if dims.is_static(*room):
        most = g.constant(np.reshape(np.array(room, "int64"), (-1, *[1] * (tuples.rank - 1))))
    else:
        most = g.reshape(g.vector([g.scope.size(g, size) for size in room]), (len(room), *[1] * (tuples.rank - 1)))
    return g.call("minimum", g.call("maximum", tuples, g.constant(0, "int64")), most)


def _with_windows(g: Context, starts: Value, sizes: Sequence[Dim], wide: Sequence[int]) -> Value:
    """Index tuples of all elements of windows, which have a dimension at the end for each of ``wide``, positions in tuples."""
    rank, count = starts.rank, starts.shape[0]
    result = g.reshape(starts, (*starts.shape, *[1] * len(wide)))
    for k, (position, size) in enumerate(zip(wide, sizes)):
        along = [size if axis == rank + k else 1 for axis in range(rank + len(wide))]
        numbers = g.constant(np.arange(size), "int64") if isinstance(size, int) else g.count(g.scope.size(g, size), size)
        hot = g.constant(np.reshape(np.arange(count) == position, (-1, *[1] * (rank + len(wide) - 1))), "int64")
        result = g.call("add", result, g.call("multiply", g.reshape(numbers, along), hot))
    return result


def _arranged(
    g: Context, found: Value, numbers: _Numbers, rank: int, sizes: Sequence[Dim], outer: int, axes: Sequence[int], batches: int = 0
) -> Value:
    """What was read, ``outer`` dimensions of indices and then ``axes`` of the tensor, with the dimensions of the result in order."""
    kept = numbers.window_axes(rank)
    present = [axis for axis in axes if axis in kept or not (isinstance(sizes[axis], int) and sizes[axis] == 1)]
    shape = [*found.shape[:outer], *(sizes[axis] for axis in kept if axis in present)]
    lacking = [axis for axis in kept if axis not in axes]
    squeezed = g.reshape(found, [*found.shape[:outer], *(found.shape[outer + k] for k, axis in enumerate(axes) if axis in kept),
                                 *[1] * len(lacking)])
    order_of_windows = [*(axis for axis in axes if axis in kept), *lacking]
    batch_places = _batch_places(numbers, outer)
    result_rank = outer + len(kept)
    places = [0] * result_rank
    free = iter(k for k in range(result_rank) if k not in numbers.windows)
    rest = list(free)
    for k in range(outer):
        places[rest[batch_places[k]]] = k
    for position, axis in zip(numbers.windows, kept):
        places[position] = outer + order_of_windows.index(axis)
    del shape
    return g.moved(squeezed, places)


def _batch_places(numbers: _Numbers, outer: int) -> list[int]:
    """Where, among the dimensions of indices in their own order, those of `_tuples` are."""
    own = [axis for axis in range(outer + 1) if axis != numbers.vector][:outer]
    others = [axis for axis in own if axis not in numbers.index_batching]
    return [own.index(axis) for axis in (*numbers.index_batching, *others)]


_REDUCTIONS = {"add": "add", "multiply": "mul", "minimum": "min", "maximum": "max"}
_OF_BOOLS = {"add": "max", "or": "max", "maximum": "max", "multiply": "min", "and": "min", "minimum": "min"}


@converts("scatter")
def scatter(
    g: Context, *operands: Value, scatter_dimension_numbers: Mapping[str, Sequence[int]], indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> list[Value]:
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1:]
    numbers, body = _scatter_numbers(scatter_dimension_numbers), g.region(0)
    rank = inputs[0].rank
    numbers.check(g, rank, indices, updates[0].rank)
    places, parts = _places(g, indices, updates, numbers, inputs[0])
    order = numbers.order(rank)
    data = [g.moved(v, order) for v in inputs]
    back = [order.index(k) for k in range(rank)]
    names = _modes(body, count)
    if names is not None:
        found = [_scattered(g, mode, *each) for mode, *each in zip(names, data, [places] * count, parts)]
    elif unique_indices:
        old = [g.call("gather_nd", v, places) for v in data]
        found = [_scattered(g, "update", v, places, new) for v, new in zip(data, combined(g, body, old, parts))]
    else:
        found = _one_by_one(g, data, places, parts)
    return [g.moved(v, back) for v in found]


def _modes(body: regions.Block, count: int) -> list[str] | None:
    """The reductions of a body with a name for each of its results."""
    if body.results == body.arguments[count:]:
        return ["update"] * count
    return regions.combinations(body)


def _scattered(g: Context, name: str, data: Value, places: Value, updates: Value) -> Value:
    if data.dtype == "bool" and name != "update":
        if name not in _OF_BOOLS:
            raise g.unsupported(f"scatter with {name} of bool is not supported; expected and, or")
        wide = [g.cast(v, "uint8") for v in (data, updates)]
        return g.cast(g.call("scatter_nd", wide[0], places, wide[1], mode=_OF_BOOLS[name], out_of_range="drop"), "bool")
    if name not in ("update", *_REDUCTIONS):
        return _by_bits(g, name, data, places, updates)
    return g.call("scatter_nd", data, places, updates, mode=_REDUCTIONS.get(name, "update"), out_of_range="drop")


def _by_bits(g: Context, name: str, data: Value, places: Value, updates: Value) -> Value:
    raise g.unsupported(f"scatter with {name} of integers is not supported; expected add, multiply, minimum, maximum or the update")


def _places(
    g: Context, indices: Value, updates: Sequence[Value], numbers: _Numbers, data: Value
) -> tuple[Value, list[Value]]:
    """Index tuples of the dimensions in front (batching and indexed ones), and the updates in the order of their dimensions."""
    rank = data.rank
    tuples, outer = _tuples(g, indices, numbers)
    kept = numbers.window_axes(rank)
    sizes = {axis: updates[0].shape[place] for axis, place in zip(kept, numbers.windows)}
    order = numbers.order(rank)
    count = len(numbers.batching)
    for k in reversed(range(count)):
        own = g.broadcast(g.reshape(_range(g, outer[k]), (1, *[outer[k] if j == k else 1 for j in range(len(outer))])), (1, *outer))
        tuples = g.call("concatenate", own, tuples, axis=0)
    first = order[: count + len(numbers.indexed)]
    rest = order[len(first):]
    wide = [k for k, axis in enumerate(first) if axis in sizes]
    cut = [axis for axis in rest if not dims.equal(sizes[axis], data.shape[axis])]
    if cut:
        raise g.unsupported("a scatter of windows smaller than the tensor along a dimension without indices is not supported")
    places = _with_windows(g, tuples, [sizes[first[k]] for k in wide], wide) if wide else tuples
    others = [axis for axis in range(updates[0].rank) if axis not in numbers.windows]
    own_order = _batch_places(numbers, len(outer))
    window_places = dict(zip(kept, numbers.windows))
    moves = [*(others[own_order[k]] for k in range(len(outer))), *(window_places[first[k]] for k in wide), *(window_places[axis] for axis in rest)]
    return g.broadcast(places, (places.shape[0], *(updates[0].shape[k] for k in moves[: places.rank - 1]))), [g.moved(u, moves) for u in updates]


def _range(g: Context, size: Dim) -> Value:
    return g.constant(np.arange(size), "int64") if isinstance(size, int) else g.count(g.scope.size(g, size), size)


def _one_by_one(g: Context, data: Sequence[Value], places: Value, updates: Sequence[Value]) -> list[Value]:
    """Updates by any body, one after the other."""
    count, depth = len(data), places.shape[0]
    axes = range(1, places.rank)
    rows = g.call("reshape", g.moved(places, (*axes, 0)), newshape=(-1, depth))
    tail = updates[0].shape[places.rank - 1:]
    parts = [g.call("reshape", u, newshape=(-1, *tail)) for u in updates]
    slices = [v.type for v in data] + [type(v.tensor_type)(v.shape[1:], v.dtype) for v in (rows, *parts)]

    def build(scope: object, inputs: list[Value]) -> list[Value]:
        inner = Context(scope, g.operation, g.name)  # type: ignore[arg-type]
        state, place, new = inputs[:count], inner.reshape(inputs[count], (depth, 1)), inputs[count + 1:]
        old = [inner.reshape(inner.call("gather_nd", v, place), tail) for v in state]
        found = combined(inner, inner.region(0), old, new)
        return [inner.call("scatter_nd", v, place, inner.reshape(f, (1, *tail)), out_of_range="drop") for v, f in zip(state, found)]

    region = build_region(g, slices, build)
    graph = region.with_captures(region.captured, len(slices))
    return g.multi("scan", *data, rows, *parts, *region.captured, regions=[graph], num_states=count, num_scan_inputs=1 + count)


