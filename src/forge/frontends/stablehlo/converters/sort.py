"""Sorting by any comparator."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dtypes
from forge.frontends.stablehlo import regions
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters.elementwise import total_order
from forge.frontends.stablehlo.importer import inline_values
from forge.frontends.stablehlo.registry import converts
from forge.ir.nodes import Value


@converts("sort")
def sort(g: Context, *inputs: Value, dimension: int = -1, is_stable: bool = False) -> list[Value]:
    axis = g.axis(dimension, inputs[0].rank, "dimension")
    keys = regions.sort_keys(g.region(0))
    if keys is None:
        return _in_order(g, inputs, _order_by_comparisons(g, inputs, axis), axis)
    numbers = [_number(g, key, inputs) for key in keys]
    if len(inputs) == len(keys) == 1 and numbers[0] is inputs[0]:
        return [g.call("sort", inputs[0], axis=axis, is_ascend=keys[0].ascending)]
    order: Value | None = None
    for key, number in reversed(list(zip(keys, numbers))):
        values = number if order is None else g.call("gather", number, order, axis=axis)
        found = g.call("argsort", values, axis=axis, is_ascend=key.ascending, dtype="int64")
        order = found if order is None else g.call("gather", order, found, axis=axis)
    assert order is not None
    return _in_order(g, inputs, order, axis)


def _in_order(g: Context, inputs: Sequence[Value], order: Value, axis: int) -> list[Value]:
    return [g.call("gather", v, order, axis=axis) for v in inputs]


def _number(g: Context, key: regions.SortKey, inputs: Sequence[Value]) -> Value:
    """The numbers by which a key orders."""
    number = inputs[key.operand]
    if not key.is_itself:
        pairs = [v for v in inputs for _ in range(2)]
        (number,) = inline_values(g, g.region(0), pairs, [key.value])
        number = g.broadcast(number, inputs[0].shape)
        if key.is_total and dtypes.is_float(number.dtype):
            number = total_order(g, number)
    return g.cast(number, "uint8") if number.dtype == "bool" else number


def _order_by_comparisons(g: Context, inputs: Sequence[Value], axis: int) -> Value:
    """Positions in the order that a comparator says, by comparing all elements with all others."""
    rank = inputs[0].rank
    columns = [g.moved(v, (*(k for k in range(rank) if k != axis), axis)) for v in inputs]
    size = columns[0].shape[-1]
    mine = [g.reshape(v, (*v.shape, 1)) for v in columns]
    others = [g.reshape(v, (*v.shape[:-1], 1, size)) for v in columns]
    shape = (*columns[0].shape, size)

    def compared(first: Sequence[Value], second: Sequence[Value]) -> Value:
        pairs = [v for pair in zip(first, second) for v in pair]
        (found,) = inline_values(g, g.region(0), pairs, g.region(0).results)
        return g.broadcast(found, shape)

    places = g.cast(g.scope.size(g, size), "int64")
    numbers = g.count(places, size)
    earlier = g.call("less", g.reshape(numbers, (1, size)), g.reshape(numbers, (size, 1)))
    tied = g.call("logical_and", g.call("logical_not", compared(mine, others)), earlier)
    before = g.call("logical_or", compared(others, mine), tied)
    rank_of = g.call("sum", g.cast(before, "int64"), axis=(-1,))
    order = g.call("argsort", rank_of, axis=-1, dtype="int64")
    back = (*range(axis), rank - 1, *range(axis, rank - 1))
    return g.moved(order, back)


@converts("top_k", domain="chlo")
def top_k(g: Context, operand: Value, *, k: int) -> list[Value]:
    numbers = g.cast(operand, "uint8") if operand.dtype == "bool" else operand
    values, order = g.multi("topk", numbers, k=k, axis=-1, ret_type="both", dtype="int32")
    return [g.cast(values, operand.dtype), order]
