"""CumSum and CumProd."""

from __future__ import annotations

from forge.compose.checks import checked_indices
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("CumSum", since=11)
def cumulative_sum(g: Context, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    return _cumulative(g, "cumsum", x, axis, exclusive, reverse)


@converts("CumProd", since=26)
def cumulative_product(g: Context, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    return _cumulative(g, "cumprod", x, axis, exclusive, reverse)


def _cumulative(g: Context, op: str, x: Value, axis: Value, exclusive: int, reverse: int) -> Value:
    known = g.ints(axis)
    if known is not None:
        return _cumulative_along(g, op, x, g.axis(known[0], x.rank), exclusive, reverse)
    axis = checked_indices(g, axis, x.rank, what="an axis")
    if not reverse:
        return g.call(op, x, g.reshape(axis, ()), axis=None, exclusive=bool(exclusive))
    place = g.call("floor_mod", g.reshape(axis, ()), g.constant(x.rank, axis.dtype))
    result = _cumulative_along(g, op, x, 0, exclusive, reverse)
    for candidate in range(1, x.rank):
        chosen = g.call("equal", place, g.constant(candidate, axis.dtype))
        result = g.call("where", chosen, _cumulative_along(g, op, x, candidate, exclusive, reverse), result)
    return result


def _cumulative_along(g: Context, op: str, x: Value, axis: int, exclusive: int, reverse: int) -> Value:
    data = g.call("reverse", x, axis=axis) if reverse else x
    result = g.call(op, data, axis=axis, exclusive=bool(exclusive))
    return g.call("reverse", result, axis=axis) if reverse else result
