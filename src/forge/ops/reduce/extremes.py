"""The smallest and the largest element in one pass over memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, Lowered, TensorTypes, Types, Value
from forge.ops.reduce.reduction import reduce_compute, reduced_shape
from forge.te import Tensor


@dataclass(frozen=True)
class ExtremesAttrs:
    keepdims: bool = False


@register
class Extremes(Op[ExtremesAttrs]):
    """min(data) and max(data) over all axes; NaN wins."""

    name = "extremes"
    data = Operand(accepts="float")
    kind = Kind.ANCHOR
    read_once = ("data",)
    accuracy = Accuracy.EXACT
    category = Category.REDUCTION

    def infer(self, attrs: ExtremesAttrs, data: Value) -> Types:
        shape = reduced_shape(data.shape, range(data.rank), attrs.keepdims)
        return [TensorType(shape, data.dtype)] * 2

    def reference(self, attrs: ExtremesAttrs, data: Array) -> Arrays:
        wide = numeric.widen(data)
        low, high = np.min(wide, initial=np.inf), np.max(wide, initial=-np.inf)
        shape = reduced_shape(data.shape, range(data.ndim), attrs.keepdims)
        return [np.asarray(extreme).reshape(shape) for extreme in (low, high)]

    def lower(self, attrs: ExtremesAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axes = range(data.ndim)
        return [reduce_compute(kind, data, axes, attrs.keepdims, kind, result)
                for kind, result in zip(("min", "max"), results, strict=True)]

    def flops(self, attrs: ExtremesAttrs, results: TensorTypes, data: Value) -> Dim:
        return data.size * 2
