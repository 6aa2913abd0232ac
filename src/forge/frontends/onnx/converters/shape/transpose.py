"""Transpose."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("Transpose", since=1)
def transpose(g: Context, x: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    axes = tuple(reversed(range(x.rank))) if perm is None else perm
    return g.call("transpose", x, axes=axes)
