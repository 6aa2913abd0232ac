"""Operators that write by index: scatter_elements and scatter_nd.

``out_of_range`` "clamp": indices out of range are moved to the nearest element, after negative ones were counted from the
end; "drop": their updates, and those of negative ones, are left out. Updates are applied in row-major order of the indices;
with reduction "update" the last one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_rank, fail, given_numbers, same_dtype, shape_of_contents, unify_dim
from forge.ops.core.lowering import element, new_symbols
from forge.ops.core.op import Accuracy, Category, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, Symbols, Tensor, TensorType, TensorTypes, Types, Value, Values
from forge.ops.index.gather import check_element_indices, element_positions, tuple_length, tuple_positions

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
    rounds = data.dtype != object and reduction != "update"
    result, updates = (numeric.widest(x) if rounds else x for x in (data.copy(), updates))
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


# Sums are wider in tensors that get this many updates for each element.
MANY_UPDATES = 256
# So are those in tensors of few elements, which stay in a core's cache in wider numbers, unless updates are few, too.
FEW_ELEMENTS = 1 << 14
FEW_UPDATES = 4096


def gets_many(data: Value, updates: Value) -> bool:
    """Whether sums of ``updates`` in ``data`` are in wider numbers, as many may meet in an element."""
    sizes = data.size, updates.size
    if data.dtype not in dtypes.WIDER or not isinstance(sizes[0], int):
        return False
    is_small = sizes[0] <= FEW_ELEMENTS
    if not isinstance(sizes[1], int):
        return is_small
    return sizes[1] >= MANY_UPDATES * sizes[0] or is_small and sizes[1] > FEW_UPDATES


def decompose_reduction(
    op: Op[Any], builder: Builder, attrs: Any, field: str, data: Value, indices: Value, updates: Value
) -> Values | None:
    """The mean is the sum divided by the number of terms; sums of many terms are computed in a wider type.

    ``field`` names the attribute that holds the reduction.
    """
    reduction = getattr(attrs, field)
    if reduction in ("add", "mul") and gets_many(data, updates):
        start, added = (builder.call("cast", value, dtype=dtypes.WIDER[data.dtype]) for value in (data, updates))
        return [builder.call("cast", builder.call(op, start, indices, added, **vars(attrs)), dtype=data.dtype)]
    if reduction != "mean":
        return None
    add = {**vars(attrs), field: "add"}
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
    data, indices, updates = Operand(), Operand(accepts="index"), Operand()
    kernel = "scatter_elements"
    accuracy = Accuracy.ACCUMULATING
    category = Category.MOVEMENT

    def infer(self, attrs: ScatterElementsAttrs, data: Value, indices: Value, updates: Value) -> Types:
        check_element_indices(self.name, data, indices, attrs.axis)
        expect_rank(self.name, updates.tensor_type, "updates", indices.rank)
        for a, b in zip(indices.shape, updates.shape, strict=True):
            unify_dim(self.name, a, b, "shapes of indices and updates")
        _check_reduction(self.name, attrs.reduction, same_dtype(self.name, [data, updates]))
        _check_range(self.name, attrs.out_of_range)
        return [data.type]

    def reference(self, attrs: ScatterElementsAttrs, data: Array, indices: Array, updates: Array) -> Arrays:
        if attrs.out_of_range == "clamp":
            return [scatter(data, element_positions(indices, data.shape, attrs.axis), updates, attrs.reduction)]
        axis = attrs.axis % data.ndim
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[axis] = _beyond(indices, data.shape[axis])
        return [_dropping(data, [axis], tuple(places), updates, attrs.reduction)]

    def is_update(self, attrs: ScatterElementsAttrs, rank: int) -> bool:
        return True

    def decompose(
        self, builder: Builder, attrs: ScatterElementsAttrs, data: Value, indices: Value, updates: Value
    ) -> Values | None:
        return decompose_reduction(self, builder, attrs, "reduction", data, indices, updates)


@register
class ScatterNd(Op[ScatterNdAttrs]):
    """data, with out[indices[:, y..], x..] = mode(out[indices[:, y..], x..], updates[y.., x..]) for all y and x.

    The first dimension of indices holds the index tuple. ``mode``: the reductions of scatter_elements.
    """

    name = "scatter_nd"
    data, indices, updates = Operand(), Operand(accepts="index"), Operand()
    kernel = "scatter_nd"
    accuracy = Accuracy.ACCUMULATING
    category = Category.MOVEMENT

    def infer(self, attrs: ScatterNdAttrs, data: Value, indices: Value, updates: Value) -> Types:
        depth = tuple_length(self.name, data, indices)
        _check_reduction(self.name, attrs.mode, same_dtype(self.name, [data, updates]))
        _check_range(self.name, attrs.out_of_range)
        self._check_updates(updates, TensorType((*indices.shape[1:], *data.shape[depth:]), data.dtype))
        return [data.type]

    def _check_updates(self, updates: Value, expected: TensorType) -> None:
        expect_rank(self.name, updates.tensor_type, "updates", expected.rank)
        for a, b in zip(updates.shape, expected.shape, strict=True):
            unify_dim(self.name, a, b, f"shape of updates {updates.type} against {expected}")

    def reference(self, attrs: ScatterNdAttrs, data: Array, indices: Array, updates: Array) -> Arrays:
        if attrs.out_of_range == "clamp":
            return [scatter(data, tuple_positions(indices, data.shape), updates, attrs.mode)]
        places = tuple(_beyond(row, data.shape[k]) for k, row in enumerate(indices))
        return [_dropping(data, range(len(indices)), places, updates, attrs.mode)]

    def is_update(self, attrs: ScatterNdAttrs, rank: int) -> bool:
        return True

    def decompose(self, builder: Builder, attrs: ScatterNdAttrs, data: Value, indices: Value, updates: Value) -> Values | None:
        return decompose_reduction(self, builder, attrs, "mode", data, indices, updates)


@dataclass(frozen=True)
class SparseToDenseAttrs:
    output_shape: tuple[Dim, ...] | None = None


@register
class SparseToDense(Op[SparseToDenseAttrs]):
    """A tensor of ``output_shape`` (attribute or operand) with values[n] at index sparse_indices[n], default_value (0) elsewhere.

    sparse_indices: (n, rank); (n) for rank 1. values: (n), or a scalar. Of equal indices the last one counts.
    """

    name = "sparse_to_dense"
    sparse_indices, sparse_values = Operand(accepts="index", rank=(1, 2)), Operand(rank=(0, 1))
    default_value = Operand(optional=True)
    output_shape = Operand(optional=True)

    def infer(
        self,
        attrs: SparseToDenseAttrs,
        sparse_indices: Value,
        sparse_values: Value,
        default_value: Value | None,
        output_shape: Value | None,
    ) -> Types:
        if sparse_values.rank:
            unify_dim(self.name, sparse_values.shape[0], sparse_indices.shape[0], "number of sparse_values")
        if default_value is not None:
            same_dtype(self.name, [sparse_values, default_value])
        shape = shape_of_contents(self.name, "output_shape", attrs.output_shape, output_shape, "dense")
        depth: Dim = sparse_indices.shape[1] if sparse_indices.rank == 2 else 1
        unify_dim(self.name, depth, len(shape), "length of an index")
        return [TensorType(shape, sparse_values.dtype)]

    def reference(
        self,
        attrs: SparseToDenseAttrs,
        sparse_indices: Array,
        sparse_values: Array,
        default_value: Array | None,
        output_shape: Array | None,
    ) -> Arrays:
        sizes = given_numbers(attrs.output_shape, output_shape)
        fill = np.zeros((), sparse_values.dtype) if default_value is None else default_value.reshape(())
        result = np.broadcast_to(fill, sizes).copy()
        rows = sparse_indices.reshape(len(sparse_indices), -1)
        for row, value in zip(rows, np.broadcast_to(sparse_values, len(rows)), strict=True):
            wrapped = [int(k) + e if k < 0 else int(k) for k, e in zip(row, result.shape, strict=True)]
            result[tuple(min(max(k, 0), e - 1) for k, e in zip(wrapped, result.shape, strict=True))] = value
        return [result]

    def define_symbols(
        self,
        attrs: SparseToDenseAttrs,
        results: TensorTypes,
        sparse_indices: Tensor,
        sparse_values: Tensor,
        default_value: Tensor | None,
        output_shape: Tensor | None,
    ) -> Symbols:
        if attrs.output_shape is not None or output_shape is None:
            return {}
        return new_symbols(results[0], [element(output_shape, k) for k in range(results[0].rank)])

    def decompose(
        self,
        builder: Builder,
        attrs: SparseToDenseAttrs,
        sparse_indices: Value,
        sparse_values: Value,
        default_value: Value | None,
        output_shape: Value | None,
    ) -> Values:
        values = sparse_values
        assert values is not None
        fill = builder.constant(0, values.dtype) if default_value is None else default_value
        dense = builder.call("full", fill, None if attrs.output_shape is not None else output_shape, shape=attrs.output_shape)
        rows = sparse_indices if sparse_indices.rank == 2 else builder.call("expand_dims", sparse_indices, axis=1)
        columns = builder.call("transpose", rows, axes=(1, 0))
        if not values.rank:
            values = builder.call("broadcast_to", values, shape=(sparse_indices.shape[0],))
        return [builder.call("scatter_nd", dense, builder.call("cast", columns, dtype="int64"), values)]
