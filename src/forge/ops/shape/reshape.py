"""Operators that read or change a shape and keep the order of elements: reshape, squeeze, expand_dims, shape_of, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.op import A
from forge.ir.shapes import known_dims
from forge.ir.types import MAX_RANK, TensorType
from forge.ops.core.batch_parts import carry_reshaped
from forge.ops.core.inference import (
    Shape,
    fail,
    format_shape,
    fresh_dims,
    given_numbers,
    normalize_axes,
    normalize_axis,
    object_array,
    static_length,
)
from forge.ops.core.lowering import chain_select, element, injective, length, new_symbols, shape_of
from forge.ops.core.op import Kind, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, DimArray, Lowered, OperandTypes, Symbols, Tensor, TensorTypes, Types, Value
from forge.ops.shape.regroup import source_indices
from forge.te import Expr


class _Reshaped(Op[A]):
    """The first operand in row-major order under another shape."""

    kind = Kind.INJECTIVE
    carry_batch = carry_reshaped

    def lower(self, attrs: A, results: TensorTypes, data: Tensor, *_: object) -> Lowered:
        shape = shape_of(data)
        return [injective(self.name, results[0], lambda i: data[source_indices(shape, results[0].shape, i)])]


def check_same_size(op: str, data: Value, shape: Shape) -> None:
    """Raises TypeInferenceError where the number of elements provably differs."""
    if dims.different(data.size, dims.product(shape)):
        raise fail(op, "number of elements", f"{data.type} to {format_shape(shape)}", f"{data.size} elements")


@dataclass(frozen=True)
class ReshapeAttrs:
    newshape: tuple[Dim, ...] | None = None
    allowzero: bool = False


@register
class Reshape(_Reshaped[ReshapeAttrs]):
    """data in row-major order under another shape.

    In ``newshape`` (attribute or operand) 0 keeps the dimension at that place, unless ``allowzero``, and one -1 is what
    remains.
    """

    name = "reshape"
    target_shape = "newshape"
    data, newshape = Operand(), Operand(optional=True, holds="integers")
    is_view = True

    def infer(self, attrs: ReshapeAttrs, data: Value, newshape: Value | None) -> Types:
        wanted = attrs.newshape
        if wanted is None:
            rank = static_length(self.name, newshape, "newshape")
            known = known_dims(newshape)
            if known is None:
                return [TensorType(fresh_dims("reshape", rank), data.dtype)]
            wanted = tuple(known.reshape(-1))
        shape = resolve_newshape(data.shape, wanted, attrs.allowzero)
        check_same_size(self.name, data, shape)
        return [TensorType(shape, data.dtype)]

    def reference(self, attrs: ReshapeAttrs, data: Array, newshape: Array | None) -> Arrays:
        return [data.reshape(resolve_newshape(data.shape, given_numbers(attrs.newshape, newshape), attrs.allowzero))]

    def define_symbols(self, attrs: ReshapeAttrs, results: TensorTypes, data: Tensor, newshape: Tensor | None) -> Symbols:
        if newshape is None:
            return {}
        sizes = [element(newshape, k) for k in range(results[0].rank)]
        if not attrs.allowzero:
            sizes = [te.select(s.eq(0), data.shape[k], s) if k < data.ndim else s for k, s in enumerate(sizes)]
        total: Expr = te.const(1)
        others: Expr = te.const(1)
        for extent in data.shape:
            total = total * extent
        for size in sizes:
            others = others * te.select(size.eq(-1), te.const(1), size)
        return new_symbols(results[0], [te.select(s.eq(-1), total // others, s) for s in sizes])

    def evaluate_dims(self, attrs: ReshapeAttrs, types: OperandTypes, data: DimArray, newshape: DimArray) -> DimArray:
        target = attrs.newshape if newshape is None else tuple(newshape.reshape(-1))
        if data is None or target is None:
            return None
        return reshaped(data, resolve_newshape(data.shape, target, attrs.allowzero))


def resolve_newshape(shape: Shape, wanted: Shape, allowzero: bool) -> Shape:
    """``wanted`` with 0 and -1 replaced.

    Raises:
        TypeInferenceError: -1 appears twice, another negative number, or a 0 without a dimension at its place.
    """
    result = list(wanted)
    for k, d in enumerate(wanted):
        if d == 0 and isinstance(d, int) and not allowzero:
            if k >= len(shape):
                raise fail("reshape", "attribute newshape", format_shape(wanted), f"0 only in the first {len(shape)} places")
            result[k] = shape[k]
        if isinstance(d, int) and d < -1:
            raise fail("reshape", "attribute newshape", format_shape(wanted), "sizes, 0 or one -1")
    unknown = [k for k, d in enumerate(wanted) if isinstance(d, int) and d == -1]
    if len(unknown) > 1:
        raise fail("reshape", "attribute newshape", format_shape(wanted), "at most one -1")
    if unknown:
        result[unknown[0]] = 1
        result[unknown[0]] = dims.floordiv(dims.product(shape), dims.product(result))
    return tuple(result)


def reshaped(array: DimArray, shape: Shape | None) -> DimArray:
    """An array of dimensions under a static shape; None if one is unknown."""
    if array is None or shape is None or not dims.is_static(*shape):
        return None
    return array.reshape(tuple(int(d) for d in shape if isinstance(d, int)))


@dataclass(frozen=True)
class ReshapeLikeAttrs:
    lhs_begin: int = 0
    lhs_end: int | None = None
    rhs_begin: int = 0
    rhs_end: int | None = None


@register
class ReshapeLike(_Reshaped[ReshapeLikeAttrs]):
    """data with its dimensions [lhs_begin, lhs_end) replaced by the dimensions [rhs_begin, rhs_end) of shape_like."""

    name = "reshape_like"
    data, shape_like = Operand(), Operand()

    def infer(self, attrs: ReshapeLikeAttrs, data: Value, shape_like: Value) -> Types:
        shape = self._shape(data.shape, shape_like.shape, attrs)
        check_same_size(self.name, data, shape)
        return [TensorType(shape, data.dtype)]

    @staticmethod
    def _shape(data: Shape, like: Shape, attrs: ReshapeLikeAttrs) -> Shape:
        replaced = slice(attrs.lhs_begin, attrs.lhs_end).indices(len(data))
        return (*data[: replaced[0]], *like[attrs.rhs_begin : attrs.rhs_end], *data[replaced[1] :])

    def reference(self, attrs: ReshapeLikeAttrs, data: Array, shape_like: Array) -> Arrays:
        return [data.reshape(self._shape(data.shape, shape_like.shape, attrs))]


@dataclass(frozen=True)
class SqueezeAttrs:
    axis: tuple[int, ...] | None = None


@register
class Squeeze(_Reshaped[SqueezeAttrs]):
    """data without the dimensions ``axis`` (attribute or operand ``axes``), which are 1; None: without all that are 1."""

    name = "squeeze"
    data, axes = Operand(), Operand(optional=True, holds="integers")
    is_view = True

    def infer(self, attrs: SqueezeAttrs, data: Value, axes: Value | None) -> Types:
        chosen = attrs.axis
        if chosen is None and axes is not None:
            known = known_dims(axes)
            if known is None:
                return [TensorType(fresh_dims("squeeze", data.rank - static_length(self.name, axes, "axes")), data.dtype)]
            chosen = tuple(int(a) for a in known.reshape(-1))
        if chosen is None and not dims.is_static(*data.shape):
            raise fail(self.name, "attribute axis", "None for symbolic dimensions, which may be 1 or not", "the axes to remove")
        removed = self._removed(data.shape, chosen)
        return [TensorType(tuple(d for k, d in enumerate(data.shape) if k not in removed), data.dtype)]

    def _removed(self, shape: Shape, axes: Sequence[int] | None) -> tuple[int, ...]:
        if axes is None:
            return tuple(k for k, d in enumerate(shape) if d == 1)
        removed = normalize_axes(self.name, axes, len(shape))
        for axis in removed:
            if dims.different(shape[axis], 1):
                raise fail(self.name, f"dimension {axis}", shape[axis], 1)
        return removed

    def reference(self, attrs: SqueezeAttrs, data: Array, axes: Array | None) -> Arrays:
        chosen = None if attrs.axis is None and axes is None else given_numbers(attrs.axis, axes)
        return [np.squeeze(data, self._removed(data.shape, chosen))]

    def define_symbols(self, attrs: SqueezeAttrs, results: TensorTypes, data: Tensor, axes: Tensor | None) -> Symbols:
        if axes is None or attrs.axis is not None:
            return {}
        removed = [names_axis(axes, k, data.ndim) for k in range(data.ndim)]
        place: Expr = te.const(0)
        sizes: list[Expr] = [te.const(0)] * results[0].rank
        for extent, gone in zip(data.shape, removed, strict=True):
            for k in range(results[0].rank):
                here = te.logical_and(te.logical_not(gone), place.eq(k))
                sizes[k] = te.select(here, extent, sizes[k])
            place = place + te.select(gone, te.const(0), te.const(1))
        return new_symbols(results[0], sizes)

    def evaluate_dims(self, attrs: SqueezeAttrs, types: OperandTypes, data: DimArray, axes: DimArray) -> DimArray:
        if data is None or (len(types) > 1 and axes is None):
            return None
        chosen = attrs.axis if axes is None else tuple(int(a) for a in axes.reshape(-1))
        return np.squeeze(data, self._removed(data.shape, chosen))


def names_axis(axes: Tensor, axis: int, rank: int) -> Expr:
    """Whether the run-time vector ``axes`` names ``axis``, counted from the front or from the end."""
    found: Expr = te.const(False, "bool")
    for k in range(length(axes)):
        value = element(axes, k)
        hit = te.binary("or", value.eq(axis), value.eq(axis - rank))
        found = hit if te.is_const(found, False) else te.binary("or", found, hit)
    return found


@dataclass(frozen=True)
class ExpandDimsAttrs:
    axis: int | None = None
    num_newaxis: int = 1


@register
class ExpandDims(_Reshaped[ExpandDimsAttrs]):
    """data with ``num_newaxis`` dimensions of 1 inserted at ``axis``; or one at each place of the result that operand ``axes``
    names.
    """

    name = "expand_dims"
    data, axes = Operand(), Operand(optional=True, holds="integers")
    is_view = True

    def infer(self, attrs: ExpandDimsAttrs, data: Value, axes: Value | None) -> Types:
        if attrs.axis is not None:
            return [TensorType(self._inserted(data.shape, attrs), data.dtype)]
        count = static_length(self.name, axes, "axes")
        known = known_dims(axes)
        if known is None:
            return [TensorType(fresh_dims("expand", data.rank + count), data.dtype)]
        return [TensorType(self._placed(data.shape, [int(a) for a in known.reshape(-1)]), data.dtype)]

    def _inserted(self, shape: Shape, attrs: ExpandDimsAttrs) -> Shape:
        assert attrs.axis is not None
        axis = normalize_axis(self.name, attrs.axis, len(shape) + 1)
        if not 0 <= attrs.num_newaxis <= MAX_RANK:
            raise fail(self.name, "attribute num_newaxis", str(attrs.num_newaxis), f"0 to {MAX_RANK}")
        return (*shape[:axis], *[1] * attrs.num_newaxis, *shape[axis:])

    def _placed(self, shape: Shape, axes: Sequence[int]) -> Shape:
        rank = len(shape) + len(axes)
        new = normalize_axes(self.name, axes, rank)
        rest = iter(shape)
        return tuple(1 if k in new else next(rest) for k in range(rank))

    def reference(self, attrs: ExpandDimsAttrs, data: Array, axes: Array | None) -> Arrays:
        if attrs.axis is not None:
            return [data.reshape(self._inserted(data.shape, attrs))]
        return [data.reshape(self._placed(data.shape, given_numbers(None, axes)))]

    def define_symbols(self, attrs: ExpandDimsAttrs, results: TensorTypes, data: Tensor, axes: Tensor | None) -> Symbols:
        if axes is None or attrs.axis is not None:
            return {}
        place: Expr = te.const(0)
        sizes: list[Expr] = []
        for k in range(results[0].rank):
            new = names_axis(axes, k, results[0].rank)
            old = chain_select([place.eq(p) for p in range(data.ndim)], data.shape, te.const(1))
            sizes.append(te.select(new, te.const(1), old))
            place = place + te.select(new, te.const(0), te.const(1))
        return new_symbols(results[0], sizes)

    def evaluate_dims(self, attrs: ExpandDimsAttrs, types: OperandTypes, data: DimArray, axes: DimArray) -> DimArray:
        if data is None:
            return None
        if attrs.axis is not None:
            return reshaped(data, self._inserted(data.shape, attrs))
        return None if axes is None else reshaped(data, self._placed(data.shape, [int(a) for a in axes.reshape(-1)]))


@dataclass(frozen=True)
class ShapeOfAttrs:
    dtype: str = "int64"


@register
class ShapeOf(Op[ShapeOfAttrs]):
    """The shape of data as a vector."""

    name = "shape_of"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: ShapeOfAttrs, data: Value) -> Types:
        return [TensorType((data.rank,), attrs.dtype)]

    def reference(self, attrs: ShapeOfAttrs, data: Array) -> Arrays:
        return [np.array(data.shape, dtype=dtypes.numpy_dtype(attrs.dtype))]

    def lower(self, attrs: ShapeOfAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        extents = [te.cast(e, attrs.dtype) for e in data.shape]
        last = extents[-1] if extents else te.const(0, attrs.dtype)

        def body(i: Sequence[Expr]) -> Expr:
            return chain_select([i[0].eq(k) for k in range(len(extents) - 1)], extents[:-1], last)

        return [injective(self.name, results[0], body)]

    def evaluate_dims(self, attrs: ShapeOfAttrs, types: OperandTypes, *_: object) -> DimArray:
        return object_array(types[0].shape) if isinstance(types[0], TensorType) else None


@register
class NdarraySize(Op[ShapeOfAttrs]):
    """The number of elements of data, a scalar."""

    name = "ndarray_size"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: ShapeOfAttrs, data: Value) -> Types:
        return [TensorType((), attrs.dtype)]

    def reference(self, attrs: ShapeOfAttrs, data: Array) -> Arrays:
        return [np.array(data.size, dtype=dtypes.numpy_dtype(attrs.dtype))]

    def lower(self, attrs: ShapeOfAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        total = te.dim(dims.product(shape_of(data)))
        return [injective(self.name, results[0], lambda i: te.cast(total, attrs.dtype))]

    def evaluate_dims(self, attrs: ShapeOfAttrs, types: OperandTypes, *_: object) -> DimArray:
        return object_array([types[0].size], ()) if isinstance(types[0], TensorType) else None


@register
class BatchFlatten(_Reshaped[NoAttrs]):
    """``out[n, i]`` = element ``i``, in row-major order, of ``data[n]``."""

    name = "nn.batch_flatten"
    data = Operand()
    is_view = True

    def infer(self, attrs: NoAttrs, data: Value) -> TensorTypes:
        if data.rank == 0:
            raise fail(self.name, "operand 'data'", data.type, "rank 1 or more")
        return [TensorType((data.shape[0], dims.product(data.shape[1:])), data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        return [data.reshape(data.shape[0], int(np.prod(data.shape[1:])))]

    def lower(self, attrs: NoAttrs, results: TensorTypes, data: Tensor, *_: object) -> Lowered:
        def body(n: Expr, flat: Expr) -> Expr:
            indices: list[Expr] = []
            for extent in reversed(data.shape[2:]):
                indices.insert(0, flat % extent)
                flat = flat // extent
            return data[(n, flat, *indices)[: data.ndim]]

        return [te.compute(te.shape_of(results[0].shape), body, name="batch_flatten")]
