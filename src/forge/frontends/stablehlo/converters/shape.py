"""Operations that move elements: shapes, slices, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.registry import converts
from forge.ir.nodes import Value

Ints = tuple[int, ...]
MAX_CONSTANT = 4096
"""Elements of repeated numbers that are stored."""


@converts("constant")
@converts("constant", domain="chlo")
def constant(g: Context, *, value: Any) -> Value:
    array = np.asarray(value)
    if array.size > MAX_CONSTANT and not any(array.strides):
        return g.filled(g.constant(array.flat[0].reshape(())), "", array.shape)
    return g.constant(array)


@converts("iota")
def iota(g: Context, *, iota_dimension: int) -> Value:
    return _iota(g, g.shape(), iota_dimension, None)


@converts("dynamic_iota")
def dynamic_iota(g: Context, output_shape: Value, *, iota_dimension: int) -> Value:
    shape = g.dims(output_shape)
    if shape is None:
        size = g.call("take", output_shape, g.constant(iota_dimension, "int64"), axis=0)
        numbers = g.cast(g.count(g.cast(size, "int64")), g.result_type().dtype)
        return _repeated(g, numbers, (iota_dimension,), output_shape)
    return _iota(g, shape, iota_dimension, output_shape)


def _iota(g: Context, shape: Sequence[Dim], axis: int, sizes: Value | None) -> Value:
    if not 0 <= axis < len(shape):
        raise g.invalid(f"iota_dimension: got {axis}; expected 0 to {len(shape) - 1}")
    dtype, count = g.result_type().dtype, shape[axis]
    if isinstance(count, int) and count <= MAX_CONSTANT:
        numbers = g.constant(np.arange(count), dtype)
    else:
        stop = g.constant(count, "int64") if isinstance(count, int) else g.scope.size(g, count)
        numbers = g.cast(g.count(stop, count), dtype)
    return broadcast_into(g, numbers, (axis,), shape)


@converts("broadcast_in_dim")
def broadcast_in_dim(g: Context, operand: Value, *, broadcast_dimensions: Ints) -> Value:
    declared = g.result_type().shape
    sizes = {axis: operand.shape[k] for k, axis in enumerate(broadcast_dimensions)}
    shape = [sizes.get(axis, 1) if size is None else size for axis, size in enumerate(declared)]
    return broadcast_into(g, operand, broadcast_dimensions, shape)


@converts("broadcast")
def broadcast(g: Context, operand: Value, *, broadcast_sizes: Ints) -> Value:
    added = len(broadcast_sizes)
    return broadcast_into(g, operand, tuple(range(added, added + operand.rank)), (*broadcast_sizes, *operand.shape))


def broadcast_into(g: Context, value: Value, axes: Sequence[int], shape: Sequence[Dim]) -> Value:
    """``value``, whose dimensions are ``axes`` of the result, with the sizes ``shape``."""
    if len(axes) != value.rank or len(set(axes)) != len(axes) or not all(0 <= axis < len(shape) for axis in axes):
        raise g.invalid(f"broadcast_dimensions: got {tuple(axes)} for {value.type}; expected a dimension of the result for each")
    order = sorted(range(value.rank), key=lambda k: axes[k])
    sizes = {axes[k]: value.shape[k] for k in order}
    spread = g.reshape(g.moved(value, order), [sizes.get(axis, 1) for axis in range(len(shape))])
    return g.broadcast(spread, shape)


@converts("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(
    g: Context, operand: Value, output_dimensions: Value, *, broadcast_dimensions: Ints,
    known_expanding_dimensions: Ints | None = None, known_nonexpanding_dimensions: Ints | None = None,
) -> Value:
    shape = g.dims(output_dimensions)
    if shape is None:
        return _repeated(g, operand, broadcast_dimensions, output_dimensions)
    return broadcast_into(g, operand, broadcast_dimensions, shape)


def _repeated(g: Context, value: Value, axes: Sequence[int], sizes: Value) -> Value:
    """`broadcast_into` a shape that is computed at run time."""
    rank = len(g.result_type().shape)
    if sizes.shape != (rank,):
        raise g.invalid(f"output_dimensions: got {sizes.type}; expected a vector of {rank}, the rank of the result")
    spread = broadcast_into(g, value, axes, [value.shape[axes.index(k)] if k in axes else 1 for k in range(rank)])
    return g.call("broadcast_to", spread, g.cast(sizes, "int64"))


@converts("reshape")
def reshape(g: Context, operand: Value) -> Value:
    if g.scope.by_element and not g.result_type().shape:
        return operand
    return g.reshape(operand, g.shape())


@converts("dynamic_reshape")
def dynamic_reshape(g: Context, operand: Value, output_shape: Value) -> Value:
    shape = g.dims(output_shape)
    return g.call("reshape", operand, g.cast(output_shape, "int64")) if shape is None else g.reshape(operand, shape)


@converts("get_dimension_size")
def get_dimension_size(g: Context, operand: Value, *, dimension: int) -> Value:
    return g.extent(operand, g.axis(dimension, operand.rank, "dimension"), "int32")


@converts("set_dimension_size")
def set_dimension_size(g: Context, operand: Value, size: Value, *, dimension: int) -> Value:
    """The first elements along a dimension."""
    axis, known = g.axis(dimension, operand.rank, "dimension"), g.dims(size)
    if known is not None:
        return sliced(g, operand, (0,) * operand.rank, [*operand.shape[:axis], known[0], *operand.shape[axis + 1:]],
                      (1,) * operand.rank)
    end = g.reshape(g.cast(size, "int64"), (1,))
    return g.call("strided_slice", operand, g.constant([0], "int64"), end, g.constant([1], "int64"), axes=(axis,))


@converts("transpose")
def transpose(g: Context, operand: Value, *, permutation: Ints) -> Value:
    return g.moved(operand, permutation)


@converts("reverse")
def reverse(g: Context, operand: Value, *, dimensions: Ints) -> Value:
    for axis in dimensions:
        operand = g.call("reverse", operand, axis=axis)
    return operand


@converts("concatenate")
def concatenate(g: Context, *inputs: Value, dimension: int) -> Value:
    return inputs[0] if len(inputs) == 1 else g.call("concatenate", *inputs, axis=dimension)


@converts("slice")
def slice_(g: Context, operand: Value, *, start_indices: Ints, limit_indices: Ints, strides: Ints | None = None) -> Value:
    return sliced(g, operand, start_indices, limit_indices, strides or (1,) * operand.rank)


def sliced(g: Context, value: Value, begin: Sequence[Dim], end: Sequence[Dim], strides: Sequence[int]) -> Value:
    """The elements from ``begin`` to ``end``, each ``strides``-th."""
    whole = zip(value.shape, begin, end, strides, strict=True)
    if all(b == 0 and dims.equal(e, size) and s == 1 for size, b, e, s in whole):
        return value
    return g.call("strided_slice", value, begin=tuple(begin), end=tuple(end), strides=tuple(strides))


@converts("real_dynamic_slice")
def real_dynamic_slice(g: Context, operand: Value, start_indices: Value, limit_indices: Value, strides: Value) -> Value:
    begin, end, steps = g.ints(start_indices), g.dims(limit_indices), g.ints(strides)
    if begin is not None and end is not None and steps is not None and dims.is_static(*end):
        return sliced(g, operand, begin, end, steps)
    return g.call("strided_slice", operand, *(g.cast(v, "int64") for v in (start_indices, limit_indices, strides)))


@converts("dynamic_slice")
def dynamic_slice(g: Context, operand: Value, *start_indices: Value, slice_sizes: Ints) -> Value:
    return window(g, operand, g.vector_of(start_indices), slice_sizes)


def window(g: Context, value: Value, start: Value, sizes: Sequence[Dim]) -> Value:
    """``sizes`` elements from ``start`` on, which is moved so that they lie inside."""
    known = g.ints(start)
    if known is not None and dims.is_static(*value.shape, *sizes):
        begin = [max(min(b, size - n), 0) for b, size, n in zip(known, value.shape, sizes)]
        return sliced(g, value, begin, [b + n for b, n in zip(begin, sizes)], (1,) * value.rank)
    if all(dims.equal(a, b) for a, b in zip(value.shape, sizes)):
        return value
    return g.call("dynamic_slice", value, start, slice_sizes=tuple(sizes))


@converts("dynamic_update_slice")
def dynamic_update_slice(g: Context, operand: Value, update: Value, *start_indices: Value) -> Value:
    if not start_indices or all(dims.equal(a, b) for a, b in zip(operand.shape, update.shape)):
        return update
    return g.call("dynamic_update_slice", operand, update, g.vector_of(start_indices))


@converts("pad")
def pad(
    g: Context, operand: Value, padding_value: Value, *, edge_padding_low: Ints, edge_padding_high: Ints, interior_padding: Ints
) -> Value:
    return padded(g, operand, padding_value, edge_padding_low, edge_padding_high, interior_padding)


def padded(
    g: Context, value: Value, element: Value, low: Sequence[Dim], high: Sequence[Dim], interior: Sequence[int]
) -> Value:
    """``value`` with ``interior`` elements between neighbours, and ``low`` and ``high`` ones (negative: less) at the ends."""
    if any(interior):
        value = g.call("nn.dilate", value, element, strides=tuple(n + 1 for n in interior))
    widths = tuple(zip(low, high, strict=True))
    return g.call("nn.pad", value, element, pad_width=widths) if any(n for pair in widths for n in pair) else value


@converts("dynamic_pad")
def dynamic_pad(
    g: Context, operand: Value, padding_value: Value, edge_padding_low: Value, edge_padding_high: Value, interior_padding: Value
) -> Value:
    interior = g.required_ints(interior_padding, "interior_padding")
    low, high = g.dims(edge_padding_low), g.dims(edge_padding_high)
    if low is not None and high is not None:
        return padded(g, operand, padding_value, low, high, interior)
    inner = padded(g, operand, padding_value, (0,) * operand.rank, (0,) * operand.rank, interior)
    widths = [g.cast(g.reshape(v, (operand.rank, 1)), "int64") for v in (edge_padding_low, edge_padding_high)]
    return g.call("nn.pad", inner, padding_value, g.call("concatenate", *widths, axis=1))


@converts("optimization_barrier")
def optimization_barrier(g: Context, *operand: Value) -> list[Value]:
    return list(operand)
