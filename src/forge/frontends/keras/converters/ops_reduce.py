"""Operations of ``keras.ops`` that reduce, sort, or sum up along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dtypes
from forge.compose import axes as of_axes
from forge.compose import reductions
from forge.frontends.keras.context import Context
from forge.frontends.keras.promotion import FLOAT, real, value
from forge.frontends.keras.registry import OPS, converts
from forge.ir.nodes import Value


def axes_of(g: Context, axis: Any, rank: int) -> tuple[int, ...]:
    """Axes from the front; None stands for all."""
    given = range(rank) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(sorted(g.axis(a, rank) for a in given))


def _sum_type(x: Value) -> str:
    """The type that sums have."""
    if x.dtype in ("bool", "int8", "int16"):
        return "int32"
    return "uint32" if x.dtype in ("uint8", "uint16") else x.dtype


def _summed(op: str) -> Any:
    def convert(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Value:
        found = value(g, x)
        found = g.cast(found, _sum_type(found) if dtype is None else dtypes.canonical(dtype))
        return reductions.reduced(g, op, found, axes_of(g, axis, found.rank), keepdims)

    return convert


converts("Sum", domain=OPS)(_summed("sum"))
converts("Prod", domain=OPS)(_summed("prod"))


def _extreme(op: str) -> Any:
    def convert(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Value:
        found = value(g, x)
        result = reductions.reduced(g, op, found, axes_of(g, axis, found.rank), keepdims)
        if initial is None:
            return result
        return g.call("maximum" if op == "max" else "minimum", result, g.constant(initial, result.dtype))

    return convert


for _name, _op in (("Max", "max"), ("Amax", "max"), ("Min", "min"), ("Amin", "min")):
    converts(_name, domain=OPS)(_extreme(_op))


def _nan_extreme(op: str) -> Any:
    def convert(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
        found = real(g, x)
        over = axes_of(g, axis, found.rank)
        is_nan = g.call("isnan", found)
        filled = g.call("where", is_nan, g.full(found.shape, -float("inf") if op == "max" else float("inf"), found.dtype), found)
        result = reductions.reduced(g, op, filled, over, keepdims)
        none = reductions.reduced(g, "all", is_nan, over, keepdims)
        return g.call("where", none, g.full(result.shape, float("nan"), result.dtype), result)

    return convert


converts("Nanmax", domain=OPS)(_nan_extreme("max"))
converts("Nanmin", domain=OPS)(_nan_extreme("min"))


def without_nan(g: Context, x: Value, number: float) -> Value:
    return g.call("where", g.call("isnan", x), g.full(x.shape, number, x.dtype), x)


def _nan_summed(op: str, number: float) -> Any:
    def convert(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
        found = value(g, x)
        data = without_nan(g, found, number) if dtypes.is_float(found.dtype) else g.cast(found, _sum_type(found))
        return reductions.reduced(g, op, data, axes_of(g, axis, found.rank), keepdims)

    return convert


converts("Nansum", domain=OPS)(_nan_summed("sum", 0.0))
converts("Nanprod", domain=OPS)(_nan_summed("prod", 1.0))


def _nan_counts(g: Context, x: Value, over: Sequence[int], keepdims: bool) -> Value:
    return reductions.reduced(g, "sum", g.cast(g.call("logical_not", g.call("isnan", x)), x.dtype), over, keepdims)


@converts("Nanmean", domain=OPS)
def nan_mean(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
    found = real(g, x)
    over = axes_of(g, axis, found.rank)
    total = reductions.reduced(g, "sum", without_nan(g, found, 0.0), over, keepdims)
    return g.call("divide", total, _nan_counts(g, found, over, keepdims))


@converts("Nanvar", "Nanstd", domain=OPS)
def nan_variance(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
    found = real(g, x)
    over = axes_of(g, axis, found.rank)
    mean = nan_mean(g, found, axis=over, keepdims=True)
    apart = g.call("subtract", found, mean)
    squares = without_nan(g, g.call("multiply", apart, apart), 0.0)
    total = reductions.reduced(g, "sum", squares, over, keepdims)
    result = g.call("divide", total, _nan_counts(g, found, over, keepdims))
    return g.call("sqrt", result) if g.layer.class_name == "Nanstd" else result


def _averaged(op: str) -> Any:
    def convert(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
        found = real(g, x)
        over = axes_of(g, axis, found.rank)
        narrow = found.dtype
        wide = g.cast(found, FLOAT) if narrow in ("float16", "bfloat16") else found
        result = reductions.reduced(g, "mean" if op == "mean" else "variance", wide, over, keepdims)
        return g.cast(g.call("sqrt", result) if op == "std" else result, narrow)

    return convert


for _name, _op in (("Mean", "mean"), ("Var", "variance"), ("Std", "std")):
    converts(_name, domain=OPS)(_averaged(_op))


@converts("Moments", domain=OPS)
def moments(g: Context, x: Any, *, axes: Any, keepdims: bool = False, synchronized: bool = False) -> list[Value]:
    return [_averaged(op)(g, x, axis=axes, keepdims=keepdims) for op in ("mean", "variance")]


@converts("All", "Any", domain=OPS)
def truth(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
    found = g.cast(value(g, x), "bool")
    return reductions.reduced(g, g.layer.class_name.lower(), found, axes_of(g, axis, found.rank), keepdims)


@converts("CountNonzero", domain=OPS)
def count_nonzero(g: Context, x: Any, *, axis: Any = None) -> Value:
    found = g.cast(value(g, x), "bool")
    return reductions.reduced(g, "sum", g.cast(found, "int32"), axes_of(g, axis, found.rank))


@converts("Logsumexp", domain=OPS)
def logsumexp(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
    found = real(g, x)
    return reductions.logsumexp(g, found, axes_of(g, axis, found.rank), keepdims)


@converts("Ptp", domain=OPS)
def ptp(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
    found = value(g, x)
    over = axes_of(g, axis, found.rank)
    high, low = (reductions.reduced(g, op, found, over, keepdims) for op in ("max", "min"))
    return g.call("subtract", high, low)


@converts("Average", domain=OPS)
def average(g: Context, x: Any, weights: Any = None, *, axis: Any = None) -> Value:
    found = real(g, x)
    if weights is None:
        return reductions.reduced(g, "mean", found, axes_of(g, axis, found.rank))
    scale = real(g, weights)
    if scale.rank < found.rank and axis is not None:
        scale = of_axes.along(g, scale, g.axis(axis, found.rank), found.rank)
    over = axes_of(g, axis, found.rank)
    scale = g.broadcast(g.cast(scale, found.dtype), found.shape)
    total = reductions.reduced(g, "sum", g.call("multiply", found, scale), over)
    return g.call("divide", total, reductions.reduced(g, "sum", scale, over))


@converts("Argmax", "Argmin", domain=OPS)
def arg_extreme(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
    found = value(g, x)
    flat = of_axes.ravel(g, found) if axis is None else found
    over = g.axis(-1 if axis is None else axis, flat.rank)
    result = g.cast(g.call(g.layer.class_name.lower(), flat, axis=over, keepdims=keepdims), "int32")
    return g.reshape(result, (1,) * found.rank) if axis is None and keepdims else result


@converts("Argsort", domain=OPS)
def argsort(g: Context, x: Any, *, axis: Any = None) -> Value:
    found = value(g, x)
    data = of_axes.ravel(g, found) if axis is None else found
    return g.call("argsort", data, axis=g.axis(-1 if axis is None else axis, data.rank), dtype="int32")


@converts("Sort", domain=OPS)
def sort(g: Context, x: Any, *, axis: int = -1) -> Value:
    found = value(g, x)
    return g.call("sort", found, axis=g.axis(axis, found.rank))


@converts("TopK", domain=OPS)
def top_k(g: Context, x: Any, *, k: int, sorted: bool = True) -> list[Value]:  # noqa: A002
    found = value(g, x)
    values, places = g.multi("topk", found, k=k, axis=found.rank - 1, dtype="int32")
    return [values, places]


@converts("InTopK", domain=OPS)
def in_top_k(g: Context, targets: Any, predictions: Any, *, k: int) -> Value:
    scores, wanted = real(g, predictions), value(g, targets)
    own = g.call("gather", scores, g.call("expand_dims", g.cast(wanted, "int64"), axis=1), axis=1)
    better = g.call("sum", g.cast(g.call("greater", scores, own), "int32"), axis=(1,))
    return g.call("less", better, g.constant(k, "int32"))


def _running(op: str, skips_nan: bool = False) -> Any:
    def convert(g: Context, x: Any, *, axis: Any = None, dtype: Any = None) -> Value:
        found = value(g, x)
        found = of_axes.ravel(g, found) if axis is None else found
        found = g.cast(found, dtypes.canonical(dtype) if dtype is not None else "int32" if found.dtype == "bool" else found.dtype)
        if skips_nan and dtypes.is_float(found.dtype):
            found = without_nan(g, found, 0.0 if op == "cumsum" else 1.0)
        return g.call(op, found, axis=g.axis(0 if axis is None else axis, found.rank))

    return convert


for _name, _op in (("Cumsum", "cumsum"), ("Cumprod", "cumprod")):
    converts(_name, domain=OPS)(_running(_op))
    converts(f"Nan{_name.lower()}", domain=OPS)(_running(_op, True))


def _segments(reduction: str) -> Any:
    def convert(g: Context, data: Any, segment_ids: Any, *, num_segments: Any = None, sorted: bool = False) -> Value:  # noqa: A002
        if num_segments is None:
            raise g.unsupported("num_segments: got None; expected a number: the sizes of the result are known at run time only")
        found, ids = value(g, data), g.cast(value(g, segment_ids), "int64")
        start = {"add": 0.0, "mul": 1.0}.get(reduction)
        if start is None:
            low, high = (-float("inf"), float("inf")) if dtypes.is_float(found.dtype) else dtypes.integer_range(found.dtype)
            start = low if reduction == "max" else high
        base = g.full((num_segments, *found.shape[1:]), start, found.dtype)
        inside = g.call("expand_dims", ids, axis=0)
        return g.call("scatter_nd", base, inside, found, mode=reduction, out_of_range="drop")

    return convert


for _name, _op in (("SegmentSum", "add"), ("SegmentMax", "max"), ("SegmentMin", "min"), ("SegmentProd", "mul")):
    converts(_name, domain=OPS)(_segments(_op))


def quantiles(g: Context, x: Value, q: Value, axis: Any, method: str, keepdims: bool) -> Value:
    """Numbers below which shares ``q`` of the elements lie."""
    over = axes_of(g, axis, x.rank)
    rest = [k for k in range(x.rank) if k not in over]
    data = of_axes.transposed(g, x, (*rest, *over))
    data = g.reshape(data, (*data.shape[: len(rest)], -1)) if len(over) != 1 else data
    ordered = g.call("sort", data, axis=data.rank - 1)
    count = data.shape[-1]
    if not isinstance(count, int):
        raise g.unsupported(f"got {x.type}; expected known sizes")
    at = g.call("multiply", g.cast(q, "float64"), g.constant(count - 1, "float64"))
    low, high = g.call("floor", at), g.call("ceil", at)
    if method == "nearest":
        low = high = g.call("round", at)
    share = {"linear": g.call("subtract", at, low), "midpoint": g.constant(0.5, "float64")}.get(method)
    first, second = (g.call("take", ordered, g.cast(v, "int64"), axis=ordered.rank - 1) for v in (low, high))
    if share is not None:
        weight = g.cast(share, x.dtype)
        apart = g.call("subtract", second, first)
        found = g.call("add", first, g.call("multiply", apart, weight))
    elif method in ("lower", "higher", "nearest"):
        found = second if method == "higher" else first
    else:
        raise g.invalid(f"method: got {method!r}; expected linear, lower, higher, midpoint or nearest")
    if q.rank:
        found = g.moved(found, (found.rank - 1, *range(found.rank - 1)))
    if keepdims:
        for k in over:
            found = g.call("expand_dims", found, axis=k + q.rank)
    return found


@converts("Quantile", "Percentile", domain=OPS)
def quantile(g: Context, x: Any, q: Any, *, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Value:
    share = real(g, q)
    share = g.call("divide", share, g.scalar(100, share)) if g.layer.class_name == "Percentile" else share
    return quantiles(g, real(g, x), share, axis, method, keepdims)


@converts("Median", domain=OPS)
def median(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Value:
    return quantiles(g, real(g, x), g.constant(0.5, FLOAT), axis, "midpoint", keepdims)
