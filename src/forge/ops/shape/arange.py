"""Evenly spaced numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.op import Range
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fresh_dims, object_array, same_dtype
from forge.ops.core.lowering import injective, new_symbols, scalar
from forge.ops.core.op import Accuracy, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, DimArray, Lowered, OperandTypes, Symbols, TensorTypes, Types, Value, Values
from forge.ops.elementwise.cast import lower_cast
from forge.te import Tensor


@dataclass(frozen=True)
class ArangeAttrs:
    dtype: str | None = None


@register
class Arange(Op[ArangeAttrs]):
    """start + i * step for i in range(ceil((stop - start) / step)); the operands are scalars of one type."""

    name = "arange"
    start, stop, step = Operand(accepts="numeric", single=True), Operand(single=True), Operand(single=True)
    kind = Kind.INJECTIVE
    accuracy = Accuracy.ROUNDING

    def infer(self, attrs: ArangeAttrs, start: Value, stop: Value, step: Value) -> Types:
        dtype = same_dtype(self.name, [start, stop, step])
        count = _known_count([start, stop, step], dtype)
        return [TensorType((fresh_dims("arange", 1)[0] if count is None else count,), attrs.dtype or dtype)]

    def element_range(
        self, attrs: ArangeAttrs, results: Types, ranges: Sequence[Range | None], start: Value, stop: Value, step: Value
    ) -> Sequence[Range | None]:
        """Of steps of 1; the end is not among the elements."""
        begin, end = (known_dims(v) for v in (start, stop))
        by = step.constant
        if begin is None or end is None or by is None or by.reshape(-1)[0] != 1:
            return [None]
        return [(begin.reshape(-1)[0], end.reshape(-1)[0] - 1)]

    def reference(self, attrs: ArangeAttrs, start: Array, stop: Array, step: Array) -> Arrays:
        first, last, by = (x.reshape(()).item() for x in (start, stop, step))
        values = first + np.arange(_count(first, last, by)) * by
        return [numeric.convert(np.asarray(values), attrs.dtype or dtypes.canonical(start.dtype))]

    def lower(self, attrs: ArangeAttrs, results: TensorTypes, start: Tensor, stop: Tensor, step: Tensor) -> Lowered:
        first, by = scalar(start), scalar(step)
        dtype = results[0].dtype
        return [injective(self.name, results[0], lambda i: lower_cast(first + te.cast(i[0], start.dtype) * by, dtype))]

    def define_symbols(self, attrs: ArangeAttrs, results: TensorTypes, *operands: Tensor) -> Symbols:
        scalars = [scalar(t) for t in operands]
        if dtypes.is_float(scalars[0].dtype):
            wide = [te.cast(x, "float64") for x in scalars]
            count = te.cast(te.call("ceil", (wide[1] - wide[0]) / wide[2]), "int64")
        else:
            begin, end, by = (te.cast(x, "int64") for x in scalars)
            empty = te.select(by > 0, begin >= end, begin <= end)  # else the distance might not fit
            count = te.select(empty, te.const(0), te.const(0) - te.binary("floordiv", begin - end, by))
        return new_symbols(results[0], [te.binary("max", count, te.const(0))])

    def evaluate_dims(self, attrs: ArangeAttrs, types: OperandTypes, *range_: DimArray) -> DimArray:
        values = [None if v is None else v.reshape(-1)[0] for v in range_]
        if any(not isinstance(v, int) for v in values):
            return None
        return object_array(list(range(*values)))  # type: ignore[arg-type]


def _count(start: float, stop: float, step: float) -> int:
    if step == 0:
        return 0
    return max(0, math.ceil((stop - start) / step))


def _known_count(operands: Values, dtype: str) -> Dim | None:
    """Number of elements, as far as the contents of the operands are known."""
    if dtypes.is_float(dtype):
        constants = [v.constant for v in operands]
        if any(c is None for c in constants):
            return None
        return _count(*(float(c.reshape(())) for c in constants if c is not None))
    contents = [known_dims(v) for v in operands]
    if any(c is None for c in contents):
        return None
    start, stop, step = (c.reshape(-1)[0] for c in contents if c is not None)
    if not isinstance(step, int) or step == 0:
        return None
    distance = stop - start if step > 0 else start - stop
    return dims.maximum(0, dims.ceildiv(distance, abs(step)))
