"""Range."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype


@converts("Range", since=11)
def range_11(g: Context, start: Value, limit: Value, delta: Value) -> Value:
    start, limit, delta = (g.reshape(v, ()) for v in (start, limit, delta))
    return g.call("arange", start, limit, delta, dtype=start.dtype)


@converts("Range", since=27)
def range_27(g: Context, start: Value, limit: Value, delta: Value, *, stash_type: int = 1) -> Value:
    if start.dtype not in ("float16", "bfloat16"):
        return range_11(g, start, limit, delta)
    wide = element_dtype(stash_type, "attribute 'stash_type'")
    return g.cast(range_11(g, *(g.cast(v, wide) for v in (start, limit, delta))), start.dtype)
