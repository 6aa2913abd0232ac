"""One-hot vectors of indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import te
from forge.dims import Dim
from forge.ir.op import Kind, Operand
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, fresh_dims, normalize_axis, present, same_dtype, tensor
from forge.ops.core.lowering import injective, new_symbols, optional_operand, scalar
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Arrays, Lowered, Regions, Tensors, TensorTypes, Types, Values
from forge.ops.elementwise.cast import lower_cast
from forge.ops.shape.full import one_element
from forge.te import Expr


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
    indices, on_value, off_value, depth = Operand(), Operand(), Operand(), Operand(optional=True)
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: OneHotAttrs, regions: Regions = ()) -> Types:
        indices = tensor(self.name, operands[0], "indices")
        expect_dtype(self.name, indices, "indices", "integer")
        values = [one_element(self.name, operands[1], "on_value"), one_element(self.name, operands[2], "off_value")]
        dtype = attrs.dtype or same_dtype(self.name, values)
        axis = normalize_axis(self.name, attrs.axis, indices.rank + 1)
        depth = self._depth(operands, attrs)
        return [TensorType((*indices.shape[:axis], depth, *indices.shape[axis:]), dtype)]

    def _depth(self, operands: Values, attrs: OneHotAttrs) -> Dim:
        if attrs.depth is not None:
            return attrs.depth
        operand = optional_operand(operands, 3)
        one_element(self.name, operand, "depth")
        known = known_dims(operand)
        depth: Dim = fresh_dims("depth", 1)[0] if known is None else known.reshape(-1)[0]
        return depth

    def reference(self, operands: Arrays, attrs: OneHotAttrs) -> Arrays:
        indices, on, off = (numeric_like(x) for x in operands[:3])
        depth = attrs.depth if attrs.depth is not None else int(operands[3].reshape(()))
        wrapped = np.where(indices < 0, indices + depth, indices)
        hit = np.expand_dims(wrapped, attrs.axis) == _along(np.arange(depth), attrs.axis, indices.ndim + 1)  # type: ignore[arg-type]
        return [np.where(hit, on.reshape(()), off.reshape(()))]

    def lower(self, operands: Tensors, attrs: OneHotAttrs, results: TensorTypes) -> Lowered:
        indices, on, off = present(operands)[:3]
        axis = attrs.axis % results[0].rank
        depth = te.dim(results[0].shape[axis])
        dtype = results[0].dtype

        def body(i: Sequence[Expr]) -> Expr:
            index = te.cast(indices[(*i[:axis], *i[axis + 1 :])], "int64")
            hit = te.select(index < 0, index + depth, index).eq(i[axis])
            return te.select(hit, lower_cast(scalar(on), dtype), lower_cast(scalar(off), dtype))

        return [injective(self.name, results[0], body)]

    def define_symbols(self, operands: Tensors, attrs: OneHotAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        depth = optional_operand(operands, 3)
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
