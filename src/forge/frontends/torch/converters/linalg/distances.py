"""Distances between rows, and cross products."""

from __future__ import annotations

import math

import numpy as np

from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def _norm(g: Context, difference: Value, p: float) -> Value:
    """The ``p``-norm along the last axis."""
    sizes, last = g.call("abs", difference), (difference.rank - 1,)
    if p == 0:
        return g.cast(g.call("count_nonzero", sizes, axis=last), difference.dtype)
    if p == 1:
        return g.call("sum", sizes, axis=last)
    if math.isinf(p):
        return g.call("max", sizes, axis=last)
    if p == 2:
        return g.call("sqrt", g.call("sum", g.call("multiply", sizes, sizes), axis=last))
    total = g.call("sum", g.call("power", sizes, g.constant(p, sizes.dtype)), axis=last)
    return g.call("power", total, g.constant(1 / p, sizes.dtype))


@converts("cdist.default", "_cdist_forward.default")
def cdist(g: Context, x1: Value, x2: Value, *, p: float = 2.0, compute_mode: int | None = None) -> Value:
    if 0 in (*x1.shape, *x2.shape):
        return g.call("broadcast_to", g.constant(0, g.dtype), shape=g.shape)
    a, b = g.call("expand_dims", x1, axis=x1.rank - 1), g.call("expand_dims", x2, axis=x2.rank - 2)
    return _norm(g, g.call("subtract", a, b), p)


@converts("_pdist_forward.default", "pdist.default")
def pdist(g: Context, self: Value, *, p: float = 2.0) -> Value:
    """Of each row to those after it."""
    count = self.shape[0]
    if not isinstance(count, int):
        raise g.unsupported(f"pdist: got {count} rows; supported: a number of rows that is fixed")
    if count < 2 or 0 in self.shape:
        return g.call("broadcast_to", g.constant(0, self.dtype), shape=g.shape)
    rows, others = np.triu_indices(count, 1)
    a, b = (g.call("take", self, g.constant(k, "int64"), axis=0) for k in (rows, others))
    return _norm(g, g.call("subtract", a, b), p)


@converts("linalg_cross.default", "cross.default")
def cross(g: Context, self: Value, other: Value, *, dim: int | None = -1) -> Value:
    """Without ``dim`` along the first axis of size 3."""
    axis = self.shape.index(3) if dim is None else g.axis(dim, max(self.rank, other.rank), "dim")

    def turned(value: Value, by: int) -> Value:
        return g.call("roll", value, shift=(by,), axis=(axis,))

    a, b = (v if v.shape == g.shape else g.call("broadcast_to", v, shape=g.shape) for v in (self, other))
    return g.call("subtract", g.call("multiply", turned(a, -1), turned(b, -2)), g.call("multiply", turned(a, -2), turned(b, -1)))
