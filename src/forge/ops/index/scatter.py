"""Operators that write by index: scatter_elements and scatter_nd.

``out_of_range`` "clamp": indices out of range are moved to the nearest element, after negative ones were counted from the
end; "drop": their updates, and those of negative ones, are left out. Updates are applied in row-major order of the indices;
with reduction "update" the last one stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Accuracy, Category, Kind, Operand
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, expect_rank, fail, fresh_dims, same_dtype, static_length, tensor, unify_dim
from forge.ops.core.lowering import element, new_symbols, optional_operand
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Array, Arrays, Regions, Tensors, TensorTypes, Types, Values
from forge.ops.index.gather import check_element_indices, element_positions, tuple_length, tuple_positions
from forge.te import Expr

_AT: dict[str, Callable[..., Any]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}
REDUCTIONS = ("update", *_AT, "mean")


@dataclass(frozen=True)
class ScatterElementsAttrs:
    axis: int = 0
    reduction: str = "update"
    out_of_range: str = "clamp"


@dataclass(frozen=True)
class ScatterNdAttrs:
    mode: str = "update"
    out_of_range: str = "clamp"


def _check_reduction(op: str, reduction: str, dtype: str) -> None:
    if reduction not in REDUCTIONS:
        raise fail(op, "attribute reduction", repr(reduction), f"one of {', '.join(REDUCTIONS)}")
    if dtype in ("bool", "string") and reduction != "update":
        raise fail(op, f"reduction {reduction!r} of element type", dtype, "a numeric type")
    if dtypes.is_complex(dtype) and reduction in ("min", "max"):
        raise fail(op, f"reduction {reduction!r} of element type", dtype, "a type with an order")


def _check_range(op: str, out_of_range: str) -> None:
    if out_of_range not in ("clamp", "drop"):
        raise fail(op, "attribute out_of_range", repr(out_of_range), "clamp or drop")


def _dropping(data: Array, axes: Sequence[int], positions: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """``scatter`` into data with one element more along ``axes``, which takes what is out of range and is cut off."""
    larger = np.pad(data, [(0, int(k in axes)) for k in range(data.ndim)])
    return scatter(larger, positions, updates, reduction)[tuple(slice(n) for n in data.shape)]


def _beyond(indices: Array, extent: int) -> Array:
    """Indices, with ``extent`` for those out of range."""
    wide = indices.astype(np.int64)
    return np.where((wide >= 0) & (wide < extent), wide, extent)


def scatter(data: Array, positions: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """A copy of ``data`` with ``updates`` applied at NumPy indices."""
    narrow = data.dtype != object and numeric.is_narrow_float(data)
    result, updates = (numeric.widen(x) if narrow else x for x in (data.copy(), updates))
    if reduction == "update":
        for place in np.ndindex(*np.broadcast_shapes(*(p.shape for p in positions))):
            result[tuple(np.broadcast_to(p, updates.shape[: len(place)])[place] for p in positions)] = updates[place]
        return result
    _AT["add" if reduction == "mean" else reduction](result, positions, updates)
    if reduction == "mean":
        count = np.ones(data.shape, np.int64)
        np.add.at(count, positions, 1)
        return np.asarray(result // count.astype(data.dtype) if numeric.is_integer(data) else result / count)
    return result


def decompose_mean(op: Op[Any], builder: Builder, operands: Values, field: str, attrs: Any) -> Sequence[Value] | None:
    """The mean as the sum over the number of what is summed; ``field`` names the attribute that holds the reduction."""
    if getattr(attrs, field) != "mean":
        return None
    data, indices, updates = operands
    assert data is not None and updates is not None
    add = {f.name: getattr(attrs, f.name) for f in dataclasses.fields(attrs)} | {field: "add"}
    total = builder.call(op, data, indices, updates, **add)
    ones = [builder.call("ones_like", v) for v in (data, updates)]
    count = builder.call(op, ones[0], indices, ones[1], **add)
    return [builder.call("floor_divide" if dtypes.is_integer(data.dtype) else "divide", total, count)]


@register
class ScatterElements(Op[ScatterElementsAttrs]):
    """data, with out[j] = reduction(out[j], updates[i]) for all i, where j is i but for j[axis] = indices[i].

    ``reduction``: update (replaces), add, mul, min, max, mean (of data and its updates).
    """

    name = "scatter_elements"
    data, indices, updates = Operand(), Operand(), Operand()
    kind = Kind.OPAQUE
    kernel = "scatter_elements"
    accuracy = Accuracy.ACCUMULATING
    category = Category.MOVEMENT

    def infer(self, operands: Values, attrs: ScatterElementsAttrs, regions: Regions = ()) -> Types:
        data, indices, updates = (tensor(self.name, v, o.name) for v, o in zip(operands, self.operands, strict=True))
        check_element_indices(self.name, data, indices, attrs.axis)
        expect_rank(self.name, updates, "updates", indices.rank)
        for a, b in zip(indices.shape, updates.shape, strict=True):
            unify_dim(self.name, a, b, "shapes of indices and updates")
        _check_reduction(self.name, attrs.reduction, same_dtype(self.name, [data, updates]))
        _check_range(self.name, attrs.out_of_range)
        return [data]

    def reference(self, operands: Arrays, attrs: ScatterElementsAttrs) -> Arrays:
        data, indices, updates = operands
        if attrs.out_of_range == "clamp":
            return [scatter(data, element_positions(indices, data.shape, attrs.axis), updates, attrs.reduction)]
        axis = attrs.axis % data.ndim
        places = list(np.indices(indices.shape, sparse=True))
        places[axis] = _beyond(indices, data.shape[axis])
        return [_dropping(data, [axis], tuple(places), updates, attrs.reduction)]

    def decompose(self, builder: Builder, operands: Values, attrs: ScatterElementsAttrs) -> Sequence[Value] | None:
        return decompose_mean(self, builder, operands, "reduction", attrs)


@register
class ScatterNd(Op[ScatterNdAttrs]):
    """data, with out[indices[:, y..], x..] = mode(out[indices[:, y..], x..], updates[y.., x..]) for all y and x.

    The first dimension of indices holds the index tuple. ``mode``: the reductions of scatter_elements.
    """

    name = "scatter_nd"
    data, indices, updates = Operand(), Operand(), Operand()
    kind = Kind.OPAQUE
    kernel = "scatter_nd"
    accuracy = Accuracy.ACCUMULATING
    category = Category.MOVEMENT

    def infer(self, operands: Values, attrs: ScatterNdAttrs, regions: Regions = ()) -> Types:
        data, indices, updates = (tensor(self.name, v, o.name) for v, o in zip(operands, self.operands, strict=True))
        depth = tuple_length(self.name, data, indices)
        _check_reduction(self.name, attrs.mode, same_dtype(self.name, [data, updates]))
        _check_range(self.name, attrs.out_of_range)
        self._check_updates(updates, TensorType((*indices.shape[1:], *data.shape[depth:]), data.dtype))
        return [data]

    def _check_updates(self, updates: TensorType, expected: TensorType) -> None:
        expect_rank(self.name, updates, "updates", expected.rank)
        for a, b in zip(updates.shape, expected.shape, strict=True):
            unify_dim(self.name, a, b, f"shape of updates {updates} against {expected}")

    def reference(self, operands: Arrays, attrs: ScatterNdAttrs) -> Arrays:
        data, indices, updates = operands
        if attrs.out_of_range == "clamp":
            return [scatter(data, tuple_positions(indices, data.shape), updates, attrs.mode)]
        places = tuple(_beyond(row, data.shape[k]) for k, row in enumerate(indices))
        return [_dropping(data, range(len(indices)), places, updates, attrs.mode)]

    def decompose(self, builder: Builder, operands: Values, attrs: ScatterNdAttrs) -> Sequence[Value] | None:
        return decompose_mean(self, builder, operands, "mode", attrs)


@dataclass(frozen=True)
class SparseToDenseAttrs:
    output_shape: tuple[Dim, ...] | None = None


@register
class SparseToDense(Op[SparseToDenseAttrs]):
    """A tensor of ``output_shape`` (attribute or operand) with values[n] at index sparse_indices[n], default_value (0) elsewhere.

    sparse_indices: (n, rank); (n) for rank 1. values: (n), or a scalar. Of equal indices the last one counts.
    """

    name = "sparse_to_dense"
    sparse_indices, sparse_values, default_value = Operand(), Operand(), Operand(optional=True)
    output_shape = Operand(optional=True)

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
