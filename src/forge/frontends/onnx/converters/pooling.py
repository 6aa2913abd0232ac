"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
    g: Context, x: Value, kernel: Ints, auto_pad: str, ceil_mode: int, dilations: Ints | None, pads: Ints | None, strides: Ints | None
) -> dict[str, object]:
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
    g: Context, x: Value, indices: Value, output_shape: Value | None = None, *, kernel_shape: Ints,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Value:
    rank = spatial_rank(g, x)
    steps, _ = window(g, kernel_shape, strides, None)
    around = padding(g, "NOTSET", pads, x.shape[2:], kernel_shape, steps, (1,) * rank)
    natural = [
        (size - 1) * step + kernel - around[i] - around[i + rank]
        for i, (size, step, kernel) in enumerate(zip(x.shape[2:], steps, kernel_shape))
    ]
    shape = (*x.shape[:2], *natural)
    wanted = shape if output_shape is None else g.required_ints(output_shape, "output_shape")
    return _scattered(g, x, _placed(g, indices, shape, wanted), wanted)


def _placed(g: Context, indices: Value, shape: Sequence[object], wanted: Sequence[object]) -> Value:
    """Flat positions in a tensor of ``shape`` as flat positions in one of ``wanted``, which is larger at the ends."""
    if tuple(shape) == tuple(wanted):
        return indices
    rest, position, scale = indices, g.constant(0, "int64"), 1
    for size, target in reversed(list(zip(shape, wanted))):
        if not isinstance(size, int) or not isinstance(target, int):
            raise g.unsupported("output_shape with symbolic sizes; expected numbers; fix them with shape=")
        index = g.call("floor_mod", rest, g.constant(size, "int64"))
        position = g.call("add", position, g.call("multiply", index, g.constant(scale, "int64")))
        rest, scale = g.call("floor_divide", rest, g.constant(size, "int64")), scale * target
    return position


def _scattered(g: Context, x: Value, positions: Value, shape: Sequence[object]) -> Value:
    flat_shape = int(np.prod([d if isinstance(d, int) else -1 for d in shape]))
    if flat_shape < 0:
        raise g.unsupported("symbolic sizes; expected numbers; fix them with shape=")
    zeros = g.call("full", g.scalar(0, x), shape=(flat_shape,))
    updates, where = (g.call("reshape", v, newshape=(-1,)) for v in (x, positions))
    return g.reshape(g.call("scatter_elements", zeros, where, updates, axis=0, reduction="update"), tuple(shape))  # type: ignore[arg-type]


@converts("MaxRoiPool", since=1)
def max_roi_pool(g: Context, x: Value, rois: Value, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Value:
    return g.call("vision.roi_pool", x, rois, pooled_size=pooled_shape, spatial_scale=spatial_scale)


@converts("RoiAlign", since=10)
def roi_align_10(
    g: Context, x: Value, rois: Value, batch: Value, *, mode: str = "avg", output_height: int = 1, output_width: int = 1,
    sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Value:
    return _roi_align(g, x, rois, batch, mode, (output_height, output_width), sampling_ratio, spatial_scale, "output_half_pixel")


@converts("RoiAlign", since=16)
def roi_align(
    g: Context, x: Value, rois: Value, batch: Value, *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Value:
    size = (output_height, output_width)
    return _roi_align(g, x, rois, batch, mode, size, sampling_ratio, spatial_scale, coordinate_transformation_mode)


def _roi_align(
    g: Context, x: Value, rois: Value, batch: Value, mode: str, size: Ints, ratio: int, scale: float, coordinates: str
) -> Value:
    """The operator wants the batch number in front of the corners."""
    numbered = g.call("concatenate", g.cast(g.reshape(batch, (batch.shape[0], 1)), rois.dtype), rois, axis=1)
    return g.call(
        "vision.roi_align", x, numbered, pooled_size=size, spatial_scale=scale, sample_ratio=ratio, mode=mode,
        half_pixel=coordinates == "half_pixel",
    )
