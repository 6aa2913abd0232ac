"""Trilu."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("Trilu", since=14)
def trilu(g: Context, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    return g.call("trilu", x, g.constant(0, "int64") if k is None else k, upper=bool(upper))
