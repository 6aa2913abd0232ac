"""OneHot."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("OneHot", since=9)
def one_hot(g: Context, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """``values`` holds the off value and the on value; negative indices count from the end, others beyond ``depth`` give off."""
    place = g.axis(axis, indices.rank + 1)
    wide = g.cast(indices, "int64")
    off, on = (g.reshape(v, ()) for v in g.multi("split", values, indices_or_sections=2, axis=0))
    known = g.dims(g.cast(depth, "int64"))
    if known is not None:
        return g.call("one_hot", wide, on, off, depth=known[0], axis=place, dtype=values.dtype)
    count = g.reshape(g.cast(depth, "int64"), ())
    return g.call("one_hot", wide, on, off, count, depth=None, axis=place, dtype=values.dtype)
