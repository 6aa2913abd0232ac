"""Cumulative sums, products, extremes with their positions, and log-sums of exponentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import te
from forge.ir.batch import Batch
from forge.ops.core import scalar_math as numeric
from forge.ops.core.batch_parts import carry_beside
from forge.ops.core.inference import expect_dtype, given_number, normalize_axis
from forge.ops.core.lowering import replaced
from forge.ops.core.op import Accuracy, AxisAttrs, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Lowered, Tensor, TensorType, TensorTypes, Types, Value, Values
from forge.te import Expr


@dataclass(frozen=True)
class ScanopAttrs:
    axis: int | None = None
    dtype: str | None = None
    exclusive: bool = False


class Cumulative(Op[ScanopAttrs]):
    """cumsum and cumprod."""

    data, axis = Operand(), Operand(optional=True, holds="integer")
    kind = Kind.ANCHOR
    kernel = "cumulative"
    read_once = ("data",)
    accuracy = Accuracy.ACCUMULATING
    category = Category.REDUCTION
    te_kind: str
    neutral: int

    def infer(self, attrs: ScanopAttrs, data: Value, axis: Value | None) -> Types:
        expect_dtype(self.name, data, "data", "number or bool" if attrs.dtype else "numeric or complex")
        if attrs.axis is not None:
            normalize_axis(self.name, attrs.axis, data.rank)
        elif axis is None:
            return [TensorType((data.size,), attrs.dtype or data.dtype)]
        return [TensorType(data.shape, attrs.dtype or data.dtype)]

    def reference(self, attrs: ScanopAttrs, data: Array, axis: Array | None) -> Arrays:
        data = data if attrs.dtype is None else numeric.convert(data, attrs.dtype)
        if attrs.axis is None and axis is None:
            data, along = data.reshape(-1), 0
        else:
            along = given_number(attrs.axis, axis)
        wide = numeric.widest(data)
        running = (np.cumsum if self.te_kind == "sum" else np.cumprod)(wide, axis=along, dtype=wide.dtype)
        if not attrs.exclusive:
            return [running]
        shifted = np.full_like(running, self.neutral)
        target, source = ([slice(None)] * data.ndim for _ in range(2))
        target[along], source[along] = slice(1, None), slice(None, -1)
        shifted[tuple(target)] = running[tuple(source)]
        return [shifted]

    def lower(self, attrs: ScanopAttrs, results: TensorTypes, data: Tensor, *_: object) -> Lowered:
        """One reduction an element, over all elements along the axis; those after it count as neutral."""
        if attrs.axis is None:
            raise NotImplementedError("an axis at run time is decomposed first")
        axis, dtype = attrs.axis % data.ndim, results[0].dtype
        other = te.reduce_axis(data.shape[axis], "r")

        def body(*i: Expr) -> Expr:
            value = te.cast(data[replaced(i, axis, other.var)], dtype)
            counts = other.var < i[axis] if attrs.exclusive else other.var <= i[axis]
            return te.reduce(self.te_kind, te.select(counts, value, te.const(self.neutral, dtype)), [other])

        return [te.compute(data.shape, body, self.name, dtype)]

    def decompose(self, builder: Builder, attrs: ScanopAttrs, data: Value, axis: Value | None) -> Values | None:
        options: dict[str, Any] = {"dtype": attrs.dtype, "exclusive": attrs.exclusive}
        if attrs.axis is None:
            if axis is not None:
                return [self._choose(builder, data, axis, options)]
            return [builder.call(self, builder.call("reshape", data, newshape=(-1,)), axis=0, **options)]
        if (attrs.dtype or data.dtype) not in ("float16", "bfloat16"):
            return None
        wide = builder.call("cast", data, dtype="float32")
        result = builder.call(self, wide, axis=attrs.axis, exclusive=attrs.exclusive)
        return [builder.call("cast", result, dtype=attrs.dtype or data.dtype)]

    def _choose(self, builder: Builder, data: Value, place: Value, options: dict[str, Any]) -> Value:
        """The result along every axis, and a choice among them."""
        scalar_place = builder.call("reshape", builder.call("cast", place, dtype="int64"), newshape=())
        rank = builder.constant(data.rank, "int64")
        wrapped = builder.call("floor_mod", scalar_place, rank)
        result = builder.call(self, data, axis=data.rank - 1, **options)
        for axis in range(data.rank - 1):
            chosen = builder.call("equal", wrapped, builder.constant(axis, "int64"))
            result = builder.call("where", chosen, builder.call(self, data, axis=axis, **options), result)
        return result


@register
class CumSum(Cumulative):
    """The sum of the elements up to each one along ``axis`` (attribute or operand; None: of all, as a vector);
    ``exclusive``: before it.
    """

    name = "cumsum"
    te_kind = "sum"
    neutral = 0


@register
class CumProd(Cumulative):
    """The product of the elements up to each one along ``axis`` (attribute or operand); ``exclusive``: before it."""

    name = "cumprod"
    te_kind = "prod"
    neutral = 1


class Running(Op[AxisAttrs]):
    """What is computed of the elements up to each one along ``axis``."""

    category = Category.REDUCTION

    def carry_batch(
        self, attrs: AxisAttrs, results: Types, batches: Sequence[Batch | None], *operands: Value | None
    ) -> Sequence[Batch | None]:
        return carry_beside(attrs.axis, results, batches)


class RunningExtreme(Running):
    """cummax and cummin."""

    data = Operand(accepts="numeric")
    kernel = "running_extreme"
    largest: bool

    def infer(self, attrs: AxisAttrs, data: Value) -> Types:
        normalize_axis(self.name, attrs.axis, data.rank)
        return [data.type, TensorType(data.shape, "int64")]

    def reference(self, attrs: AxisAttrs, data: Array) -> Arrays:
        rows = np.moveaxis(numeric.widen(data), attrs.axis, -1)
        places = np.zeros(rows.shape, np.int64)
        for row in np.ndindex(rows.shape[:-1]):
            best = 0
            for k, value in enumerate(rows[row]):
                old = rows[row][best]
                if np.isnan(value) or (value >= old if self.largest else value <= old):
                    best = k
                places[(*row, k)] = best
        places = np.moveaxis(places, -1, attrs.axis)
        return [np.take_along_axis(data, places, attrs.axis), places]


@register
class CumMax(RunningExtreme):
    """The largest of the elements up to each one along ``axis``, and its position: the last of equal ones. NaN wins."""

    name = "cummax"
    largest = True


@register
class CumMin(RunningExtreme):
    """The smallest of the elements up to each one along ``axis``, and its position: the last of equal ones. NaN wins."""

    name = "cummin"
    largest = False


@register
class LogCumSumExp(Running):
    """log of the sum of exp of the elements up to each one along ``axis``."""

    name = "logcumsumexp"
    data = Operand(accepts="float")
    kernel = "running_logsumexp"
    accuracy = Accuracy.ACCUMULATING
    flops_per_element = 20

    def infer(self, attrs: AxisAttrs, data: Value) -> Types:
        normalize_axis(self.name, attrs.axis, data.rank)
        return [data.type]

    def reference(self, attrs: AxisAttrs, data: Array) -> Arrays:
        return [np.logaddexp.accumulate(numeric.widest(data), axis=attrs.axis).astype(data.dtype)]

    def decompose(self, builder: Builder, attrs: AxisAttrs, data: Value) -> Values | None:
        if data.dtype in ("float32", "float64"):
            return None
        wide = builder.call("cast", data, dtype="float32")
        return [builder.call("cast", builder.call(self, wide, axis=attrs.axis), dtype=data.dtype)]
