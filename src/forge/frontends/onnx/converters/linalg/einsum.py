"""Einsum."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("Einsum", since=12)
def einsum(g: Context, *operands: Value, equation: str) -> Value:
    return g.call("einsum", *operands, equation=equation)
