"""Operators that order, count and find elements."""

from __future__ import annotations

from forge import dims, dtypes
from forge.compose import axes, indexing, segments
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


@converts("TopK", outputs="values indices")
def top_k(g: Context, x: Value, *, k: int, sorted: bool = True) -> list[Value]:  # noqa: A002
    return _top(g, x, g.constant(k, "int32"), "int32")


@converts("TopKV2", outputs="values indices")
def top_k_v2(
    g: Context, x: Value, k: Value, *, sorted: bool = True, index_type: str = "int32"  # noqa: A002
) -> list[Value]:
    """In falling order, also where any would do."""
    return _top(g, x, k, index_type)


def _top(g: Context, x: Value, k: Value, index_type: str) -> list[Value]:
    known = g.dims(k)
    if known is None:
        values, places = g.multi("topk", x, g.reshape(g.cast(k, "int64"), ()))
    else:
        values, places = g.multi("topk", x, k=known[0])
    return [values, g.cast(places, index_type)]


@converts("InTopK")
def in_top_k(g: Context, predictions: Value, targets: Value, *, k: int) -> Value:
    return _in_top(g, predictions, targets, g.constant(k, "int64"))


@converts("InTopKV2")
def in_top_k_v2(g: Context, predictions: Value, targets: Value, k: Value) -> Value:
    return _in_top(g, predictions, targets, k)


def _in_top(g: Context, predictions: Value, targets: Value, k: Value) -> Value:
    """Whether fewer than ``k`` classes are above the target's; never where one is not finite, or there is no such target."""
    classes = g.extent(predictions, 1)
    place = Term(g, g.cast(targets, "int64"))
    is_class = (place >= 0).both(place < Term(g, classes))
    own = g.call("take", predictions, is_class.where(place, 0).value, axis=1, batch_dims=1)
    above = g.call("greater", predictions, g.call("expand_dims", own, axis=1))
    more = Term(g, g.call("sum", g.cast(above, "int64"), axis=(1,)))
    finite = Term(g, g.call("all", g.call("isfinite", predictions), axis=(1,)))
    return (more < Term(g, g.cast(g.reshape(k, ()), "int64"))).both(finite).both(is_class).value


@converts("NthElement")
def nth_element(g: Context, x: Value, n: Value, *, reverse: bool = False) -> Value:
    ordered = g.call("sort", x, axis=-1, is_ascend=not reverse)
    return g.call("take", ordered, g.reshape(n, ()), axis=x.rank - 1)


@converts("Unique", outputs="y idx")
def unique(g: Context, x: Value, *, out_idx: str = "int32") -> list[Value]:
    return _unique(g, x, 0, out_idx)[:2]


@converts("UniqueWithCounts", outputs="y idx count")
def unique_with_counts(g: Context, x: Value, *, out_idx: str = "int32") -> list[Value]:
    return _unique(g, x, 0, out_idx)


@converts("UniqueV2", outputs="y idx")
def unique_v2(g: Context, x: Value, axis: Value, *, out_idx: str = "int32") -> list[Value]:
    return _unique(g, x, _unique_axis(g, x, axis), out_idx)[:2]


@converts("UniqueWithCountsV2", outputs="y idx count")
def unique_with_counts_v2(g: Context, x: Value, axis: Value, *, out_idx: str = "int32") -> list[Value]:
    return _unique(g, x, _unique_axis(g, x, axis), out_idx)


def _unique_axis(g: Context, x: Value, axis: Value) -> int:
    given = g.axes_of(axis, x.rank)
    if len(given) > 1 or not given and x.rank != 1:
        raise g.invalid(f"axis: got {given} for {x.type}; expected one")
    return given[0] if given else 0


def _unique(g: Context, x: Value, axis: int, out_idx: str) -> list[Value]:
    """In order of first appearance."""
    values, _, numbers, counts = g.multi("unique", x, axis=axis, sorted=False)
    return [values, g.cast(numbers, out_idx), g.cast(counts, out_idx)]


