"""Det."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("Det", since=11)
def determinant(g: Context, x: Value) -> Value:
    return g.call("linalg.determinant", x)
