"""Operators that make tensors: full, zeros, ones, arange, one_hot, trilu."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops import numeric
from forge.ops.base import Accuracy, Kind, NoAttrs, Op, Operand, register
from forge.ops.elementwise import lower_cast
from forge.ops.infer_helpers import (
    Shape,
    expect_dtype,
    fail,
    fresh_dims,
    normalize_axis,
    object_array,
    same_dtype,
    static_length,
    tensor,
)
from forge.ops.lower_helpers import element, injective, new_symbols, scalar
from forge.ops.movement import present
from forge.ops.shape_ops import optional_operand
from forge.ops.signatures import (
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
    operands = (Operand("fill_value"), Operand("shape", optional=True, holds="integers"))
    Attrs = InitAttrs
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

    operands = (Operand("shape", optional=True, holds="integers"),)
    Attrs = InitAttrs
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

    operands = (Operand("data"),)
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
    operands = (Operand("data"), Operand("fill_value"))
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


@dataclass(frozen=True)
class ArangeAttrs:
    dtype: str | None = None


@register
class Arange(Op[ArangeAttrs]):
    """start + i * step for i in range(ceil((stop - start) / step)); the operands are scalars of one type."""

    name = "arange"
    operands = (Operand("start"), Operand("stop"), Operand("step"))
    Attrs = ArangeAttrs
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
    operands = (Operand("indices"), Operand("on_value"), Operand("off_value"), Operand("depth", optional=True))
    Attrs = OneHotAttrs
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


@dataclass(frozen=True)
class TriluAttrs:
    upper: bool = True


@register
class Trilu(Op[TriluAttrs]):
    """The upper (column - row >= k) or lower (column - row <= k) triangle of the last two dimensions, else 0; k is 0
    if absent.
    """

    name = "trilu"
    operands = (Operand("data"), Operand("k", optional=True))
    Attrs = TriluAttrs
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: TriluAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        if data.rank < 2:
            raise fail(self.name, "rank of data", data.rank, "at least 2")
        if (k := optional_operand(operands, 1)) is not None:
            expect_dtype(self.name, one_element(self.name, k, "k"), "k", "index")
        return [data]

    def reference(self, operands: Arrays, attrs: TriluAttrs) -> Arrays:
        data, k = [*operands, None][:2]
        offset = 0 if k is None else int(k.reshape(()))
        rows, columns = np.arange(data.shape[-2])[:, None], np.arange(data.shape[-1])
        kept = columns - rows >= offset if attrs.upper else columns - rows <= offset
        return [np.where(kept, data, np.zeros((), data.dtype))]

    def lower(self, operands: Tensors, attrs: TriluAttrs, results: TensorTypes) -> Lowered:
        data, k = operands[0], optional_operand(operands, 1)
        assert data is not None
        offset = te.const(0) if k is None else te.cast(scalar(k), "int64")

        def body(i: Sequence[Expr]) -> Expr:
            distance = i[-1] - i[-2]
            kept = distance >= offset if attrs.upper else distance <= offset
            return te.select(kept, data[tuple(i)], te.const(0, data.dtype))

        return [injective(self.name, results[0], body)]


__all__ = ["Arange", "Full", "FullLike", "InitAttrs", "OneHot", "OnesLike", "Trilu", "ZerosLike", "one_element"]
