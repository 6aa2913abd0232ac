"""Caches of keys and values."""

from __future__ import annotations

from forge.compose.caching import cache_update
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("TensorScatter", since=24)
def tensor_scatter(
    g: Context, past: Value, update: Value, write_indices: Value | None = None, *, axis: int = -2, mode: str = "linear"
) -> Value:
    if mode not in ("linear", "circular"):
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected linear or circular")
    return cache_update(g, past, update, write_indices, axis=axis, circular=mode == "circular")
