"""EyeLike."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype


@converts("EyeLike", since=9)
def eye_like(g: Context, x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    if x.rank != 2:
        raise g.invalid(f"got rank {x.rank}; expected a matrix")
    return g.cast(diagonal_mask(g, x, 0, 1, k), x.dtype if dtype is None else element_dtype(dtype, "attribute 'dtype'"))


def diagonal_mask(g: Context, x: Value, first: int, second: int, k: int = 0) -> Value:
    """Whether the index along axis ``second`` is that along ``first`` plus k, in a shape that broadcasts against ``x``."""
    shapes = [[x.shape[axis] if i == axis else 1 for i in range(x.rank)] for axis in (first, second)]
    rows, columns = (g.reshape(_positions(g, x, axis), shape) for axis, shape in zip((first, second), shapes))
    return g.call("equal", g.call("add", rows, g.constant(k, "int64")), columns)


def _positions(g: Context, x: Value, axis: int) -> Value:
    """0, 1, ... along ``axis`` of ``x``."""
    return g.count(g.extent(x, axis))
