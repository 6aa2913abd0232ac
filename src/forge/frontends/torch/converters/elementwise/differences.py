"""Differences of neighbours, and weights that are given as directions and lengths."""

from __future__ import annotations

from forge.compose import axes
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("diff.default")
def diff(
    g: Context, self: Value, prepend: Value | None = None, append: Value | None = None, *, n: int = 1, dim: int = -1
) -> Value:
    if n == 0:  # of which torch returns the tensor alone
        return self
    axis = g.axis(dim, self.rank, "dim")
    parts = [g.cast(value, g.dtype) for value in (prepend, self, append) if value is not None]
    return axes.diff(g, parts[0] if len(parts) == 1 else g.call("concatenate", *parts, axis=axis), n, axis)


@converts("_weight_norm.default")
def weight_norm(g: Context, v: Value, g_: Value, *, dim: int = 0) -> Value:
    """``v``, whose slices along ``dim`` get the lengths ``g_``; dim -1: all of it is one slice."""
    others = tuple(axis for axis in range(v.rank) if dim == -1 or axis != g.axis(dim, v.rank, "dim"))
    length = g.call("sqrt", g.call("sum", g.call("multiply", v, v), axis=others, keepdims=True))
    return g.call("multiply", v, g.call("divide", g_, length))
