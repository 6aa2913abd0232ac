"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.contraction import padding, spatial_rank, window
from forge.frontends.onnx.registry import converts
from forge.ops.compose.term import Term

Ints = tuple[int, ...]


@converts("MaxPool", since=1)
def max_pool_1(
    g: Context, x: Value, *, kernel_shape: Ints, auto_pad: str = "NOTSET", pads: Ints | None = None, strides: Ints | None = None
) -> list[Value | None]:
    return max_pool(g, x, kernel_shape=kernel_shape, auto_pad=auto_pad, pads=pads, strides=strides)


@converts("MaxPool", since=8)
def max_pool(
    g: Context,
    x: Value,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    storage_order: int = 0,
    strides: Ints | None = None,
) -> list[Value | None]:
    rank = spatial_rank(g, x)
    attributes = _attributes(g, x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides)
    if not g.wants(1):
        return [g.call(f"nn.max_pool{rank}d", x, **attributes)]
    return list(g.multi(f"nn.max_pool{rank}d_with_indices", x, **attributes, column_major=bool(storage_order)))


@converts("AveragePool", since=1)
def average_pool(
    g: Context,
    x: Value,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    rank = spatial_rank(g, x)
    attributes = _attributes(g, x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides)
    return g.call(f"nn.avg_pool{rank}d", x, **attributes, count_include_pad=bool(count_include_pad))


def _attributes(
    g: Context,
    x: Value,
    kernel: Ints,
    auto_pad: str,
    ceil_mode: int,
    dilations: Ints | None,
    pads: Ints | None,
    strides: Ints | None,
) -> dict[str, Any]:
    rank = spatial_rank(g, x)
    if len(kernel) != rank or min(kernel) < 1:
        raise g.invalid(f"attribute 'kernel_shape': got {list(kernel)}; expected {rank} positive numbers")
    steps, holes = window(g, kernel, strides, dilations)
    around = padding(g, auto_pad, pads, x.shape[2:], kernel, steps, holes)
    return {"pool_size": kernel, "strides": steps, "dilation": holes, "padding": around, "ceil_mode": bool(ceil_mode)}


def _spatial_axes(x: Value) -> Ints:
    return tuple(range(2, x.rank))


@converts("GlobalAveragePool", since=1)
def global_average_pool(g: Context, x: Value) -> Value:
    return g.call("nn.global_avg_pool2d", x) if x.rank == 4 else g.call("mean", x, axis=_spatial_axes(x), keepdims=True)


@converts("GlobalMaxPool", since=1)
def global_max_pool(g: Context, x: Value) -> Value:
    return g.call("nn.global_max_pool2d", x) if x.rank == 4 else g.call("max", x, axis=_spatial_axes(x), keepdims=True)


@converts("GlobalLpPool", since=1)
def global_lp_pool(g: Context, x: Value, *, p: float = 2) -> Value:
    return _root(g, g.call("sum", _powered(g, x, p), axis=_spatial_axes(x), keepdims=True), p)


@converts("LpPool", since=1)
def lp_pool(
    g: Context,
    x: Value,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    p: float = 2,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    """The sum over a window is its average, padding included, times the size of the window."""
    attributes = _attributes(g, x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides)
    rank = spatial_rank(g, x)
    if ceil_mode:
        raise g.unsupported("attribute 'ceil_mode': got 1; supported: 0")
    mean = g.call(f"nn.avg_pool{rank}d", _powered(g, x, p), **attributes, count_include_pad=True)
    return _root(g, g.call("multiply", mean, g.scalar(float(np.prod(kernel_shape)), x)), p)


def _powered(g: Context, x: Value, p: float) -> Value:
    if p == 1:
        return g.call("abs", x)
    return g.call("multiply", x, x) if p == 2 else g.call("power", g.call("abs", x), g.scalar(p, x))


def _root(g: Context, x: Value, p: float) -> Value:
    if p == 1:
        return x
    return g.call("sqrt", x) if p == 2 else g.call("power", x, g.scalar(1 / p, x))


@converts("MaxUnpool", since=9)
def max_unpool(
    g: Context,
    x: Value,
    indices: Value,
    output_shape: Value | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    """Indices count elements of the shape that the window gives; a larger output_shape adds zeros at the ends."""
    rank = spatial_rank(g, x)
    steps, _ = window(g, kernel_shape, strides, None)
    around = padding(g, "NOTSET", pads, x.shape[2:], kernel_shape, steps, (1,) * rank)
    spatial = [
        (size - 1) * step + kernel - around[i] - around[i + rank]
        for i, (size, step, kernel) in enumerate(zip(x.shape[2:], steps, kernel_shape))
    ]
    shape = (*x.shape[:2], *spatial)
    updates = g.call("reshape", x, newshape=(-1,))
    if output_shape is None:
        zeros = g.call("full", g.scalar(0, x), shape=(dims.product(shape),))
        places = g.call("reshape", indices, newshape=(-1,))
        return g.reshape(g.call("scatter_elements", zeros, places, updates, axis=0), shape)
    count = g.reshape(g.call("prod", output_shape), (1,))
    zeros = g.call("full", g.scalar(0, x), count, shape=None)
    places = g.call("reshape", _placed(g, indices, shape, output_shape), newshape=(-1,))
    return g.call("reshape", g.call("scatter_elements", zeros, places, updates, axis=0), output_shape, newshape=None)


def _placed(g: Context, indices: Value, shape: Sequence[Dim], wanted: Value) -> Value:
    """Flat positions in a tensor of ``shape`` as flat positions in one of the shape ``wanted``."""
    rest, scale = Term(g, indices), Term(g, g.constant(1, "int64"))
    position = rest * 0
    for axis in reversed(range(len(shape))):
        size = shape[axis]
        if not isinstance(size, int):
            raise g.unsupported(f"axis {axis} has the symbolic size {size}; expected a number; fix it with shape=")
        position = position + rest.floor_mod(size) * scale
        scale = scale * Term(g, g.call("take", wanted, g.constant(axis, "int64"), axis=0))
        rest = rest.floor_divide(size)
    return position.value