@converts("ListDiff", outputs="out idx")
def list_diff(g: Context, x: Value, y: Value, *, out_idx: str = "int32") -> list[Value]:
    (places,) = indexing.nonzero(g, g.call("logical_not", indexing.isin(g, x, y)))
    return [g.call("take", x, places, axis=0), g.cast(places, out_idx)]


@converts("LowerBound", "UpperBound")
def bound(g: Context, ordered: Value, values: Value, *, out_type: str = "int32") -> Value:
    return g.call("searchsorted", ordered, values, right=g.node.op == "UpperBound", dtype=out_type)


@converts("Bucketize")
def bucketize(g: Context, x: Value, *, boundaries: tuple[float, ...] = ()) -> Value:
    wide = x if dtypes.is_float(x.dtype) else g.cast(x, "float64")
    return g.call("searchsorted", g.constant(boundaries, wide.dtype), wide, right=True, dtype="int32")


@converts("HistogramFixedWidth")
def histogram_fixed_width(g: Context, x: Value, value_range: Value, bins: Value, *, dtype: str = "int32") -> Value:
    """What lies outside of the range belongs to the first or last cell."""
    count = g.one_int(bins, "nbins")
    low, high = (Term(g, g.call("take", value_range, g.constant(k, "int64"), axis=0)) for k in (0, 1))
    step = (high - low) / count
    place = ((Term(g, axes.ravel(g, x)).maximum(low) - low) / step).floor().minimum(count - 1).cast("int64")
    ones = g.broadcast(g.constant(1, dtype), place.value.shape)
    return g.call("segment_reduce", ones, place.value, reduction="sum", num_segments=count)


def _between_equals(g: Context, size: Value) -> Value:
    """``size``, or the bound of it, where ``tf.math.bincount`` has made it with ``minlength`` and ``maxlength`` that are one."""
    outer = size.producer
    if outer is None or outer.op != "minimum":
        return size
    for high, inner in (outer.operands, reversed(outer.operands)):
        low = () if inner is None or inner.producer is None or inner.producer.op != "maximum" else inner.producer.operands
        most = None if high is None else g.ints(high)
        if most is not None and any(v is not None and g.ints(v) == most for v in low):
            return high or size
    return size


@converts("Bincount", "DenseBincount")
def bincount(g: Context, x: Value, size: Value, weights: Value, *, binary_output: bool = False) -> Value:
    """How often 0, 1, .. occur, or sums of their weights, in all of ``x`` or in each row of DenseBincount."""
    count = g.one_int(_between_equals(g, size), "size")
    by_row = x.rank == 2 and g.node.op == "DenseBincount"
    rows = x.shape[0] if by_row else 1
    flat = Term(g, g.reshape(g.cast(x, "int64"), (rows, x.shape[1]) if by_row else (1, dims.product(x.shape))))
    number = axes.along(g, axes.places(g, flat.value, 0), 0, 2)
    inside = (flat >= 0).both(flat < count)
    ids = inside.where(flat + Term(g, number) * count, -1).value
    no_weights = binary_output or dims.equal(dims.product(weights.shape), 0)
    if not no_weights and not dims.equal(dims.product(weights.shape), dims.product(x.shape)):
        raise g.unsupported(f"got {weights.type} as weights of {x.type}; expected as many, or none; fix the sizes")
    values = g.broadcast(g.constant(1, weights.dtype), ids.shape) if no_weights else g.reshape(weights, ids.shape)
    kind = "max" if binary_output else "sum"
    cells = g.call("multiply", g.size(rows), g.constant(count, "int64"))
    total = segments.counted(g, kind, values, ids, cells)
    if binary_output:
        total = g.call("maximum", total, g.scalar(0, total))
    return g.reshape(total, (rows, count) if by_row else (count,))
