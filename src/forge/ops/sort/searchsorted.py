"""Binary search in sorted rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_rank, fail, same_dtype, unify_dim
from forge.ops.core.op import Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, TensorType, Types, Value


@dataclass(frozen=True)
class SearchSortedAttrs:
    right: bool = False
    dtype: str = "int64"


@register
class SearchSorted(Op[SearchSortedAttrs]):
    """Where each of values would be inserted into sorted, ascending along its last dimension: before equal elements, or, if
    ``right``, after them. NaN is larger than all.

    sorted has rank 1, or the dimensions of values but for the last.
    """

    name = "searchsorted"
    sorted, values = Operand(accepts="numeric"), Operand()
    kernel = "searchsorted"

    def infer(self, attrs: SearchSortedAttrs, ordered: Value, values: Value) -> Types:
        same_dtype(self.name, [ordered, values])
        if attrs.dtype not in ("int32", "int64"):
            raise fail(self.name, "attribute dtype", repr(attrs.dtype), "int32 or int64")
        if ordered.rank != 1:
            expect_rank(self.name, ordered.tensor_type, "sorted", max(values.rank, 1))
            for k, (a, b) in enumerate(zip(ordered.shape[:-1], values.shape[:-1], strict=True)):
                unify_dim(self.name, a, b, f"dimension {k} of sorted")
        return [TensorType(values.shape, attrs.dtype)]

    def reference(self, attrs: SearchSortedAttrs, ordered: Array, values: Array) -> Arrays:
        ordered, values = numeric.widen(ordered), numeric.widen(values)
        side: Literal["left", "right"] = "right" if attrs.right else "left"
        if ordered.ndim == 1:
            return [np.asarray(np.searchsorted(ordered, values, side)).astype(attrs.dtype)]
        out = np.zeros(values.shape, attrs.dtype)
        for batch in np.ndindex(values.shape[:-1]):
            out[batch] = np.searchsorted(ordered[batch], values[batch], side)
        return [out]
