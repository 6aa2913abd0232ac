"""Sorting and choosing: TopK, Unique, NonZero and Compress."""

from __future__ import annotations

from typing import Any

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.ops.core.inference import at_most


@converts("TopK", since=1, introduced={"largest": 11, "sorted": 11}, attribute_before={"k": 10})
def top_k(g: Context, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> list[Value]:  # noqa: A002
    """Unsorted results may come in any order, so they come sorted as well."""
    attributes: dict[str, Any] = {"axis": g.axis(axis, x.rank), "ret_type": "both", "is_ascend": not largest, "dtype": "int64"}
    known = g.dims(k)
    if known is None:
        return g.multi("topk", x, g.reshape(k, ()), k=None, **attributes)
    return g.multi("topk", x, k=known[0], **attributes)


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
    if not at_most(condition.shape[0], x.shape[axis]):
        condition = g.call("strided_slice", condition, begin=(0,), end=(x.shape[axis],), strides=(1,), axes=(0,))
    kept = g.call("squeeze", g.call("argwhere", condition), axis=(1,))
    return g.call("take", x, kept, axis=axis, mode="clip")


@converts("Unique", since=11)
def unique(g: Context, x: Value, *, axis: int | None = None, sorted: int = 1) -> list[Value]:  # noqa: A002
    if axis is None:
        x = g.call("reshape", x, newshape=(-1,))
    place = 0 if axis is None else g.axis(axis, x.rank)
    return g.multi("unique", x, axis=place, sorted=bool(sorted))
