"""Distances between rows, and cross products."""

from __future__ import annotations

from forge.compose import distances
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("cdist.default", "_cdist_forward.default")
def cdist(g: Context, x1: Value, x2: Value, *, p: float = 2.0, compute_mode: int | None = None) -> Value:
    if 0 in (*x1.shape, *x2.shape):
        return g.call("broadcast_to", g.constant(0, g.dtype), shape=g.shape)
    return distances.cdist(g, x1, x2, p)


@converts("_pdist_forward.default", "pdist.default")
def pdist(g: Context, self: Value, *, p: float = 2.0) -> Value:
    """Of each row to those after it."""
    if 0 in self.shape or self.shape[0] == 1:
        return g.call("broadcast_to", g.constant(0, self.dtype), shape=g.shape)
    return distances.pdist(g, self, p)


@converts("linalg_cross.default")
def linalg_cross(g: Context, self: Value, other: Value, *, dim: int = -1) -> Value:
    return distances.cross(g, self, other, g.axis(dim, max(self.rank, other.rank), "dim"))


@converts("cross.default")
def cross(g: Context, self: Value, other: Value, *, dim: int | None = None) -> Value:
    """Without ``dim`` along the first axis of size 3."""
    return linalg_cross(g, self, other, dim=self.shape.index(3) if dim is None else dim)
