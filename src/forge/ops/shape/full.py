"""Tensors of one number: full, zeros, ones, zeros_like, ones_like, full_like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import given_numbers, same_dtype, shape_of_contents
from forge.ops.core.lowering import element, injective, new_symbols, scalar
from forge.ops.core.op import Kind, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, DimArray, Lowered, OperandTypes, Symbols, Tensor, TensorTypes, Types, Value
from forge.ops.elementwise.cast import lower_cast


@dataclass(frozen=True)
class InitAttrs:
    shape: tuple[Dim, ...] | None = None
    dtype: str | None = None


def _shape_symbols(attrs: InitAttrs, shape: Any, result: TensorType) -> Symbols:
    if attrs.shape is not None or shape is None:
        return {}
    return new_symbols(result, [element(shape, k) for k in range(result.rank)])


def _filled(value: Any, attrs: InitAttrs, operand: DimArray) -> DimArray:
    shape = attrs.shape if attrs.shape is not None else None if operand is None else tuple(operand.reshape(-1))
    if shape is None or not dims.is_static(*shape):
        return None
    return np.full([int(d) for d in shape if isinstance(d, int)], value, dtype=object)


@register
class Full(Op[InitAttrs]):
    """A tensor of ``shape`` (attribute or operand) whose elements are all fill_value."""

    name = "full"
    fill_value, shape = Operand(single=True), Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE

    def infer(self, attrs: InitAttrs, fill_value: Value, shape: Value | None) -> Types:
        return [TensorType(shape_of_contents(self.name, "shape", attrs.shape, shape, "full"), attrs.dtype or fill_value.dtype)]

    def reference(self, attrs: InitAttrs, fill_value: Array, shape: Array | None) -> Arrays:
        value = fill_value if attrs.dtype is None else numeric.convert(fill_value, attrs.dtype)
        return [np.full(given_numbers(attrs.shape, shape), value.reshape(()), dtype=value.dtype)]

    def lower(self, attrs: InitAttrs, results: TensorTypes, fill_value: Tensor, shape: Tensor | None) -> Lowered:
        value = lower_cast(scalar(fill_value), results[0].dtype)
        return [injective(self.name, results[0], lambda i: value)]

    def define_symbols(self, attrs: InitAttrs, results: TensorTypes, fill_value: Tensor, shape: Tensor | None) -> Symbols:
        return _shape_symbols(attrs, shape, results[0])

    def evaluate_dims(self, attrs: InitAttrs, types: OperandTypes, fill_value: DimArray, shape: DimArray) -> DimArray:
        return None if fill_value is None else _filled(fill_value.reshape(-1)[0], attrs, shape)


class _Constant(Op[InitAttrs]):
    """zeros and ones."""

    shape = Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    value: int

    def infer(self, attrs: InitAttrs, shape: Value | None) -> Types:
        return [TensorType(shape_of_contents(self.name, "shape", attrs.shape, shape, "full"), attrs.dtype or "float32")]

    def reference(self, attrs: InitAttrs, shape: Array | None) -> Arrays:
        dtype = dtypes.numpy_dtype(attrs.dtype or "float32")
        return [np.full(given_numbers(attrs.shape, shape), self.value).astype(dtype)]

    def lower(self, attrs: InitAttrs, results: TensorTypes, *_: object) -> Lowered:
        return [injective(self.name, results[0], lambda i: te.const(self.value, results[0].dtype))]

    def define_symbols(self, attrs: InitAttrs, results: TensorTypes, shape: Tensor | None) -> Symbols:
        return _shape_symbols(attrs, shape, results[0])

    def evaluate_dims(self, attrs: InitAttrs, types: OperandTypes, shape: DimArray) -> DimArray:
        return _filled(self.value, attrs, shape)


@register
class Zeros(_Constant):
    """A tensor of zeros."""

    name = "zeros"
    value = 0


@register
class Ones(_Constant):
    """A tensor of ones."""

    name = "ones"
    value = 1


class _Like(Op[NoAttrs]):
    """zeros_like and ones_like."""

    data = Operand()
    kind = Kind.ELEMENTWISE
    value: int

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        return [np.full_like(data, self.value)]

    def lower(self, attrs: NoAttrs, results: TensorTypes, *_: object) -> Lowered:
        return [injective(self.name, results[0], lambda i: te.const(self.value, results[0].dtype))]

    def evaluate_dims(self, attrs: NoAttrs, types: OperandTypes, *_: object) -> DimArray:
        type_ = types[0]
        return _filled(self.value, InitAttrs(type_.shape), None) if isinstance(type_, TensorType) else None


@register
class ZerosLike(_Like):
    """Zeros of the type of data."""

    name = "zeros_like"
    value = 0


@register
class OnesLike(_Like):
    """Ones of the type of data."""

    name = "ones_like"
    value = 1


@register
class FullLike(Op[NoAttrs]):
    """A tensor of the type of data whose elements are all fill_value."""

    name = "full_like"
    data, fill_value = Operand(), Operand(single=True)
    kind = Kind.INJECTIVE

    def infer(self, attrs: NoAttrs, data: Value, fill_value: Value) -> Types:
        same_dtype(self.name, [data, fill_value])
        return [data.type]

    def reference(self, attrs: NoAttrs, data: Array, fill_value: Array) -> Arrays:
        return [np.full_like(data, fill_value.reshape(()))]

    def lower(self, attrs: NoAttrs, results: TensorTypes, data: Tensor, fill_value: Tensor) -> Lowered:
        value = scalar(fill_value)
        return [injective(self.name, results[0], lambda i: value)]
