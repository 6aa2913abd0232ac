"""Reductions over axes. The plain ones are rows of a table; argmax, argmin, logsumexp and variance follow.

``axis`` None means all dimensions, ``exclude`` turns the choice around. With ``axis`` None and operand ``axes``
given, the axes arrive at run time; their number is known. Sums of 16-bit floats accumulate in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import Shape, fresh_dims, normalize_axes, static_length
from forge.ops.core.layout_change import LayoutChange
from forge.ops.core.lowering import as_dim, identifier, new_symbols
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, DimArray, Lowered, OperandTypes, Symbols, TensorTypes, Types, Value, Values
from forge.ops.elementwise.rows import apply_dims
from forge.ops.shape.reshape import names_axis
from forge.te import Expr, Tensor

# Products of at most this many factors are computed in the type of the data.
SHORT_PRODUCT = 256


@dataclass(frozen=True)
class ReduceAttrs:
    axis: int | tuple[int, ...] | None = None
    keepdims: bool = False
    exclude: bool = False


def reduced_axes(op: str, attrs: Any, rank: int) -> tuple[int, ...]:
    """The axes that are reduced, ascending."""
    chosen = normalize_axes(op, attrs.axis, rank)
    if attrs.exclude and attrs.axis is not None:
        return tuple(k for k in range(rank) if k not in chosen)
    return tuple(sorted(chosen))


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if k in axes else d for k, d in enumerate(shape))
    return tuple(d for k, d in enumerate(shape) if k not in axes)


def reduce_compute(
    name: str, data: Tensor, axes: Sequence[int], keepdims: bool, kind: str, result: TensorType,
    element: Callable[[Expr], Expr] = lambda x: x,
) -> Tensor:
    """A compute with one ``Reduce`` of ``element`` of the operand's elements."""
    variables = {k: te.reduce_axis(data.shape[k], f"r{k}") for k in axes}

    def body(*i: Expr) -> Expr:
        kept = list(i) if keepdims else spread(i, axes, data.ndim)
        indices = tuple(variables[k].var if k in variables else kept[k] for k in range(data.ndim))
        return te.reduce(kind, element(data[indices]), list(variables.values()))

    return te.compute(result.shape, body, identifier(name), result.dtype)


def spread(indices: Sequence[Expr], axes: Sequence[int], rank: int) -> list[Expr]:
    """Indices of the kept dimensions at their places."""
    rest = iter(indices)
    return [te.const(0) if k in axes else next(rest) for k in range(rank)]


