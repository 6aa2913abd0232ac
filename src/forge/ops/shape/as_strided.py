"""Views with explicit strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import te
from forge.ops.core.inference import at_most, fail, required
from forge.ops.core.lowering import injective, unravel
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value


@dataclass(frozen=True)
class AsStridedAttrs:
    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    storage_offset: Dim = 0


@register
class AsStrided(Op[AsStridedAttrs]):
    """out[i..] = the element of data, in row-major order, number storage_offset + sum of i * stride."""

    name = "as_strided"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: AsStridedAttrs, data: Value) -> Types:
        if len(attrs.size) != len(attrs.stride):
            raise fail(self.name, "attribute stride", attrs.stride, f"{len(attrs.size)} numbers")
        steps = [*attrs.stride, attrs.storage_offset]
        if any(isinstance(s, int) and s < 0 for s in steps):
            raise fail(self.name, "strides and offset", steps, "no negative number")
        last = self._last(attrs)
        if not self._is_empty(attrs) and isinstance(last, int) and isinstance(data.size, int) and last >= data.size:
            raise fail(self.name, "last element", last, f"below {data.size}, the size of {data.type}")
        return [TensorType(attrs.size, data.dtype)]

    def _is_empty(self, attrs: AsStridedAttrs) -> bool:
        return any(isinstance(d, int) and d == 0 for d in attrs.size)

    def _last(self, attrs: AsStridedAttrs) -> Dim:
        last: Dim = attrs.storage_offset
        for d, s in zip(attrs.size, attrs.stride, strict=True):
            last = last + (d - 1) * s
        return last

    def reference(self, attrs: AsStridedAttrs, data: Array) -> Arrays:
        size, stride = (tuple(int(d) for d in v) for v in (attrs.size, attrs.stride))  # type: ignore[arg-type]
        place = np.full(size, attrs.storage_offset)
        for k, (d, s) in enumerate(zip(size, stride, strict=True)):
            place = place + (np.arange(d) * s).reshape([-1 if a == k else 1 for a in range(len(size))])
        return [data.reshape(-1)[place]]

    def lower(self, attrs: AsStridedAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        def body(i: Sequence[Expr]) -> Expr:
            place = te.dim(attrs.storage_offset)
            for x, stride in zip(i, attrs.stride, strict=True):
                place = place + x * te.dim(stride)
            return data[unravel(place, data.shape)] if data.ndim else data[()]

        return [injective(self.name, results[0], body)]

    def requires(self, attrs: AsStridedAttrs, results: TensorTypes, data: TensorType) -> Conditions:
        last = self._last(attrs)
        known = self._is_empty(attrs) or at_most(last + 1, data.size)
        why = f"the last element is number {last}; expected below {data.size}"
        return required(known, lambda: te.dim(last) < te.dim(data.size), why)
