"""TopK."""

from __future__ import annotations

from typing import Any

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


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
