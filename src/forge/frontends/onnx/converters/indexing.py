"""Gathering, scattering, selecting, sorting, cumulative sums."""

from __future__ import annotations

from typing import Any

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@converts("Gather", since=1)
def gather(g: Context, x: Value, indices: Value, *, axis: int = 0) -> Value:
    return g.call("take", x, indices, axis=g.axis(axis, x.rank), mode="wrap_negative")


@converts("GatherElements", since=11)
def gather_elements(g: Context, x: Value, indices: Value, *, axis: int = 0) -> Value:
    return g.call("gather", x, indices, axis=g.axis(axis, x.rank))


@converts("GatherND", since=11, introduced={"batch_dims": 12})
def gather_nd(g: Context, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    return g.call("gather_nd", x, _index_vectors_first(g, indices), batch_dims=batch_dims)


def _index_vectors_first(g: Context, indices: Value) -> Value:
    """ONNX keeps an index vector in the last axis, the operator in the first."""
    return g.call("transpose", indices, axes=(indices.rank - 1, *range(indices.rank - 1))) if indices.rank > 1 else indices


@converts("Scatter", since=9, lacks=("reduction",))
@converts("ScatterElements", since=11, introduced={"reduction": 16})
def scatter_elements(g: Context, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none") -> Value:
    kind = _reduction(g, reduction)
    return g.call("scatter_elements", x, indices, updates, axis=g.axis(axis, x.rank), reduction=kind)


@converts("ScatterND", since=11, introduced={"reduction": 16})
def scatter_nd(g: Context, x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    return g.call("scatter_nd", x, _index_vectors_first(g, indices), updates, mode=_reduction(g, reduction))


def _reduction(g: Context, name: str) -> str:
    if name not in _REDUCTIONS:
        raise g.invalid(f"attribute 'reduction': got {name!r}; expected one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[name]


@converts("NonZero", since=9)
def non_zero(g: Context, x: Value) -> Value:
    """One row for each axis, one column for each element."""
    found = g.call("argwhere", x)
    return g.cast(g.call("transpose", found, axes=(1, 0)), "int64")


@converts("Compress", since=9)
def compress(g: Context, x: Value, condition: Value, *, axis: int | None = None) -> Value:
    if axis is None:
        x, axis = g.call("reshape", x, newshape=(-1,)), 0
    axis = g.axis(axis, x.rank)
    size = condition.shape[0]
    if isinstance(x.shape[axis], int) and isinstance(size, int) and size > x.shape[axis]:
        condition = g.call("strided_slice", condition, begin=(0,), end=(x.shape[axis],), strides=(1,), axes=(0,))
    kept = g.call("squeeze", g.call("argwhere", condition), axis=(1,))
    return g.call("take", x, kept, axis=axis, mode="clip")


@converts("TopK", since=1)
def top_k_1(g: Context, x: Value, *, k: int, axis: int = -1) -> list[Value]:
    return _top_k(g, x, g.constant(k, "int64"), axis, largest=True)


@converts("TopK", since=10, introduced={"largest": 11, "sorted": 11})
def top_k(g: Context, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> list[Value]:  # noqa: A002
    """Unsorted results may come in any order, so they come sorted as well."""
    return _top_k(g, x, k, axis, bool(largest))


def _top_k(g: Context, x: Value, k: Value, axis: int, largest: bool) -> list[Value]:
    attributes: dict[str, Any] = {"axis": g.axis(axis, x.rank), "ret_type": "both", "is_ascend": not largest, "dtype": "int64"}
    known = g.dims(k)
    if known is None:
        return g.multi("topk", x, g.reshape(k, ()), k=None, **attributes)
    return g.multi("topk", x, k=known[0], **attributes)


@converts("Unique", since=11)
def unique(g: Context, x: Value, *, axis: int | None = None, sorted: int = 1) -> list[Value]:  # noqa: A002
    if axis is None:
        x = g.call("reshape", x, newshape=(-1,))
    place = 0 if axis is None else g.axis(axis, x.rank)
    return g.multi("unique", x, axis=place, sorted=bool(sorted))


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
