"""Reductions of the rows that have the same number."""

from __future__ import annotations

from forge.compose import segments
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


@converts("SegmentSum", "SegmentProd", "SegmentMax", "SegmentMin", "SegmentMean")
def segment(g: Context, data: Value, ids: Value) -> Value:
    """Numbers ascend; a number without rows gives 0, of products 1."""
    kind = g.node.op.removeprefix("Segment").lower()
    found = segments.ascending(g, kind, data, ids)
    if kind not in ("max", "min"):
        return found
    ones = g.broadcast(g.constant(1, "int64"), ids.shape)
    rows = segments.ascending(g, "sum", ones, ids)
    is_empty = g.call("equal", rows, g.constant(0, "int64"))
    is_empty = g.reshape(is_empty, (*is_empty.shape, *(1,) * (data.rank - 1)))
    return g.call("where", is_empty, g.constant(0, data.dtype), found)


@converts("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def unsorted_segment(g: Context, data: Value, ids: Value, count: Value) -> Value:
    return segments.counted(g, g.node.op.removeprefix("UnsortedSegment").lower(), data, ids, count)


@converts(*(f"SparseSegment{kind}" for kind in ("Sum", "Mean", "SqrtN")))
def sparse_segment(g: Context, data: Value, indices: Value, ids: Value, *, sparse_gradient: bool = False) -> Value:
    return _of_rows(g, data, indices, ids, segments.last_and_one(g, ids))


@converts(*(f"SparseSegment{kind}WithNumSegments" for kind in ("Sum", "Mean", "SqrtN")))
def sparse_segment_counted(
    g: Context, data: Value, indices: Value, ids: Value, count: Value, *, sparse_gradient: bool = False
) -> Value:
    return _of_rows(g, data, indices, ids, g.cast(g.reshape(count, ()), "int64"))


def _of_rows(g: Context, data: Value, indices: Value, ids: Value, count: Value) -> Value:
    """Sums of rows of ``data``, or divided by their number, or its root."""
    rows = g.call("take", data, indices, axis=0)
    known = g.dims(count)

    def total(values: Value) -> Value:
        if known is not None:
            return g.call("segment_reduce", values, ids, reduction="sum", num_segments=known[0])
        return g.call("segment_reduce", values, ids, None, count, reduction="sum")

    found = total(rows)
    if "Sum" in g.node.op:
        return found
    number = Term(g, total(g.broadcast(g.constant(1, data.dtype), ids.shape))).maximum(1)
    divisor = number.value if "Mean" in g.node.op else g.call("sqrt", number.value)
    return g.call("divide", found, g.reshape(divisor, (*divisor.shape, *(1,) * (data.rank - 1))))
