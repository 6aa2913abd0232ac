"""Operators that read by index: take, gather, gather_nd.

Indices never lead out of bounds: those out of range are moved to the nearest element, after negative ones were
counted from the end.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forge import dims, te
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.core.inference import (
    Shape,
    at_most,
    expect_rank,
    fail,
    normalize_axis,
    required,
    unify_dim,
)
from forge.ops.core.layout_change import LayoutChange, along_axis
from forge.ops.core.lowering import injective, is_one, wrapped
from forge.ops.core.op import AxisAttrs, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, DimArray, Expr, Lowered, OperandTypes, Tensor, TensorTypes, Types

TAKE_MODES = ("wrap_negative", "clip", "wrap", "fast")


@dataclass(frozen=True)
class TakeAttrs:
    batch_dims: int = 0
    axis: int | None = None
    mode: str = "wrap_negative"


def in_bounds(indices: Array, extent: int, mode: str = "wrap_negative") -> Array:
    """The elements that indices of a dimension stand for."""
    wide = indices.astype(np.int64)
    if mode == "wrap":
        return wide % max(extent, 1)
    if mode == "wrap_negative":
        wide = np.where(wide < 0, wide + extent, wide)
    return np.clip(wide, 0, max(extent - 1, 0))


def lower_index(index: Expr, extent: Expr, mode: str) -> Expr:
    """``in_bounds`` of one index."""
    if is_one(extent):
        return te.const(0)
    wide = te.cast(index, "int64")
    if mode == "wrap":
        return wide % extent
    return wrapped(index, extent) if mode == "wrap_negative" else te.clamp(wide, extent)


@register
class Take(Op[TakeAttrs]):
    """out[i.., j.., k..] = data[i.., indices[j..], k..]: whole slices of data along ``axis``; None reads data as a vector.

    ``mode``: wrap_negative (counted from the end, then clamped), clip (clamped), wrap (modulo the extent), fast (as
    clip). The first ``batch_dims`` dimensions of data and indices go together.
    """

    name = "take"
    data, indices = Operand(), Operand(accepts="index")
    kind = Kind.INJECTIVE
    is_selection = True
    is_strided = True
    picks = "indices"

    def is_costly(self, attrs: TakeAttrs, data: Value, indices: Value) -> bool:
        """Along the last axis neighbours are gathered one by one."""
        return data.rank > 1 and indices.rank > 0 and attrs.axis in (-1, data.rank - 1)

    def infer(self, attrs: TakeAttrs, data: Value, indices: Value) -> Types:
        if attrs.mode not in TAKE_MODES:
            raise fail(self.name, "attribute mode", repr(attrs.mode), f"one of {', '.join(TAKE_MODES)}")
        if attrs.axis is None:
            return [TensorType(indices.shape, data.dtype)]
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        batch = attrs.batch_dims
        if not 0 <= batch <= min(axis, indices.rank):
            raise fail(self.name, "attribute batch_dims", batch, f"between 0 and {min(axis, indices.rank)}")
        for a, b in zip(data.shape[:batch], indices.shape[:batch], strict=True):
            unify_dim(self.name, a, b, "batch dimensions")
        return [TensorType((*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]), data.dtype)]

    def in_layout(self, change: LayoutChange) -> Value | None:
        """Where the indices are a vector, so that the result has the axes of the data."""
        fits = self.indices.rank == 1 and self.attrs.axis is not None and self.attrs.batch_dims == 0
        return along_axis(self, change) if fits else None

    def reference(self, attrs: TakeAttrs, data: Array, indices: Array) -> Arrays:
        return [_take(data, indices, attrs)]

    def lower(self, attrs: TakeAttrs, results: TensorTypes, data: Tensor, indices: Tensor) -> Lowered:
        if attrs.axis is None and data.ndim != 1:
            raise NotImplementedError("take without an axis reads a vector; reshape data first")
        axis, batch = (attrs.axis or 0) % data.ndim, attrs.batch_dims
        inner = indices.ndim - batch

        def body(i: Sequence[Expr]) -> Expr:
            index = indices[(*i[:batch], *i[axis : axis + inner])]
            chosen = lower_index(index, data.shape[axis], attrs.mode)
            return data[(*i[:axis], chosen, *i[axis + inner :])]

        return [injective(self.name, results[0], body)]

    def decompose(self, builder: Any, attrs: TakeAttrs, data: Value, indices: Value) -> Sequence[Any] | None:
        if attrs.axis is not None or data.rank == 1:
            return None
        flat = builder.call("reshape", data, newshape=(-1,))
        return [builder.call(self, flat, indices, axis=0, mode=attrs.mode)]

    def evaluate_dims(self, attrs: TakeAttrs, types: OperandTypes, data: DimArray, indices: DimArray) -> DimArray:
        if data is None or indices is None or not dims.is_static(*indices.reshape(-1)) or data.size == 0:
            return None
        return np.asarray(_take(data, indices, attrs), dtype=object)


def _take(data: Array, indices: Array, attrs: TakeAttrs) -> Array:
    if attrs.axis is None:
        data, attrs = data.reshape(-1), TakeAttrs(0, 0, attrs.mode)
    assert attrs.axis is not None
    axis, batch = attrs.axis % data.ndim, attrs.batch_dims
    chosen = in_bounds(indices, data.shape[axis], attrs.mode)
    if batch == 0:
        return np.take(data, chosen, axis=axis)
    rows = [np.take(data[b], chosen[b], axis=axis - batch) for b in np.ndindex(*data.shape[:batch])]
    shape = (*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :])
    return np.stack(rows).reshape(shape) if rows else np.empty(shape, data.dtype)


@register
class Gather(Op[AxisAttrs]):
    """out[i] = data[j] with j equal to i but for j[axis] = indices[i]; indices may be smaller than data along the other axes."""

    name = "gather"
    data, indices = Operand(), Operand(accepts="index")
    kind = Kind.INJECTIVE

    def infer(self, attrs: AxisAttrs, data: Value, indices: Value) -> Types:
        check_element_indices(self.name, data, indices, attrs.axis)
        return [TensorType(indices.shape, data.dtype)]

    def reference(self, attrs: AxisAttrs, data: Array, indices: Array) -> Arrays:
        return [data[element_positions(indices, data.shape, attrs.axis)]]

    def requires(self, attrs: AxisAttrs, results: TensorTypes, data: TensorType, indices: TensorType) -> Conditions:
        axis, found = attrs.axis % data.rank, []
        for k, (d, i) in enumerate(zip(data.shape, results[0].shape, strict=True)):
            why = f"dimension {k} of indices is {i}; expected at most {d}"
            found += required(k == axis or at_most(i, d), partial(operator.le, te.dim(i), te.dim(d)), why)
        return found

    def lower(self, attrs: AxisAttrs, results: TensorTypes, data: Tensor, indices: Tensor) -> Lowered:
        axis = attrs.axis % data.ndim

        def body(i: Sequence[Expr]) -> Expr:
            chosen = lower_index(indices[tuple(i)], data.shape[axis], "wrap_negative")
            return data[(*i[:axis], chosen, *i[axis + 1 :])]

        return [injective(self.name, results[0], body)]


def check_element_indices(op: str, data: Value, indices: Value, axis: int) -> None:
    """Checks indices that name one element of data for every element of theirs."""
    expect_rank(op, indices.tensor_type, "indices", data.rank)
    axis = normalize_axis(op, axis, data.rank)
    for k, (d, i) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if k != axis and dims.different(d, i) and dims.bounds(d - i)[1] is not None and dims.maximum(d, i) != d:
            raise fail(op, f"dimension {k} of indices", i, f"at most {d}")


def element_positions(indices: Array, shape: Sequence[int], axis: int) -> tuple[Array, ...]:
    """NumPy indices of the elements that ``indices`` names along ``axis``."""
    positions: list[Array] = list(np.indices(indices.shape, sparse=True))
    positions[axis] = in_bounds(indices, shape[axis])
    return tuple(positions)


@dataclass(frozen=True)
class GatherNdAttrs:
    batch_dims: int = 0
    index_rank: int | None = None


@register
class GatherNd(Op[GatherNdAttrs]):
    """out[b.., y.., x..] = data[b.., indices[0, b.., y..], .., indices[m - 1, b.., y..], x..].

    The first dimension of indices, of extent m, holds the index tuple; the next ``batch_dims`` go with the first ones
    of data.
    """

    name = "gather_nd"
    data, indices = Operand(), Operand(accepts="index")
    kind = Kind.INJECTIVE

    def infer(self, attrs: GatherNdAttrs, data: Value, indices: Value) -> Types:
        depth = tuple_length(self.name, data, indices, attrs.batch_dims)
        for a, b in zip(data.shape[: attrs.batch_dims], indices.shape[1:], strict=False):
            unify_dim(self.name, a, b, "batch dimensions")
        return [TensorType((*indices.shape[1:], *data.shape[attrs.batch_dims + depth :]), data.dtype)]

    def reference(self, attrs: GatherNdAttrs, data: Array, indices: Array) -> Arrays:
        found = data[tuple_positions(indices, data.shape, attrs.batch_dims)]
        if len(indices):
            return [found]
        return [np.broadcast_to(found, (*indices.shape[1:], *data.shape[attrs.batch_dims :]))]

    def lower(self, attrs: GatherNdAttrs, results: TensorTypes, data: Tensor, indices: Tensor) -> Lowered:
        batch, outer = attrs.batch_dims, indices.ndim - 1
        depth = data.ndim - batch - (results[0].rank - outer)

        def body(i: Sequence[Expr]) -> Expr:
            chosen = [
                lower_index(indices[(te.const(k), *i[:outer])], data.shape[batch + k], "wrap_negative") for k in range(depth)
            ]
            return data[(*i[:batch], *chosen, *i[outer:])]

        return [injective(self.name, results[0], body)]


def tuple_length(op: str, data: Value, indices: Value, batch_dims: int = 0) -> int:
    """The extent of the first dimension of indices: how many dimensions of data an index tuple names."""
    if indices.rank < 1 + batch_dims or not isinstance(indices.shape[0], int):
        raise fail(op, "operand 'indices'", indices.type, f"rank at least {1 + batch_dims} and a static first dimension")
    if indices.shape[0] + batch_dims > data.rank:
        raise fail(op, "first dimension of indices", indices.shape[0], f"at most {data.rank - batch_dims}")
    return int(indices.shape[0])


def tuple_positions(indices: Array, shape: Shape | Sequence[int], batch_dims: int = 0) -> tuple[Array, ...]:
    """NumPy indices of the slices that index tuples (along the first dimension) name."""
    batch = np.indices(indices.shape[1:], sparse=True)[:batch_dims]
    chosen = [in_bounds(row, int(shape[batch_dims + k])) for k, row in enumerate(indices)]  # type: ignore[arg-type]
    return (*batch, *chosen)
