"""Permutation of axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge.ir.types import TensorType
from forge.ops.core.inference import fail, normalize_axes
from forge.ops.core.lowering import injective
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, DimArray, Lowered, OperandTypes, Tensor, TensorTypes, Types, Value


@dataclass(frozen=True)
class TransposeAttrs:
    axes: tuple[int, ...] | None = None


@register
class Transpose(Op[TransposeAttrs]):
    """out[i] = data[j] with j[axes[k]] = i[k]; None reverses the dimensions."""

    name = "transpose"
    data = Operand()
    kind = Kind.INJECTIVE
    is_permutation = True
    is_strided = True

    def permutation(self, attrs: TransposeAttrs, rank: int) -> tuple[int, ...]:
        """``axes``, counted from the front.

        Raises:
            TypeInferenceError: it is not a permutation of the dimensions.
        """
        if attrs.axes is None:
            return tuple(reversed(range(rank)))
        axes = normalize_axes(self.name, attrs.axes, rank)
        if len(axes) != rank:
            raise fail(self.name, "attribute axes", attrs.axes, f"a permutation of {rank} axes")
        return axes

    def infer(self, attrs: TransposeAttrs, data: Value) -> Types:
        return [TensorType(tuple(data.shape[a] for a in self.permutation(attrs, data.rank)), data.dtype)]

    def reference(self, attrs: TransposeAttrs, data: Array) -> Arrays:
        return [np.transpose(data, self.permutation(attrs, data.ndim))]

    def lower(self, attrs: TransposeAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axes = self.permutation(attrs, data.ndim)
        place = [axes.index(k) for k in range(data.ndim)]
        return [injective(self.name, results[0], lambda i: data[tuple(i[p] for p in place)])]

    def evaluate_dims(self, attrs: TransposeAttrs, types: OperandTypes, data: DimArray) -> DimArray:
        return None if data is None else np.transpose(data, self.permutation(attrs, data.ndim))
