"""Tensors of one number: full, zeros, ones, zeros_like, ones_like, full_like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ir.op import Kind, NoAttrs, Operand
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import Shape, fail, fresh_dims, present, same_dtype, static_length, tensor
from forge.ops.core.lowering import element, injective, new_symbols, optional_operand, scalar
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
from forge.te import Expr


@dataclass(frozen=True)
class InitAttrs:
    shape: tuple[Dim, ...] | None = None
    dtype: str | None = None


def wanted_shape(op: str, attrs: InitAttrs, operand: Value | None) -> Shape:
    """The shape out of the attribute, else the operand: known, or new symbols."""
    if attrs.shape is not None:
        return attrs.shape
    rank = static_length(op, operand, "shape")
    known = known_dims(operand)
    return fresh_dims("full", rank) if known is None else tuple(known.reshape(-1))


def _shape_symbols(attrs: InitAttrs, shape: Any, result: TensorType) -> Mapping[str, Expr]:
    if attrs.shape is not None or shape is None:
        return {}
    return new_symbols(result, [element(shape, k) for k in range(result.rank)])


def _concrete(attrs: InitAttrs, operand: Any) -> Any:
    return attrs.shape if attrs.shape is not None else tuple(operand.reshape(-1).tolist())


def _filled(value: Any, attrs: InitAttrs, operand: DimArray) -> DimArray:
    shape = attrs.shape if attrs.shape is not None else None if operand is None else tuple(operand.reshape(-1))
    if shape is None or not dims.is_static(*shape):
        return None
    return np.full([int(d) for d in shape if isinstance(d, int)], value, dtype=object)


def one_element(op: str, value: Value | None, name: str) -> TensorType:
    """The type of an operand that must have exactly one element."""
    type_ = tensor(op, value, name)
    if type_.size != 1:
        raise fail(op, f"operand {name!r}", type_, "one element")
    return type_


@register
class Full(Op[InitAttrs]):
    """A tensor of ``shape`` (attribute or operand) whose elements are all fill_value."""

    name = "full"
    fill_value, shape = Operand(), Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: InitAttrs, regions: Regions = ()) -> Types:
        value = one_element(self.name, operands[0], "fill_value")
        return [TensorType(wanted_shape(self.name, attrs, optional_operand(operands, 1)), attrs.dtype or value.dtype)]

    def reference(self, operands: Arrays, attrs: InitAttrs) -> Arrays:
        value = operands[0] if attrs.dtype is None else numeric.convert(operands[0], attrs.dtype)
        return [np.full(_concrete(attrs, optional_operand(operands, 1)), value.reshape(()), dtype=value.dtype)]

    def lower(self, operands: Tensors, attrs: InitAttrs, results: TensorTypes) -> Lowered:
        value = lower_cast(scalar(present(operands)[0]), results[0].dtype)
        return [injective(self.name, results[0], lambda i: value)]

    def define_symbols(self, operands: Tensors, attrs: InitAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        return _shape_symbols(attrs, optional_operand(operands, 1), results[0])

    def evaluate_dims(self, operands: DimArrays, attrs: InitAttrs, types: OperandTypes) -> DimArray:
        value = operands[0]
        return None if value is None else _filled(value.reshape(-1)[0], attrs, optional_operand(operands, 1))


class _Constant(Op[InitAttrs]):
    """zeros and ones."""

    shape = Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    value: int

    def infer(self, operands: Values, attrs: InitAttrs, regions: Regions = ()) -> Types:
        return [TensorType(wanted_shape(self.name, attrs, optional_operand(operands, 0)), attrs.dtype or "float32")]

    def reference(self, operands: Arrays, attrs: InitAttrs) -> Arrays:
        dtype = dtypes.numpy_dtype(attrs.dtype or "float32")
        return [np.full(_concrete(attrs, optional_operand(operands, 0)), self.value).astype(dtype)]

    def lower(self, operands: Tensors, attrs: InitAttrs, results: TensorTypes) -> Lowered:
        return [injective(self.name, results[0], lambda i: te.const(self.value, results[0].dtype))]

    def define_symbols(self, operands: Tensors, attrs: InitAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        return _shape_symbols(attrs, optional_operand(operands, 0), results[0])

    def evaluate_dims(self, operands: DimArrays, attrs: InitAttrs, types: OperandTypes) -> DimArray:
        return _filled(self.value, attrs, optional_operand(operands, 0))


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

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        return [tensor(self.name, operands[0], "data")]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        return [np.full_like(operands[0], self.value)]

    def lower(self, operands: Tensors, attrs: NoAttrs, results: TensorTypes) -> Lowered:
        return [injective(self.name, results[0], lambda i: te.const(self.value, results[0].dtype))]

    def evaluate_dims(self, operands: DimArrays, attrs: NoAttrs, types: OperandTypes) -> DimArray:
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
    data, fill_value = Operand(), Operand()
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        data, value = tensor(self.name, operands[0], "data"), one_element(self.name, operands[1], "fill_value")
        same_dtype(self.name, [data, value])
        return [data]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        return [np.full_like(operands[0], operands[1].reshape(()))]

    def lower(self, operands: Tensors, attrs: NoAttrs, results: TensorTypes) -> Lowered:
        value = scalar(present(operands)[1])
        return [injective(self.name, results[0], lambda i: value)]