class Reduction(Op[ReduceAttrs]):
    """A reduction that is one te reduction; see the rows below."""

    data, axes = Operand(accepts="numeric"), Operand(optional=True, holds="integers")
    kind = Kind.REDUCTION
    read_once = ("data",)
    category = Category.REDUCTION
    te_kind: str

    def infer(self, attrs: ReduceAttrs, data: Value, axes: Value | None) -> Types:
        attrs = with_known_axes(attrs, axes)
        if attrs.axis is None and axes is not None:
            kept = data.rank if attrs.keepdims else data.rank - static_length(self.name, axes, "axes")
            return [TensorType(fresh_dims("reduce", kept), data.dtype)]
        chosen = reduced_axes(self.name, attrs, data.rank)
        return [TensorType(reduced_shape(data.shape, chosen, attrs.keepdims), data.dtype)]

    def in_layout(self, change: LayoutChange) -> Value | None:
        """Over axes that are not blocked. If they are dropped, the others must be in their usual order."""
        data, attrs = self.data, self.attrs
        if self.axes is not None:
            return None
        axes = reduced_axes(self.name, attrs, data.rank)
        usual, here = ([k for k in order if k not in axes] for order in (range(data.rank), change.order(data.rank)))
        if any(change.block(k) > 1 for k in axes) or not attrs.keepdims and usual != here:
            return None
        return change.on_first(self.node, axis=tuple(sorted(change.axis(k, data.rank) for k in axes)), exclude=False)

    def numpy(self, data: Array, axes: tuple[int, ...]) -> Array:
        """The reduction of an array with dimensions kept."""
        raise NotImplementedError

    def reference(self, attrs: ReduceAttrs, data: Array, axes: Array | None) -> Arrays:
        if attrs.axis is None and axes is not None:
            attrs = replace(attrs, axis=tuple(axes.reshape(-1).tolist()))
        chosen = reduced_axes(self.name, attrs, data.ndim)
        result = self.numpy(data, chosen)
        return [result.reshape(reduced_shape(data.shape, chosen, attrs.keepdims))]

    def element(self, x: Expr, count: Dim) -> Expr:
        """What is reduced, for ``count`` elements a result."""
        return x

    def lower(self, attrs: ReduceAttrs, results: TensorTypes, data: Tensor, axes: Tensor | None) -> Lowered:
        if attrs.axis is None and axes is not None:
            return [self._lower_run_time(data, results[0])]
        chosen = reduced_axes(self.name, attrs, data.ndim)
        count = dims.product(as_dim(data.shape[k]) for k in chosen)
        return [
            reduce_compute(
                self.name, data, chosen, attrs.keepdims, self.te_kind, results[0], lambda x: self.element(x, count)
            )
        ]

    def _lower_run_time(self, data: Tensor, result: TensorType) -> Tensor:
        """Dimensions kept. Along every axis either the result or the reduction runs over the whole extent, the other over 1."""
        axes = [te.reduce_axis(e // te.dim(d), f"r{k}") for k, (e, d) in enumerate(zip(data.shape, result.shape, strict=True))]
        count = dims.product(dims.floordiv(as_dim(e), d) for e, d in zip(data.shape, result.shape, strict=True))

        def body(*i: Expr) -> Expr:
            value = data[tuple(x + a.var for x, a in zip(i, axes, strict=True))]
            return te.reduce(self.te_kind, self.element(value, count), axes)

        return te.compute(result.shape, body, identifier(self.name), result.dtype)

    def define_symbols(self, attrs: ReduceAttrs, results: TensorTypes, data: Tensor, axes: Tensor | None) -> Symbols:
        if attrs.axis is not None or axes is None or data is None or not attrs.keepdims:
            return {}
        flags = [names_axis(axes, k, data.ndim) for k in range(data.ndim)]
        return new_symbols(results[0], [te.select(f, te.const(1), e) for f, e in zip(flags, data.shape, strict=True)])

    def decompose(self, builder: Builder, attrs: ReduceAttrs, data: Value, axes: Value | None) -> Values | None:
        if attrs.axis is None and axes is not None and not attrs.keepdims:
            kept = builder.call(self, data, axes, axis=None, keepdims=True, exclude=False)
            return [builder.call("squeeze", kept, axes)]
        wider = self._accumulated(attrs, data)
        if wider != data.dtype:
            wide = builder.call("cast", data, dtype=wider)
            result = builder.call(self, wide, axes, **vars(attrs))
            return [builder.call("cast", result, dtype=data.dtype)]
        return None

    def _accumulated(self, attrs: ReduceAttrs, data: Value) -> str:
        """What is accumulated in. Every factor of a product rounds, in whatever order: long ones take wider numbers."""
        if self.accuracy is Accuracy.ACCUMULATING and data.dtype in ("float16", "bfloat16"):
            return "float32"
        if self.te_kind != "prod" or data.dtype not in dtypes.WIDER:
            return data.dtype
        axes = range(data.rank) if attrs.axis is None else reduced_axes(self.name, attrs, data.rank)
        factors = dims.product(data.shape[k] for k in axes)
        return data.dtype if isinstance(factors, int) and factors <= SHORT_PRODUCT else dtypes.WIDER[data.dtype]

    def evaluate_dims(self, attrs: ReduceAttrs, types: OperandTypes, data: DimArray, axes: DimArray) -> DimArray:
        fold = _DIM_FOLDS.get(self.name)
        if data is None or fold is None or len(types) > 1:
            return None
        chosen = reduced_axes(self.name, attrs, data.ndim)
        rest = [data.shape[k] for k in range(data.ndim) if k not in chosen]
        rows = np.moveaxis(data, chosen, range(len(chosen))).reshape(-1, *rest)
        if len(rows) == 0:
            return None
        result: DimArray = rows[0]
        for row in rows[1:]:
            result = None if result is None else apply_dims(fold, np.asarray(result, object), np.asarray(row, object))
        shape = reduced_shape(data.shape, chosen, attrs.keepdims)
        return None if result is None else np.asarray(result, dtype=object).reshape(shape)

    def flops(self, attrs: ReduceAttrs, results: TensorTypes, data: Value, axes: Value | None) -> Dim:
        return data.size


_DIM_FOLDS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "max": dims.maximum,
    "min": dims.minimum,
}


def with_known_axes(attrs: ReduceAttrs, axes: Value | None) -> ReduceAttrs:
    """``attrs`` with the contents of the operand ``axes`` where they are known."""
    known = known_dims(axes) if attrs.axis is None else None
    return attrs if known is None else replace(attrs, axis=tuple(int(a) for a in known.reshape(-1)))


def _wide(reduction: Callable[..., Any]) -> Callable[[Array, tuple[int, ...]], Array]:
    """A NumPy sum or product that accumulates floats in float64 and wraps integers."""

    def run(data: Array, axes: tuple[int, ...]) -> Array:
        wide = numeric.widest(data)
        return np.asarray(reduction(wide, axis=axes, dtype=wide.dtype, keepdims=True))

    return run


def _mean(data: Array, axes: tuple[int, ...]) -> Array:
    total = _wide(np.sum)(data, axes)
    count = data.size // max(1, total.size)
    if numeric.is_integer(data):
        return numeric.trunc_divide(total, np.asarray(count).astype(data.dtype))
    return np.asarray(total / count)


def _extreme(reduction: Callable[..., Any], largest: bool) -> Callable[[Array, tuple[int, ...]], Array]:
    def run(data: Array, axes: tuple[int, ...]) -> Array:
        dtype = dtypes.canonical(data.dtype)
        if dtypes.is_float(dtype):
            initial: float = float("-inf") if largest else float("inf")
            return np.asarray(reduction(numeric.widen(data), axis=axes, keepdims=True, initial=initial))
        low, high = dtypes.integer_range(dtype)
        return np.asarray(reduction(data, axis=axes, keepdims=True, initial=low if largest else high))

    return run


def _logic(reduction: Callable[..., Any]) -> Callable[[Array, tuple[int, ...]], Array]:
    return lambda data, axes: np.asarray(reduction(data, axis=axes, keepdims=True))


@dataclass(frozen=True)
class ReductionRow:
    name: str
    doc: str
    te_kind: str
    numpy: Callable[[Array, tuple[int, ...]], Array]
    accuracy: Accuracy = Accuracy.ACCUMULATING
    accepts: str = "numeric"


ROWS = (
    ReductionRow("sum", "The sum; 0 of nothing. Integers wrap.", "sum", _wide(np.sum), accepts="numeric or complex"),
    ReductionRow("prod", "The product; 1 of nothing. Integers wrap.", "prod", _wide(np.prod), accepts="numeric or complex"),
    ReductionRow("max", "The largest element; the smallest value of the type for nothing. NaN wins.", "max",
        _extreme(np.max, True), Accuracy.EXACT),
    ReductionRow("min", "The smallest element; the largest value of the type for nothing. NaN wins.", "min",
        _extreme(np.min, False), Accuracy.EXACT),
    ReductionRow("all", "Whether all elements hold.", "and", _logic(np.all), Accuracy.EXACT, "bool"),
    ReductionRow("any", "Whether an element holds.", "or", _logic(np.any), Accuracy.EXACT, "bool"),
)


def _register_rows() -> None:
    for row in ROWS:
        members = {
            "__doc__": row.doc, "__module__": __name__, "name": row.name, "te_kind": row.te_kind, "accuracy": row.accuracy,
            "data": Operand("data", accepts=row.accepts), "numpy": staticmethod(row.numpy),
        }
        register(type(f"Reduce_{row.name}", (Reduction,), members))


_register_rows()


@register
class Mean(Reduction):
    """The sum over the number of elements; integers truncate. NaN of nothing."""

    name = "mean"
    te_kind = "sum"
    accuracy = Accuracy.ACCUMULATING
    is_average = True
    data = Operand(accepts="numeric or complex")

    def numpy(self, data: Array, axes: tuple[int, ...]) -> Array:
        return _mean(data, axes)

    def element(self, x: Expr, count: Dim) -> Expr:
        if isinstance(count, int):
            return x * te.const(1.0 / count, x.dtype) if count else x
        return x * (te.const(1.0, x.dtype) / te.cast(te.dim(count), x.dtype))

    def decompose(self, builder: Builder, attrs: ReduceAttrs, data: Value, axes: Value | None) -> Values | None:
        if not dtypes.is_integer(data.dtype):
            return super().decompose(builder, attrs, data, axes) or self._of_perhaps_nothing(builder, attrs, data, axes)
        total = builder.call("sum", data, axes, **vars(attrs))
        return [builder.call("trunc_divide", total, summands(builder, data, total))]

    def _of_perhaps_nothing(self, builder: Builder, attrs: ReduceAttrs, data: Value, axes: Value | None) -> Values | None:
        """sum / count where the count may be 0 at run time: elements that are not there cannot be scaled to NaN."""
        if attrs.axis is not None or axes is None:
            count = dims.product(data.shape[k] for k in reduced_axes(self.name, attrs, data.rank))
            if not isinstance(count, int) or count > 0:
                return None
        total = builder.call("sum", data, axes, **vars(attrs))
        return [builder.call("divide", total, summands(builder, data, total))]

    def lower(self, attrs: ReduceAttrs, results: TensorTypes, data: Tensor, axes: Tensor | None) -> Lowered:
        chosen = () if attrs.axis is None and axes is not None else reduced_axes(self.name, attrs, data.ndim)
        count = dims.product(as_dim(data.shape[k]) for k in chosen)
        if isinstance(count, int):
            return super().lower(attrs, results, data, axes)
        total = reduce_compute(self.name, data, chosen, attrs.keepdims, self.te_kind, results[0], lambda x: x)
        return [te.compute(total.shape, lambda *i: total[i] / te.cast(te.dim(count), total.dtype), self.name, total.dtype)]


def summands(builder: Builder, data: Value, total: Value) -> Value:
    """How many elements each element of ``total`` is the sum of, as a scalar of its type."""
    one = builder.constant(1, "int64")
    size, sums = (builder.call("ndarray_size", v) for v in (data, total))
    return builder.call("cast", builder.call("floor_divide", size, builder.call("maximum", sums, one)), dtype=total.dtype)


@register
class CountNonzero(Reduction):
    """The number of elements that are not 0, as int64; NaN is not 0."""

    name = "count_nonzero"
    kind = Kind.ANCHOR
    data = Operand(accepts="number or bool")

    def infer(self, attrs: ReduceAttrs, data: Value, axes: Value | None) -> Types:
        (counted,) = super().infer(attrs, data, axes)
        assert isinstance(counted, TensorType)
        return [TensorType(counted.shape, "int64")]

    def numpy(self, data: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(np.count_nonzero(data != np.zeros((), data.dtype), axis=axes, keepdims=True))

    def decompose(self, builder: Builder, attrs: ReduceAttrs, data: Value, axes: Value | None) -> Values:
        flags = builder.call("cast", data, dtype="bool")
        return [builder.call("sum", builder.call("cast", flags, dtype="int64"), axes, **vars(attrs))]


@register
class LogSumExp(Reduction):
    """log(sum(exp(data))), computed relative to the largest element."""

    name = "logsumexp"
    kind = Kind.ANCHOR
    data = Operand(accepts="float")
    accuracy = Accuracy.ACCUMULATING

    def numpy(self, data: Array, axes: tuple[int, ...]) -> Array:
        wide = numeric.widest(data)
        top = np.max(wide, axis=axes, keepdims=True, initial=float("-inf"))
        top = np.where(np.isfinite(top), top, 0)
        return np.asarray(np.log(np.sum(np.exp(wide - top), axis=axes, keepdims=True)) + top)

    def decompose(self, builder: Builder, attrs: ReduceAttrs, data: Value, axes: Value | None) -> Values | None:
        kept = {**vars(attrs), "keepdims": True}
        unknown = axes is not None and with_known_axes(attrs, axes).axis is None

        def spread_out(value: Value, like: Value) -> Value:
            """``value`` in the shape of ``like`` where that fits only at run time."""
            return builder.call("broadcast_to", value, shape=like.shape) if unknown else value

        top = builder.call("max", data, axes, **kept)
        top = builder.call("where", builder.call("isfinite", top), top, builder.constant(0.0, data.dtype))
        powers = builder.call("exp", builder.call("subtract", data, spread_out(top, data)))
        total = builder.call("log", builder.call("sum", powers, axes, **kept))
        return [drop_reduced(builder, attrs, builder.call("add", spread_out(total, top), top), data, axes)]


def drop_reduced(builder: Builder, attrs: Any, kept: Value, data: Value, axes: Value | None) -> Value:
    """``kept``, a result with dimensions kept, without them where ``attrs`` says so."""
    if attrs.keepdims:
        return kept
    if attrs.axis is None and axes is not None:
        return builder.call("squeeze", kept, axes)
    return builder.call("squeeze", kept, axis=reduced_axes("squeeze", attrs, data.rank))


@dataclass(frozen=True)
class VarianceAttrs:
    axis: int | tuple[int, ...] | None = None
    keepdims: bool = False
    exclude: bool = False
    unbiased: bool = False


@register
class Variance(Op[VarianceAttrs]):
    """mean((data - mean(data)) ** 2); ``unbiased`` divides by one less."""

    name = "variance"
    data = Operand(accepts="float")
    kind = Kind.ANCHOR
    accuracy = Accuracy.ACCUMULATING
    category = Category.REDUCTION

    def infer(self, attrs: VarianceAttrs, data: Value) -> Types:
        axes = reduced_axes(self.name, attrs, data.rank)
        return [TensorType(reduced_shape(data.shape, axes, attrs.keepdims), data.dtype)]

    def reference(self, attrs: VarianceAttrs, data: Array) -> Arrays:
        axes = reduced_axes(self.name, attrs, data.ndim)
        wide = numeric.widest(data)
        return [np.var(wide, axis=axes, keepdims=attrs.keepdims, ddof=int(attrs.unbiased))]

    def decompose(self, builder: Builder, attrs: VarianceAttrs, data: Value) -> Values:
        axes = reduced_axes(self.name, attrs, data.rank)
        wide = data if dtypes.bits(data.dtype) >= 32 else builder.call("cast", data, dtype="float32")
        centred = builder.call("subtract", wide, builder.call("mean", wide, axis=axes, keepdims=True))
        square = builder.call("multiply", centred, centred)
        if not attrs.unbiased:
            result = builder.call("mean", square, axis=axes, keepdims=attrs.keepdims)
        else:
            total = builder.call("sum", square, axis=axes, keepdims=attrs.keepdims)
            count = dims.product(data.shape[k] for k in axes)
            result = builder.call("divide", total, _one_less(builder, data, total, count, wide.dtype))
        return [builder.call("cast", result, dtype=data.dtype)] if wide is not data else [result]


def _one_less(builder: Builder, data: Value, total: Value, count: Dim, dtype: str) -> Value:
    """``count`` - 1, at least 0, as a scalar; for a symbolic count out of the sizes of the two tensors."""
    if isinstance(count, int):
        return builder.constant(max(count - 1, 0), dtype)
    less = builder.call("subtract", summands(builder, data, total), builder.constant(1, dtype))
    return builder.call("maximum", less, builder.constant(0, dtype))
