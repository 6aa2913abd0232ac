"""Operators that read or change a shape and keep the order of elements: reshape, squeeze, expand_dims, shape_of, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.op import Accuracy, Kind, NoAttrs, Operand
from forge.ir.shapes import known_dims
from forge.ir.types import MAX_RANK, TensorType
from forge.ops.core.batch_parts import carry_reshaped
from forge.ops.core.inference import (
    Shape,
    fail,
    format_shape,
    fresh_dims,
    normalize_axes,
    normalize_axis,
    object_array,
    static_length,
    tensor,
)
from forge.ops.core.lowering import chain_select, element, injective, length, new_symbols, optional_operand, shape_of
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
from forge.ops.shape.regroup import source_indices
from forge.te import Expr, Tensor

if TYPE_CHECKING:
    from forge.ir.nodes import Graph, Value


def lower_reshape(name: str, operands: Tensors, results: TensorTypes) -> Lowered:
    """Reads the first operand in row-major order."""
    data = operands[0]
    assert data is not None
    shape = shape_of(data)
    return [injective(name, results[0], lambda i: data[source_indices(shape, results[0].shape, i)])]


def check_same_size(op: str, data: TensorType, shape: Shape) -> None:
    """Raises TypeInferenceError where the number of elements provably differs."""
    if dims.different(data.size, dims.product(shape)):
        raise fail(op, "number of elements", f"{data} to {format_shape(shape)}", f"{data.size} elements")


@dataclass(frozen=True)
class ReshapeAttrs:
    newshape: tuple[Dim, ...] | None = None
    allowzero: bool = False


@register
class Reshape(Op[ReshapeAttrs]):
    """data in row-major order under another shape.

    In ``newshape`` (attribute or operand) 0 keeps the dimension at that place, unless ``allowzero``, and one -1 is what
    remains.
    """

    name = "reshape"
    target_shape = "newshape"
    carry_batch = carry_reshaped
    data, newshape = Operand(), Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    is_view = True

    def infer(self, operands: Values, attrs: ReshapeAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        operand = optional_operand(operands, 1)
        wanted = attrs.newshape
        if wanted is None:
            rank = static_length(self.name, operand, "newshape")
            known = known_dims(operand)
            if known is None:
                return [TensorType(fresh_dims("reshape", rank), data.dtype)]
            wanted = tuple(known.reshape(-1))
        shape = resolve_newshape(data.shape, wanted, attrs.allowzero)
        check_same_size(self.name, data, shape)
        return [TensorType(shape, data.dtype)]

    def reference(self, operands: Arrays, attrs: ReshapeAttrs) -> Arrays:
        wanted = attrs.newshape if attrs.newshape is not None else tuple(operands[1].reshape(-1).tolist())
        return [operands[0].reshape(resolve_newshape(operands[0].shape, wanted, attrs.allowzero))]

    def lower(self, operands: Tensors, attrs: ReshapeAttrs, results: TensorTypes) -> Lowered:
        return lower_reshape(self.name, operands, results)

    def define_symbols(self, operands: Tensors, attrs: ReshapeAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        data, wanted = operands[0], optional_operand(operands, 1)
        if wanted is None or data is None:
            return {}
        sizes = [element(wanted, k) for k in range(results[0].rank)]
        if not attrs.allowzero:
            sizes = [te.select(s.eq(0), data.shape[k], s) if k < data.ndim else s for k, s in enumerate(sizes)]
        total: Expr = te.const(1)
        others: Expr = te.const(1)
        for extent in data.shape:
            total = total * extent
        for size in sizes:
            others = others * te.select(size.eq(-1), te.const(1), size)
        return new_symbols(results[0], [te.select(s.eq(-1), total // others, s) for s in sizes])

    def evaluate_dims(self, operands: DimArrays, attrs: ReshapeAttrs, types: OperandTypes) -> DimArray:
        data, wanted = operands[0], optional_operand(operands, 1)
        target = attrs.newshape if wanted is None else tuple(wanted.reshape(-1))
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
class ReshapeLike(Op[ReshapeLikeAttrs]):
    """data with its dimensions [lhs_begin, lhs_end) replaced by the dimensions [rhs_begin, rhs_end) of shape_like."""

    name = "reshape_like"
    carry_batch = carry_reshaped
    data, shape_like = Operand(), Operand()
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: ReshapeLikeAttrs, regions: Regions = ()) -> Types:
        data, like = tensor(self.name, operands[0], "data"), tensor(self.name, operands[1], "shape_like")
        shape = self._shape(data.shape, like.shape, attrs)
        check_same_size(self.name, data, shape)
        return [TensorType(shape, data.dtype)]

    @staticmethod
    def _shape(data: Shape, like: Shape, attrs: ReshapeLikeAttrs) -> Shape:
        replaced = slice(attrs.lhs_begin, attrs.lhs_end).indices(len(data))
        return (*data[: replaced[0]], *like[attrs.rhs_begin : attrs.rhs_end], *data[replaced[1] :])

    def reference(self, operands: Arrays, attrs: ReshapeLikeAttrs) -> Arrays:
        return [operands[0].reshape(self._shape(operands[0].shape, operands[1].shape, attrs))]

    def lower(self, operands: Tensors, attrs: ReshapeLikeAttrs, results: TensorTypes) -> Lowered:
        return lower_reshape(self.name, operands, results)


@dataclass(frozen=True)
class SqueezeAttrs:
    axis: tuple[int, ...] | None = None


@register
class Squeeze(Op[SqueezeAttrs]):
    """data without the dimensions ``axis`` (attribute or operand ``axes``), which are 1; None: without all that are 1."""

    name = "squeeze"
    carry_batch = carry_reshaped
    data, axes = Operand(), Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    is_view = True

    def infer(self, operands: Values, attrs: SqueezeAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        operand = optional_operand(operands, 1)
        axes = attrs.axis
        if axes is None and operand is not None:
            count = static_length(self.name, operand, "axes")
            known = known_dims(operand)
            if known is None:
                return [TensorType(fresh_dims("squeeze", data.rank - count), data.dtype)]
            axes = tuple(int(a) for a in known.reshape(-1))
        if axes is None and not dims.is_static(*data.shape):
            raise fail(self.name, "attribute axis", "None for symbolic dimensions, which may be 1 or not", "the axes to remove")
        removed = self._removed(data.shape, axes)
        return [TensorType(tuple(d for k, d in enumerate(data.shape) if k not in removed), data.dtype)]

    def _removed(self, shape: Shape, axes: Sequence[int] | None) -> tuple[int, ...]:
        if axes is None:
            return tuple(k for k, d in enumerate(shape) if d == 1)
        removed = normalize_axes(self.name, axes, len(shape))
        for axis in removed:
            if dims.different(shape[axis], 1):
                raise fail(self.name, f"dimension {axis}", shape[axis], 1)
        return removed

    def reference(self, operands: Arrays, attrs: SqueezeAttrs) -> Arrays:
        operand = optional_operand(operands, 1)
        axes = attrs.axis if attrs.axis is not None or operand is None else tuple(operand.reshape(-1).tolist())
        return [np.squeeze(operands[0], self._removed(operands[0].shape, axes))]

    def lower(self, operands: Tensors, attrs: SqueezeAttrs, results: TensorTypes) -> Lowered:
        return lower_reshape(self.name, operands, results)

    def define_symbols(self, operands: Tensors, attrs: SqueezeAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        data, axes = operands[0], optional_operand(operands, 1)
        if axes is None or attrs.axis is not None or data is None:
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

    def evaluate_dims(self, operands: DimArrays, attrs: SqueezeAttrs, types: OperandTypes) -> DimArray:
        data, axes = operands[0], optional_operand(operands, 1)
        if data is None or (len(operands) > 1 and axes is None):
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
class ExpandDims(Op[ExpandDimsAttrs]):
    """data with ``num_newaxis`` dimensions of 1 inserted at ``axis``; or one at each place of the result that operand ``axes``
    names.
    """

    name = "expand_dims"
    carry_batch = carry_reshaped
    data, axes = Operand(), Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    is_view = True

    def infer(self, operands: Values, attrs: ExpandDimsAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        operand = optional_operand(operands, 1)
        if attrs.axis is not None:
            return [TensorType(self._inserted(data.shape, attrs), data.dtype)]
        count = static_length(self.name, operand, "axes")
        known = known_dims(operand)
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

    def reference(self, operands: Arrays, attrs: ExpandDimsAttrs) -> Arrays:
        data = operands[0]
        if attrs.axis is not None:
            return [data.reshape(self._inserted(data.shape, attrs))]
        return [data.reshape(self._placed(data.shape, operands[1].reshape(-1).tolist()))]

    def lower(self, operands: Tensors, attrs: ExpandDimsAttrs, results: TensorTypes) -> Lowered:
        return lower_reshape(self.name, operands, results)

    def define_symbols(self, operands: Tensors, attrs: ExpandDimsAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        data, axes = operands[0], optional_operand(operands, 1)
        if axes is None or attrs.axis is not None or data is None:
            return {}
        place: Expr = te.const(0)
        sizes: list[Expr] = []
        for k in range(results[0].rank):
            new = names_axis(axes, k, results[0].rank)
            old = chain_select([place.eq(p) for p in range(data.ndim)], data.shape, te.const(1))
            sizes.append(te.select(new, te.const(1), old))
            place = place + te.select(new, te.const(0), te.const(1))
        return new_symbols(results[0], sizes)

    def evaluate_dims(self, operands: DimArrays, attrs: ExpandDimsAttrs, types: OperandTypes) -> DimArray:
        data, axes = operands[0], optional_operand(operands, 1)
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

    def infer(self, operands: Values, attrs: ShapeOfAttrs, regions: Regions = ()) -> Types:
        return [TensorType((tensor(self.name, operands[0], "data").rank,), attrs.dtype)]

    def reference(self, operands: Arrays, attrs: ShapeOfAttrs) -> Arrays:
        return [np.array(operands[0].shape, dtype=dtypes.numpy_dtype(attrs.dtype))]

    def lower(self, operands: tuple[Tensor, ...], attrs: ShapeOfAttrs, results: TensorTypes) -> Lowered:
        data = operands[0]
        extents = [te.cast(e, attrs.dtype) for e in data.shape]
        last = extents[-1] if extents else te.const(0, attrs.dtype)

        def body(i: Sequence[Expr]) -> Expr:
            return chain_select([i[0].eq(k) for k in range(len(extents) - 1)], extents[:-1], last)

        return [injective(self.name, results[0], body)]

    def evaluate_dims(self, operands: DimArrays, attrs: ShapeOfAttrs, types: OperandTypes) -> DimArray:
        return object_array(types[0].shape) if isinstance(types[0], TensorType) else None


@register
class NdarraySize(Op[ShapeOfAttrs]):
    """The number of elements of data, a scalar."""

    name = "ndarray_size"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: ShapeOfAttrs, regions: Regions = ()) -> Types:
        tensor(self.name, operands[0], "data")
        return [TensorType((), attrs.dtype)]

    def reference(self, operands: Arrays, attrs: ShapeOfAttrs) -> Arrays:
        return [np.array(operands[0].size, dtype=dtypes.numpy_dtype(attrs.dtype))]

    def lower(self, operands: tuple[Tensor, ...], attrs: ShapeOfAttrs, results: TensorTypes) -> Lowered:
        data = operands[0]
        total = te.dim(dims.product(shape_of(data)))
        return [injective(self.name, results[0], lambda i: te.cast(total, attrs.dtype))]

    def evaluate_dims(self, operands: DimArrays, attrs: ShapeOfAttrs, types: OperandTypes) -> DimArray:
        return object_array([types[0].size], ()) if isinstance(types[0], TensorType) else None


@register
class BatchFlatten(Op[NoAttrs]):
    """``out[n, i]`` = element ``i``, in row-major order, of ``data[n]``."""

    name = "nn.batch_flatten"
    carry_batch = carry_reshaped
    data = Operand()
    accuracy = Accuracy.EXACT
    kind = Kind.INJECTIVE
    is_view = True

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        data = tensor(self.name, operands[0], "data")
        if data.rank == 0:
            raise fail(self.name, "operand 'data'", data, "rank 1 or more")
        return [TensorType((data.shape[0], dims.product(data.shape[1:])), data.dtype)]

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        x = operands[0]
        return [x.reshape(x.shape[0], int(np.prod(x.shape[1:])))]

    def lower(self, operands: tuple[Tensor, ...], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        (data,) = operands

        def body(n: Expr, flat: Expr) -> Expr:
            indices: list[Expr] = []
            for extent in reversed(data.shape[2:]):
                indices.insert(0, flat % extent)
                flat = flat // extent
            return data[(n, flat, *indices)[: data.ndim]]

        return [te.compute(te.shape_of(results[0].shape), body, name="batch_flatten")]
