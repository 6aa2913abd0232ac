"""Pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forge.compose import pooling
from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.core.windows import PoolAttributes, spatial_rank
from forge.frontends.onnx.registry import converts


@dataclass(frozen=True, kw_only=True)
class MaxPoolAttributes(PoolAttributes):
    storage_order: int = 0


@dataclass(frozen=True, kw_only=True)
class AveragePoolAttributes(PoolAttributes):
    count_include_pad: int = 0


@converts("MaxPool", introduced={"ceil_mode": 8, "dilations": 8, "storage_order": 8})
def max_pool(g: Context, x: Value, *, attrs: MaxPoolAttributes) -> list[Value]:
    rank, pool = spatial_rank(g, x), _pool(g, x, attrs)
    if not g.wants(1):
        return [g.call(f"nn.max_pool{rank}d", x, **pool)]
    return g.multi(f"nn.max_pool{rank}d_with_indices", x, **pool, column_major=bool(attrs.storage_order))


@converts("AveragePool", since=1)
def average_pool(g: Context, x: Value, *, attrs: AveragePoolAttributes) -> Value:
    op = f"nn.avg_pool{spatial_rank(g, x)}d"
    return g.call(op, x, **_pool(g, x, attrs), count_include_pad=bool(attrs.count_include_pad))


def _pool(g: Context, x: Value, attrs: PoolAttributes) -> dict[str, Any]:
    rank, kernel = spatial_rank(g, x), attrs.kernel_shape
    if len(kernel) != rank or min(kernel) < 1:
        raise g.invalid(f"attribute 'kernel_shape': got {list(kernel)}; expected {rank} positive numbers")
    strides, dilations, pads = attrs.window(g, x, kernel)
    ceil_mode = bool(attrs.ceil_mode)
    return {"pool_size": kernel, "strides": strides, "dilation": dilations, "padding": pads, "ceil_mode": ceil_mode}


@converts("GlobalAveragePool", since=1)
def global_average_pool(g: Context, x: Value) -> Value:
    return pooling.global_pool(g, x, "avg")


@converts("GlobalMaxPool", since=1)
def global_max_pool(g: Context, x: Value) -> Value:
    return pooling.global_pool(g, x, "max")


converts("GlobalLpPool", since=1)(forwarding(pooling.global_lp_pool, p=2.0))
converts("GlobalLpPool", since=2)(forwarding(pooling.global_lp_pool, p=2))


@converts("LpPool", since=1, lacks=("ceil_mode", "dilations"))
def lp_pool_1(g: Context, x: Value, *, p: float = 2.0, attrs: PoolAttributes) -> Value:
    return pooling.lp_pool(g, x, p, **_pool(g, x, attrs))


@converts("LpPool", since=2)
def lp_pool(g: Context, x: Value, *, p: int = 2, attrs: PoolAttributes) -> Value:
    return pooling.lp_pool(g, x, p, **_pool(g, x, attrs))


@converts("MaxUnpool", since=9, lacks=("auto_pad", "dilations", "ceil_mode"))
def max_unpool(g: Context, x: Value, indices: Value, output_shape: Value | None = None, *, attrs: PoolAttributes) -> Value:
    """Indices count elements of the result, as those of the MaxPool do that it undoes, and as onnxruntime and torch take them.

    Those that are an input of the model count elements of the shape that the window gives, as the standard's example has it; a
    larger output_shape then adds zeros at the ends.
    """
    rank, sizes = spatial_rank(g, x), attrs.kernel_shape
    strides, _, pads = attrs.window(g, x, sizes)
    spatial = [
        (size - 1) * stride + kernel - pads[i] - pads[i + rank]
        for i, (size, stride, kernel) in enumerate(zip(x.shape[2:], strides, sizes))
    ]
    shape = (*x.shape[:2], *spatial)
    return pooling.max_unpool(g, x, indices, shape, output_shape, moves=indices.producer is None or indices.constant is not None)
