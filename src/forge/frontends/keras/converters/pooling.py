"""Pools."""

from __future__ import annotations

from typing import Any

from forge.dims import Dim
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.convolutions import SPATIAL, checked_rank, is_first, layout_of, padded, per_axis, spatial_of
from forge.frontends.keras.registry import converts
from forge.ir.nodes import Value


def pooled(
    g: Context, kind: str, x: Value, rank: int, pool_size: Any, strides: Any, padding: Any, data_format: Any
) -> Value:
    """The mean ("avg") or the largest ("max") element of each window; padding does not count."""
    checked_rank(g, x, rank)
    first = is_first(g, data_format)
    size = per_axis(g, pool_size, rank, "pool_size")
    steps = size if strides is None else per_axis(g, strides, rank, "strides")
    around = padded(g, padding, x, first, size, steps, (1,) * rank)
    options = {"count_include_pad": False} if kind == "avg" else {}
    return g.call(
        f"nn.{kind}_pool{rank}d", x, pool_size=size, strides=steps, padding=around, layout=layout_of(rank, first), **options)


def _pool(kind: str, rank: int) -> Any:
    def convert(
        g: Context, x: Value, *, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None
    ) -> Value:
        return pooled(g, kind, x, rank, pool_size, strides, padding, data_format)

    return convert


def _global(kind: str, rank: int) -> Any:
    def convert(g: Context, x: Value, *, data_format: Any = None, keepdims: bool = False) -> Value:
        checked_rank(g, x, rank)
        first = is_first(g, data_format)
        axes = tuple(range(2, x.rank) if first else range(1, x.rank - 1))
        return g.call(kind, x, axis=axes, keepdims=keepdims)

    return convert


def _masked_mean(
    g: Context, x: Value, mask: Value | None = None, *, data_format: Any = None, keepdims: bool = False
) -> Value:
    checked_rank(g, x, 1)
    axis = 2 if is_first(g, data_format) else 1
    if mask is None:
        return g.call("mean", x, axis=(axis,), keepdims=keepdims)
    counts = g.call("expand_dims", g.cast(mask, x.dtype), axis=1 if axis == 2 else 2)
    total = g.call("sum", g.call("multiply", x, counts), axis=(axis,), keepdims=keepdims)
    return g.call("divide", total, g.call("sum", counts, axis=(axis,), keepdims=keepdims))


def adaptive(kind: str, rank: int) -> Any:
    """The converter of a pool to sizes that are given."""
    def convert(g: Context, x: Value, *, output_size: Any, data_format: Any = None) -> Value:
        checked_rank(g, x, rank)
        first = is_first(g, data_format)
        size = output_size if isinstance(output_size, tuple) else (output_size,) * rank
        spatial = spatial_of(x, first)
        wanted: list[Dim] = [s if n is None else n for s, n in zip(spatial, size)]
        return g.call(f"nn.adaptive_{kind}_pool{rank}d", x, output_size=tuple(wanted), layout=layout_of(rank, first))

    return convert


for _rank in SPATIAL:
    for _kind, _names in (("avg", ("AveragePooling", "AvgPool")), ("max", ("MaxPooling", "MaxPool"))):
        converts(*(f"{name}{_rank}D" for name in _names))(_pool(_kind, _rank))
        converts(f"Adaptive{_names[0]}{_rank}D")(adaptive(_kind, _rank))
    _average = (f"GlobalAveragePooling{_rank}D", f"GlobalAvgPool{_rank}D")
    converts(*_average)(_masked_mean if _rank == 1 else _global("mean", _rank))
    converts(f"GlobalMaxPooling{_rank}D", f"GlobalMaxPool{_rank}D")(_global("max", _rank))
