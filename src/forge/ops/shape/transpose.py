"""Permutation of axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge.ir.op import Kind, Operand
from forge.ir.types import TensorType
from forge.ops.core.inference import fail, normalize_axes, present, tensor
from forge.ops.core.lowering import injective
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

    def infer(self, operands: Values, attrs: TransposeAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        return [TensorType(tuple(data.shape[a] for a in self.permutation(attrs, data.rank)), data.dtype)]

    def reference(self, operands: Arrays, attrs: TransposeAttrs) -> Arrays:
        return [np.transpose(operands[0], self.permutation(attrs, operands[0].ndim))]

    def lower(self, operands: Tensors, attrs: TransposeAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        axes = self.permutation(attrs, data.ndim)
        place = [axes.index(k) for k in range(data.ndim)]
        return [injective(self.name, results[0], lambda i: data[tuple(i[p] for p in place)])]

    def evaluate_dims(self, operands: DimArrays, attrs: TransposeAttrs, types: OperandTypes) -> DimArray:
        data = operands[0]
        return None if data is None else np.transpose(data, self.permutation(attrs, data.ndim))
