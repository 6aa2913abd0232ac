"""Searching in sorted rows, and operators whose reading or writing follows from counts and masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops import numeric
from forge.ops.base import Kind, NoAttrs, Op, Operand, register
from forge.ops.infer_helpers import (
    expect_dtype,
    expect_rank,
    fail,
    fresh_dims,
    normalize_axis,
    same_dtype,
    static_length,
    tensor,
    unify_dim,
)
from forge.ops.lower_helpers import element, injective, new_symbols
from forge.ops.movement import present
from forge.ops.shape_ops import optional_operand
from forge.ops.signatures import Arrays, Lowered, Regions, Tensors, TensorTypes, Types, Values
from forge.te import Expr


@dataclass(frozen=True)
class SearchSortedAttrs:
    right: bool = False
    dtype: str = "int64"


@register
class SearchSorted(Op[SearchSortedAttrs]):
    """Where each of values would be inserted into sorted, ascending along its last dimension: before equal elements, or, if
    ``right``, behind them. NaN is larger than all.

    sorted has rank 1, or the dimensions of values but for the last.
    """

    name = "searchsorted"
    operands = (Operand("sorted"), Operand("values"))
    Attrs = SearchSortedAttrs
    kernel = "searchsorted"

    def infer(self, operands: Values, attrs: SearchSortedAttrs, regions: Regions = ()) -> Types:
        ordered, values = tensor(self.name, operands[0], "sorted"), tensor(self.name, operands[1], "values")
        expect_dtype(self.name, ordered, "sorted", "numeric")
        same_dtype(self.name, [ordered, values])
        if attrs.dtype not in ("int32", "int64"):
            raise fail(self.name, "attribute dtype", repr(attrs.dtype), "int32 or int64")
        if ordered.rank != 1:
            expect_rank(self.name, ordered, "sorted", max(values.rank, 1))
            for k, (a, b) in enumerate(zip(ordered.shape[:-1], values.shape[:-1], strict=True)):
                unify_dim(self.name, a, b, f"dimension {k} of sorted")
        return [TensorType(values.shape, attrs.dtype)]

    def reference(self, operands: Arrays, attrs: SearchSortedAttrs) -> Arrays:
        ordered, values = (numeric.widen(x) for x in operands)
        side: Literal["left", "right"] = "right" if attrs.right else "left"
        if ordered.ndim == 1:
            return [np.asarray(np.searchsorted(ordered, values, side)).astype(attrs.dtype)]
        out = np.zeros(values.shape, attrs.dtype)
        for batch in np.ndindex(values.shape[:-1]):
            out[batch] = np.searchsorted(ordered[batch], values[batch], side)
        return [out]


@dataclass(frozen=True)
class RepeatInterleaveAttrs:
    axis: int = 0


@register
class RepeatInterleave(Op[RepeatInterleaveAttrs]):
    """Element k of data along ``axis`` repeats[k] times in a row; negative numbers count as 0."""

    name = "repeat_interleave"
    operands = (Operand("data"), Operand("repeats"))
    Attrs = RepeatInterleaveAttrs

    def infer(self, operands: Values, attrs: RepeatInterleaveAttrs, regions: Regions = ()) -> Types:
        data, repeats = tensor(self.name, operands[0], "data"), tensor(self.name, operands[1], "repeats")
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        expect_dtype(self.name, repeats, "repeats", "index")
        expect_rank(self.name, repeats, "repeats", 1)
        unify_dim(self.name, repeats.shape[0], data.shape[axis], "length of repeats")
        return [TensorType((*data.shape[:axis], *fresh_dims("repeated", 1), *data.shape[axis + 1 :]), data.dtype)]

    def reference(self, operands: Arrays, attrs: RepeatInterleaveAttrs) -> Arrays:
        return [np.repeat(operands[0], np.maximum(operands[1].astype(np.int64), 0), attrs.axis)]

    def decompose(self, builder: Builder, operands: Values, attrs: RepeatInterleaveAttrs) -> Sequence[Value]:
        data, repeats = operands[:2]
        assert data is not None and repeats is not None
        zero, one = (builder.constant(v, "int64") for v in (0, 1))
        counts = builder.call("maximum", builder.call("cast", repeats, dtype="int64"), zero)
        ends = builder.call("cumsum", counts, axis=0)
        places = builder.call("arange", zero, builder.call("sum", counts), one)
        sources = builder.call("searchsorted", ends, places, right=True)
        return [builder.call("take", data, sources, axis=attrs.axis, mode="clip")]


@dataclass(frozen=True)
class SequenceMaskAttrs:
    mask_value: float = 0.0
    axis: int = 0


@register
class SequenceMask(Op[SequenceMaskAttrs]):
    """data with ``mask_value`` at all positions along ``axis`` (0 or 1) from valid_length[b] on, b along the other of the two."""

    name = "sequence_mask"
    operands = (Operand("data"), Operand("valid_length"))
    Attrs = SequenceMaskAttrs
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: SequenceMaskAttrs, regions: Regions = ()) -> Types:
        data, lengths = tensor(self.name, operands[0], "data"), tensor(self.name, operands[1], "valid_length")
        if attrs.axis not in (0, 1) or data.rank < 2:
            raise fail(self.name, "attribute axis and rank of data", (attrs.axis, data.rank), "axis 0 or 1, rank 2 or more")
        expect_dtype(self.name, lengths, "valid_length", "numeric")
        expect_rank(self.name, lengths, "valid_length", 1)
        unify_dim(self.name, lengths.shape[0], data.shape[1 - attrs.axis], "length of valid_length")
        return [data]

    def reference(self, operands: Arrays, attrs: SequenceMaskAttrs) -> Arrays:
        data, lengths = operands[0].copy(), operands[1]
        for b in range(len(lengths)):
            rows = [slice(None), slice(None)]
            rows[1 - attrs.axis] = b  # type: ignore[call-overload]
            column = data[tuple(rows)]
            column[np.arange(len(column)) >= lengths[b]] = attrs.mask_value
        return [data]

    def lower(self, operands: Tensors, attrs: SequenceMaskAttrs, results: TensorTypes) -> Lowered:
        data, lengths = present(operands)
        fill = te.const(attrs.mask_value, data.dtype)

        def body(i: Sequence[Expr]) -> Expr:
            limit = lengths[i[1 - attrs.axis]]
            return te.select(te.cast(i[attrs.axis], "float64") < te.cast(limit, "float64"), data[tuple(i)], fill)

        return [injective(self.name, results[0], body)]


@register
class UnravelIndex(Op[NoAttrs]):
    """The indices, one row a dimension, of flat row-major positions in a tensor of ``shape``, a vector of known length."""

    name = "unravel_index"
    operands = (Operand("indices"), Operand("shape"))
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        indices, shape = tensor(self.name, operands[0], "indices"), tensor(self.name, operands[1], "shape")
        for type_, name in ((indices, "indices"), (shape, "shape")):
            expect_dtype(self.name, type_, name, "index")
        return [TensorType((static_length(self.name, operands[1], "shape"), *indices.shape), indices.dtype)]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        rest, rows = operands[0].astype(np.int64), []
        for extent in reversed(operands[1].reshape(-1).tolist()):
            rows.append(rest % extent if extent else np.zeros_like(rest))
            rest = rest // extent if extent else np.zeros_like(rest)
        return [np.stack(rows[::-1]).astype(operands[0].dtype)]

    def lower(self, operands: Tensors, attrs: NoAttrs, results: TensorTypes) -> Lowered:
        indices, shape = present(operands)
        count = int(results[0].shape[0])  # type: ignore[arg-type]

        def body(i: Sequence[Expr]) -> Expr:
            rest = te.cast(indices[tuple(i[1:])], "int64")
            chosen: Expr = te.const(0)
            for k in reversed(range(count)):
                extent = element(shape, k)
                chosen = te.select(i[0].eq(k), rest % extent, chosen)
                rest = rest // extent
            return te.cast(chosen, indices.dtype)

        return [injective(self.name, results[0], body)]


@register
class InvertPermutation(Op[NoAttrs]):
    """out[data[i]] = i, of a permutation of 0 .. n - 1."""

    name = "invert_permutation"
    operands = (Operand("data"),)

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        expect_dtype(self.name, data, "data", "index")
        expect_rank(self.name, data, "data", 1)
        return [data]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        (data,) = operands
        result = np.zeros_like(data)
        result[data.astype(np.int64)] = np.arange(len(data))
        return [result]

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value]:
        (data,) = operands
        assert data is not None
        places = _count_up(builder, data)
        blank = builder.call("zeros_like", data)
        updates = builder.call("cast", places, dtype=data.dtype)
        return [builder.call("scatter_elements", blank, builder.call("cast", data, dtype="int64"), updates, axis=0)]


def _count_up(builder: Builder, vector: Value) -> Value:
    """0, 1, 2 .. as many as ``vector`` has elements."""
    zero, one = (builder.constant(v, "int64") for v in (0, 1))
    places = builder.call("arange", zero, builder.call("ndarray_size", vector), one)
    return builder.call("reshape", places, newshape=vector.shape, allowzero=True)


@register
class MaskedScatter(Op[NoAttrs]):
    """data with the elements where mask holds replaced by the first elements of source, in row-major order.

    mask broadcasts to data; when source is used up, its last element is repeated.
    """

    name = "masked_scatter"
    operands = (Operand("data"), Operand("mask"), Operand("source"))

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        data, mask, source = (tensor(self.name, v, o.name) for v, o in zip(operands, self.operands, strict=True))
        expect_dtype(self.name, mask, "mask", "bool")
        same_dtype(self.name, [data, source])
        for a, b in zip(reversed(mask.shape), reversed(data.shape), strict=False):
            if not (isinstance(a, int) and a == 1):
                unify_dim(self.name, a, b, "shapes of mask and data")
        if mask.rank > data.rank:
            raise fail(self.name, "rank of mask", mask.rank, f"at most {data.rank}")
        return [data]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        data, mask, source = operands
        result, flat = data.copy(), source.reshape(-1)
        mask = np.broadcast_to(mask, data.shape)
        count = int(mask.sum())
        if len(flat):
            result[mask] = flat[np.minimum(np.arange(count), len(flat) - 1)]
        return [result]

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value]:
        data, mask, source = operands
        assert data is not None and mask is not None and source is not None
        if dims.equal(source.tensor_type.size, 0):
            return [builder.call("copy", data)]
        mask = builder.call("broadcast_to", mask, shape=data.shape)
        running = builder.call("cumsum", builder.call("reshape", mask, newshape=(-1,)), axis=0, dtype="int64")
        number = builder.call("subtract", running, builder.constant(1, "int64"))
        number = builder.call("maximum", number, builder.constant(0, "int64"))
        flat = builder.call("reshape", source, newshape=(-1,))
        taken = builder.call("take", flat, number, axis=0, mode="clip")
        taken = builder.call("reshape", taken, newshape=data.shape, allowzero=True)
        return [builder.call("where", mask, taken, data)]


@dataclass(frozen=True)
class SparseToDenseAttrs:
    output_shape: tuple[Dim, ...] | None = None


@register
class SparseToDense(Op[SparseToDenseAttrs]):
    """A tensor of ``output_shape`` (attribute or operand) with values[n] at index sparse_indices[n], default_value (0) elsewhere.

    sparse_indices: (n, rank); (n) for rank 1. values: (n), or a scalar. Of equal indices the last one counts.
    """

    name = "sparse_to_dense"
    operands = (
        Operand("sparse_indices"),
        Operand("sparse_values"),
        Operand("default_value", optional=True),
        Operand("output_shape", optional=True),
    )
    Attrs = SparseToDenseAttrs

    def infer(self, operands: Values, attrs: SparseToDenseAttrs, regions: Regions = ()) -> Types:
        indices, values = tensor(self.name, operands[0], "sparse_indices"), tensor(self.name, operands[1], "sparse_values")
        expect_dtype(self.name, indices, "sparse_indices", "index")
        expect_rank(self.name, indices, "sparse_indices", (1, 2))
        expect_rank(self.name, values, "sparse_values", (0, 1))
        if values.rank:
            unify_dim(self.name, values.shape[0], indices.shape[0], "number of sparse_values")
        if (default := optional_operand(operands, 2)) is not None:
            same_dtype(self.name, [values, tensor(self.name, default, "default_value")])
        shape = self._shape(operands, attrs)
        depth: Dim = indices.shape[1] if indices.rank == 2 else 1
        unify_dim(self.name, depth, len(shape), "length of an index")
        return [TensorType(shape, values.dtype)]

    def _shape(self, operands: Values, attrs: SparseToDenseAttrs) -> tuple[Dim, ...]:
        if attrs.output_shape is not None:
            return attrs.output_shape
        operand = optional_operand(operands, 3)
        count = static_length(self.name, operand, "output_shape")
        known = known_dims(operand)
        return fresh_dims("dense", count) if known is None else tuple(known.reshape(-1))

    def reference(self, operands: Arrays, attrs: SparseToDenseAttrs) -> Arrays:
        indices, values, default, shape = [*operands, None, None][:4]
        given = attrs.output_shape if attrs.output_shape is not None else shape.reshape(-1).tolist()
        sizes = tuple(int(d) for d in given)  # type: ignore[arg-type]
        fill = np.zeros((), values.dtype) if default is None else default.reshape(())
        result = np.broadcast_to(fill, sizes).copy()
        rows = indices.reshape(len(indices), -1)
        for row, value in zip(rows, np.broadcast_to(values, len(rows)), strict=True):
            wrapped = [int(k) + e if k < 0 else int(k) for k, e in zip(row, result.shape, strict=True)]
            result[tuple(min(max(k, 0), e - 1) for k, e in zip(wrapped, result.shape, strict=True))] = value
        return [result]

    def define_symbols(self, operands: Tensors, attrs: SparseToDenseAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        shape = optional_operand(operands, 3)
        if attrs.output_shape is not None or shape is None:
            return {}
        return new_symbols(results[0], [element(shape, k) for k in range(results[0].rank)])

    def decompose(self, builder: Builder, operands: Values, attrs: SparseToDenseAttrs) -> Sequence[Value]:
        indices, values, default, shape = [*operands, None, None][:4]
        assert indices is not None and values is not None
        fill = builder.constant(0, values.dtype) if default is None else default
        dense = builder.call("full", fill, None if attrs.output_shape is not None else shape, shape=attrs.output_shape)
        rows = indices if indices.rank == 2 else builder.call("expand_dims", indices, axis=1)
        columns = builder.call("transpose", rows, axes=(1, 0))
        if not values.rank:
            values = builder.call("broadcast_to", values, shape=(indices.shape[0],))
        return [builder.call("scatter_nd", dense, builder.call("cast", columns, dtype="int64"), values)]


__all__ = [
    "InvertPermutation", "MaskedScatter", "RepeatInterleave", "SearchSorted", "SequenceMask", "SparseToDense", "UnravelIndex",
]
