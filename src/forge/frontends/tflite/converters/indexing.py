"""Operators that read and write at positions, and those that order, count and find elements."""

from __future__ import annotations

import numpy as np

from forge import dims, dtypes
from forge.compose import segments, tuples
from forge.compose.axes import diag_embed
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.registry import converts, moves, takes_integers
from forge.ir.nodes import Value


@converts("GATHER")
@moves
def gather(g: Context, x: Value, indices: Value, *, axis: int = 0, batch_dims: int = 0) -> Value:
    place = g.axis(axis, x.rank)
    return g.call("take", x, indices, axis=place, batch_dims=batch_dims + indices.rank if batch_dims < 0 else batch_dims)


@converts("GATHER_ND")
@moves
def gather_nd(g: Context, x: Value, indices: Value) -> Value:
    return tuples.gathered(g, x, indices)


@converts("TOPK_V2")
@moves
def top_k(g: Context, x: Value, k: Value) -> list[Value]:
    known = g.dims(k)
    if known is None:
        values, places = g.multi("topk", x, g.reshape(g.cast(k, "int64"), ()))
    else:
        values, places = g.multi("topk", x, k=known[0])
    return [values, g.cast(places, g.result(1).dtype)]


@converts("ONE_HOT")
@takes_integers
def one_hot(g: Context, indices: Value, depth: Value, on: Value, off: Value, *, axis: int = -1) -> Value:
    return tuples.one_hot(g, indices, depth, on, off, axis)


@converts("WHERE")
@takes_integers
def where(g: Context, condition: Value) -> Value:
    return g.call("argwhere", condition)


@converts("SCATTER_ND")
@takes_integers
def scatter_nd(g: Context, indices: Value, updates: Value, shape: Value) -> Value:
    return tuples.scattered(g, shape, indices, updates)


@converts("SPARSE_TO_DENSE")
@takes_integers
def sparse_to_dense(g: Context, indices: Value, shape: Value, values: Value, default: Value) -> Value:
    return tuples.dense(g, indices, shape, values, default)


@converts("EMBEDDING_LOOKUP")
@takes_integers
def embedding_lookup(g: Context, ids: Value, table: Value) -> Value:
    rows = g.call("take", table, ids, axis=0)
    how = g.quantization(1)
    if how is None or not dtypes.is_float(g.result().dtype):
        return rows
    if how.axis is None:
        return quantized.dequantize(g, rows, how)
    if how.axis != 0:
        raise g.unsupported(f"a table quantized along axis {how.axis}; expected 0 or the whole table")
    scales = g.call("take", g.constant(how.scales, "float32"), ids, axis=0)
    zeros = g.call("take", g.constant(how.zero_points.astype(np.float32)), ids, axis=0)
    scales, zeros = (g.reshape(v, (*ids.shape, *(1,) * (table.rank - 1))) for v in (scales, zeros))
    return g.call("multiply", g.call("subtract", g.cast(rows, "float32"), zeros), scales)


@converts("EMBEDDING_LOOKUP_SPARSE")
def embedding_lookup_sparse(
    g: Context, ids: Value, indices: Value, shape: Value, weights: Value, table: Value, *, combiner: str = "SUM"
) -> Value:
    """Rows of a table with weights, summed for each index but for its last number; the mean divides by the sum of weights."""
    known = g.dims(shape)
    if known is None:
        raise g.unsupported("the shape is computed at run time; expected a constant")
    batch = known[:-1]
    bags: Value | None = None
    for axis, size in enumerate(batch):
        place = g.call("take", g.cast(indices, "int64"), g.constant(axis, "int64"), axis=1)
        bags = place if bags is None else g.call("add", g.call("multiply", bags, g.size(size)), place)
    if bags is None:
        raise g.invalid(f"got the shape {known}; expected two sizes or more")
    count = dims.product(batch)
    rows = g.call("take", table, ids, axis=0)
    factors = g.reshape(weights, (weights.shape[0], *(1,) * (table.rank - 1)))
    total = g.call("segment_reduce", g.call("multiply", rows, factors), bags, reduction="sum", num_segments=count)
    if combiner != "SUM":
        parts = weights if combiner == "MEAN" else g.call("multiply", weights, weights)
        divisor = g.call("segment_reduce", parts, bags, reduction="sum", num_segments=count)
        divisor = divisor if combiner == "MEAN" else g.call("sqrt", divisor)
        is_empty = g.call("equal", divisor, g.constant(0, "float32"))
        divisor = g.call("where", is_empty, g.constant(1, "float32"), divisor)
        total = g.call("divide", total, g.reshape(divisor, (count, *(1,) * (table.rank - 1))))
    return g.reshape(total, (*batch, *table.shape[1:]))


