"""One-hot vectors of indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import te
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import given_number, normalize_axis, number_of, same_dtype
from forge.ops.core.lowering import injective, new_symbols, scalar
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Symbols, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.elementwise.cast import lower_cast


@dataclass(frozen=True)
class OneHotAttrs:
    depth: Dim | None = None
    axis: int = -1
    dtype: str | None = None


@register
class OneHot(Op[OneHotAttrs]):
    """on_value where the index along the new dimension ``axis``, of extent ``depth``, is the element of indices, else
    off_value.

    An index in [-depth, -1] counts from the end; others out of range give off_value everywhere.
    """

    name = "one_hot"
    indices, on_value, off_value = Operand(accepts="integer"), Operand(single=True), Operand(single=True)
    depth = Operand(optional=True, single=True)
    kind = Kind.INJECTIVE

    def infer(self, attrs: OneHotAttrs, indices: Value, on_value: Value, off_value: Value, depth: Value | None) -> Types:
        dtype = attrs.dtype or same_dtype(self.name, [on_value, off_value])
        axis = normalize_axis(self.name, attrs.axis, indices.rank + 1)
        count = number_of(self.name, "depth", attrs.depth, depth)
        return [TensorType((*indices.shape[:axis], count, *indices.shape[axis:]), dtype)]

    def reference(self, attrs: OneHotAttrs, indices: Array, on_value: Array, off_value: Array, depth: Array | None) -> Arrays:
        indices, on, off = (numeric_like(x) for x in (indices, on_value, off_value))
        count = given_number(attrs.depth, depth)
        wrapped = np.where(indices < 0, indices + count, indices)
        hit = np.expand_dims(wrapped, attrs.axis) == _along(np.arange(count), attrs.axis, indices.ndim + 1)
        return [np.where(hit, on.reshape(()), off.reshape(()))]

    def lower(
        self, attrs: OneHotAttrs, results: TensorTypes, indices: Tensor, on_value: Tensor, off_value: Tensor, *_: object
    ) -> Lowered:
        axis = attrs.axis % results[0].rank
        depth = te.dim(results[0].shape[axis])
        on, off = (lower_cast(scalar(value), results[0].dtype) for value in (on_value, off_value))

        def body(i: Sequence[Expr]) -> Expr:
            index = te.cast(indices[(*i[:axis], *i[axis + 1 :])], "int64")
            hit = te.select(index < 0, index + depth, index).eq(i[axis])
            return te.select(hit, on, off)

        return [injective(self.name, results[0], body)]

    def define_symbols(
        self, attrs: OneHotAttrs, results: TensorTypes, indices: Tensor, on_value: Tensor, off_value: Tensor, depth: Tensor | None
    ) -> Symbols:
        if attrs.depth is not None or depth is None:
            return {}
        axis = attrs.axis % results[0].rank
        return new_symbols(TensorType((results[0].shape[axis],), "int64"), [te.cast(scalar(depth), "int64")])


def numeric_like(array: Any) -> Any:
    """Integers as int64, so that index arithmetic cannot wrap."""
    return array.astype(np.int64) if numeric.is_integer(array) else array


def _along(vector: Any, axis: int, rank: int) -> Any:
    shape = [1] * rank
    shape[axis] = len(vector)
    return vector.reshape(shape)
