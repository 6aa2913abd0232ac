"""Evenly spaced numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.op import Accuracy, Kind, Operand
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, fresh_dims, object_array, present, same_dtype
from forge.ops.core.lowering import injective, new_symbols, scalar
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import (
    Arrays,
    DimArray,
    DimArrays,
    Lowered,
    OperandTypes,
    Regions,
    Tensors,
    TensorTypes,
    Types,
    Values,
)
from forge.ops.elementwise.cast import lower_cast
from forge.ops.shape.full import one_element
from forge.te import Expr


@dataclass(frozen=True)
class ArangeAttrs:
    dtype: str | None = None


@register
class Arange(Op[ArangeAttrs]):
    """start + i * step for i in range(ceil((stop - start) / step)); the operands are scalars of one type."""

    name = "arange"
    start, stop, step = Operand(), Operand(), Operand()
    kind = Kind.INJECTIVE
    accuracy = Accuracy.ROUNDING

    def infer(self, operands: Values, attrs: ArangeAttrs, regions: Regions = ()) -> Types:
        types = [one_element(self.name, v, o.name) for v, o in zip(operands, self.operands, strict=True)]
        expect_dtype(self.name, types[0], "start", "numeric")
        dtype = same_dtype(self.name, types)
        count = _known_count(operands, dtype)
        return [TensorType((fresh_dims("arange", 1)[0] if count is None else count,), attrs.dtype or dtype)]

    def reference(self, operands: Arrays, attrs: ArangeAttrs) -> Arrays:
        start, stop, step = (x.reshape(()).item() for x in operands)
        index = np.arange(_count(start, stop, step))
        values = start + index * step
        dtype = attrs.dtype or dtypes.canonical(operands[0].dtype)
        return [numeric.convert(np.asarray(values), dtype)]

    def lower(self, operands: Tensors, attrs: ArangeAttrs, results: TensorTypes) -> Lowered:
        start, _, step = (scalar(t) for t in present(operands))
        dtype = start.dtype
        return [
            injective(
                self.name, results[0], lambda i: lower_cast(start + te.cast(i[0], dtype) * step, results[0].dtype)
            )
        ]

    def define_symbols(self, operands: Tensors, attrs: ArangeAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        start, stop, step = (scalar(t) for t in present(operands))
        if dtypes.is_float(start.dtype):
            wide = [te.cast(x, "float64") for x in (start, stop, step)]
            count = te.cast(te.call("ceil", (wide[1] - wide[0]) / wide[2]), "int64")
        else:
            begin, end, by = (te.cast(x, "int64") for x in (start, stop, step))
            empty = te.select(by > 0, begin >= end, begin <= end)  # else the distance might not fit
            count = te.select(empty, te.const(0), te.const(0) - te.binary("floordiv", begin - end, by))
        return new_symbols(results[0], [te.binary("max", count, te.const(0))])

    def evaluate_dims(self, operands: DimArrays, attrs: ArangeAttrs, types: OperandTypes) -> DimArray:
        values = [None if v is None else v.reshape(-1)[0] for v in operands]
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
        constants = [v.constant for v in operands if v is not None]
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
