"""Scatters with any dimension numbers and any body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forge import dims
from forge.dims import Dim
from forge.frontends.stablehlo import regions
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters.index import Numbers, index_tuples, positions, with_windows
from forge.frontends.stablehlo.converters.reduce import combined
from forge.frontends.stablehlo.importer import build_region
from forge.frontends.stablehlo.module import Block
from forge.frontends.stablehlo.registry import converts
from forge.frontends.stablehlo.scope import StablehloScope
from forge.ir.nodes import Value
from forge.ir.types import TensorType

_NAMES = (
    "input_batching_dims", "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "inserted_window_dims",
    "update_window_dims")
_REDUCTIONS = {"update": "update", "add": "add", "subtract": "add", "multiply": "mul", "minimum": "min", "maximum": "max"}
_OF_BOOLS = {"add": "max", "or": "max", "maximum": "max", "multiply": "min", "and": "min", "minimum": "min"}


@converts("scatter")
def scatter(
    g: Context, *operands: Value, scatter_dimension_numbers: Mapping[str, Any], indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> list[Value]:
    """Windows of updates that are not all in range are left out, as XLA does it."""
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1:]
    numbers, body, rank = Numbers.of(scatter_dimension_numbers, *_NAMES), g.region(0), inputs[0].rank
    numbers.check(g, rank, indices, updates[0].rank)
    numbers, tuples = _with_starts(g, index_tuples(g, indices, numbers), updates[0], numbers, inputs[0])
    order = numbers.order(rank)
    data = [g.moved(v, order) for v in inputs]
    places, moves = _places(g, tuples, updates[0], numbers, rank)
    parts = [g.moved(u, moves) for u in updates]
    names = _combinations(body, count)
    if names is not None and all(_mode(name, v) is not None for name, v in zip(names, data)):
        found = [_scattered(g, name, v, places, new) for name, v, new in zip(names, data, parts)]
    elif unique_indices:
        old = [g.call("gather_nd", v, places) for v in data]
        found = [_scattered(g, "update", v, places, new) for v, new in zip(data, combined(g, body, old, parts))]
    else:
        found = _one_by_one(g, body, data, places, parts)
    return [g.moved(v, [order.index(k) for k in range(rank)]) for v in found]


def _combinations(body: Block, count: int) -> list[str] | None:
    """By what each result of a body is made of the old and the new number."""
    return ["update"] * count if body.results == body.arguments[count:] else regions.combinations(body, ("subtract",))


def _mode(name: str, data: Value) -> str | None:
    """The operator's mode for a combination."""
    return _OF_BOOLS.get(name) if data.dtype == "bool" and name != "update" else _REDUCTIONS.get(name)


def _scattered(g: Context, name: str, data: Value, places: Value, updates: Value) -> Value:
    dtype, mode = data.dtype, _mode(name, data)
    updates = g.call("negative", updates) if name == "subtract" else updates
    if dtype == "bool" and name != "update":
        data, updates = g.cast(data, "uint8"), g.cast(updates, "uint8")
    return g.cast(g.call("scatter_nd", data, places, updates, mode=mode, out_of_range="drop"), dtype)


def _with_starts(
    g: Context, tuples: Value, updates: Value, numbers: Numbers, data: Value
) -> tuple[Numbers, Value]:
    """Dimension numbers and index tuples that name, besides, the dimensions along which windows are smaller than the tensor."""
    sizes = {axis: updates.shape[place] for axis, place in zip(numbers.window_axes(data.rank), numbers.windows)}
    tuples = _whole_windows(g, tuples, [sizes.get(axis, 1) for axis in numbers.indexed], [data.shape[a] for a in numbers.indexed])
    named = (*numbers.batching, *numbers.indexed)
    smaller = tuple(
        axis for axis, extent in enumerate(data.shape)
        if axis not in named and (axis in numbers.dropped or not dims.equal(sizes[axis], extent)))
    if not smaller:
        return numbers, tuples
    zeros = g.filled(0, "int64", (len(smaller), *tuples.shape[1:]))
    return replace(numbers, indexed=(*numbers.indexed, *smaller)), g.call("concatenate", tuples, zeros, axis=0)


def _whole_windows(g: Context, tuples: Value, sizes: Sequence[Dim], extents: Sequence[Dim]) -> Value:
    """Index tuples that are out of range where a window of ``sizes`` is not all in range."""
    if all(dims.equal(size, 1) for size in sizes):
        return tuples

    def column(numbers: Sequence[Dim]) -> Value:
        return g.reshape(g.vector_of([g.scope.size(g, n) for n in numbers]), (len(numbers), *[1] * (tuples.rank - 1)))

    room = column([extent - size for extent, size in zip(extents, sizes)])
    inside = g.call("logical_and", g.call("greater_equal", tuples, g.constant(0, "int64")), g.call("less_equal", tuples, room))
    return g.call("where", inside, tuples, column(extents))


def _places(g: Context, tuples: Value, updates: Value, numbers: Numbers, rank: int) -> tuple[Value, list[int]]:
    """Index tuples of the dimensions in front, batching and indexed ones; and the order of the updates' dimensions that fits."""
    outer, count, order = tuple(tuples.shape[1:]), len(numbers.batching), numbers.order(rank)
    for k in reversed(range(count)):
        own = g.reshape(positions(g, outer[k]), (1, *(size if axis == k else 1 for axis, size in enumerate(outer))))
        tuples = g.call("concatenate", g.broadcast(own, (1, *outer)), tuples, axis=0)
    first, rest = order[: count + len(numbers.indexed)], order[count + len(numbers.indexed):]
    of_windows = dict(zip(numbers.window_axes(rank), numbers.windows))
    wide = [k for k, axis in enumerate(first) if axis in of_windows]
    places = with_windows(g, tuples, [updates.shape[of_windows[first[k]]] for k in wide], wide)
    others = [axis for axis in range(updates.rank) if axis not in numbers.windows]
    moves = [
        *(others[position] for position in numbers.outer_order(len(outer))),
        *(of_windows[first[k]] for k in wide), *(of_windows[axis] for axis in rest)]
    return g.broadcast(places, (places.shape[0], *(updates.shape[k] for k in moves[: places.rank - 1]))), moves


def _one_by_one(g: Context, body: Block, data: Sequence[Value], places: Value, updates: Sequence[Value]) -> list[Value]:
    """Updates by any body, one after the other."""
    count, depth, tail = len(data), places.shape[0], updates[0].shape[places.rank - 1:]
    total = dims.product(places.shape[1:])
    rows = g.reshape(g.moved(places, (*range(1, places.rank), 0)), (total, depth))
    parts = [g.reshape(u, (total, *tail)) for u in updates]
    types = [*(v.tensor_type for v in data), *(TensorType(v.shape[1:], v.dtype) for v in (rows, *parts))]

    def step(scope: StablehloScope, inputs: list[Value]) -> list[Value]:
        inner = Context(scope, g.operation, g.name)
        state, place, new = inputs[:count], inner.reshape(inputs[count], (depth, 1)), inputs[count + 1:]
        old = [inner.reshape(inner.call("gather_nd", v, place), tail) for v in state]
        found = [inner.reshape(v, (1, *tail)) for v in combined(inner, body, old, new)]
        return [inner.call("scatter_nd", v, place, f, out_of_range="drop") for v, f in zip(state, found)]

    region = build_region(g, types, step)
    graph = region.with_captures(region.captured, len(types))
    return g.multi("scan", *data, rows, *parts, *region.captured, regions=[graph], num_states=count, num_scan_inputs=1 + count)
