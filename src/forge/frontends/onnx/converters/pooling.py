"""Pooling."""

from __future__ import annotations

from typing import Any

from forge.compose import windows
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.contraction import padding, spatial_rank, window
from forge.frontends.onnx.registry import converts

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


@converts("GlobalAveragePool", since=1)
def global_average_pool(g: Context, x: Value) -> Value:
    return windows.global_pool(g, x, "avg")


@converts("GlobalMaxPool", since=1)
def global_max_pool(g: Context, x: Value) -> Value:
    return windows.global_pool(g, x, "max")


@converts("GlobalLpPool", since=1)
def global_lp_pool_1(g: Context, x: Value, *, p: float = 2.0) -> Value:
    return windows.global_lp_pool(g, x, p)


@converts("GlobalLpPool", since=2)
def global_lp_pool(g: Context, x: Value, *, p: int = 2) -> Value:
    return windows.global_lp_pool(g, x, p)


@converts("LpPool", since=1)
def lp_pool_1(
    g: Context,
    x: Value,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    p: float = 2.0,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    return windows.lp_pool(g, x, p, **_attributes(g, x, kernel_shape, auto_pad, 0, None, pads, strides))


@converts("LpPool", since=2)
def lp_pool(
    g: Context,
    x: Value,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    p: int = 2,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    return windows.lp_pool(g, x, p, **_attributes(g, x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides))


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
    return windows.max_unpool(g, x, indices, (*x.shape[:2], *spatial), output_shape)