@converts("HASHTABLE_LOOKUP")
@takes_integers
def hashtable_lookup(g: Context, lookups: Value, keys: Value, table: Value) -> list[Value]:
    """Rows at the keys, which ascend, and whether there are some; zeros where there are none."""
    if not isinstance(keys.shape[0], int) or table.dtype == "string":
        raise g.unsupported(f"got {keys.type} keys and {table.type} values; expected numbers, and as many as the model says")
    place = g.call("searchsorted", keys, lookups)
    place = g.call("minimum", place, g.constant(max(keys.shape[0] - 1, 0), "int64"))
    hit = g.call("equal", g.call("take", keys, place, axis=0), lookups)
    wide = g.reshape(hit, (*hit.shape, *(1,) * (table.rank - 1)))
    rows = g.call("where", wide, g.call("take", table, place, axis=0), g.constant(0, table.dtype))
    return [rows, g.cast(hit, "uint8")]


@converts("UNIQUE")
@takes_integers
def unique(g: Context, x: Value, *, idx_out_type: str = "int32") -> list[Value]:
    """In order of first appearance."""
    values, _, numbers, _ = g.multi("unique", x, axis=0, sorted=False)
    return [values, g.cast(numbers, g.result(1).dtype)]


@converts("SEGMENT_SUM")
@takes_integers
def segment_sum(g: Context, data: Value, ids: Value) -> Value:
    return segments.ascending(g, "sum", data, ids)


@converts("UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN")
@takes_integers
def unsorted_segments(g: Context, data: Value, ids: Value, count: Value) -> Value:
    return segments.counted(g, g.operator.name.rpartition("_")[2].lower(), data, ids, count)


@converts("DYNAMIC_UPDATE_SLICE")
@moves
def dynamic_update_slice(g: Context, x: Value, update: Value, start: Value) -> Value:
    return g.call("dynamic_update_slice", x, update, g.cast(start, "int64"))


@converts("MATRIX_DIAG")
@moves
def matrix_diag(g: Context, diagonal: Value) -> Value:
    return diag_embed(g, diagonal, 0)


@converts("MATRIX_SET_DIAG")
@moves
def matrix_set_diag(g: Context, x: Value, diagonal: Value) -> Value:
    return g.call("matrix_set_diag", x, diagonal)


@converts("REVERSE_SEQUENCE")
@moves
def reverse_sequence(g: Context, x: Value, lengths: Value, *, seq_dim: int = 0, batch_dim: int = 0) -> Value:
    return g.call("reverse_sequence", x, lengths, seq_axis=g.axis(seq_dim, x.rank), batch_axis=g.axis(batch_dim, x.rank))


@converts("BUCKETIZE")
@takes_integers
def bucketize(g: Context, x: Value, *, boundaries: tuple[float, ...] = ()) -> Value:
    wide = x if dtypes.is_float(x.dtype) else g.cast(x, "float64")
    found = g.call("searchsorted", g.constant(boundaries, wide.dtype), wide, right=True)
    return g.cast(found, g.result().dtype)
