"""Diagonals, and views by strides."""

from __future__ import annotations

from forge.compose import axes
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.core.views import with_diagonal
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("diagonal.default", "diagonal_copy.default")
def diagonal(g: Context, self: Value, *, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    a, b = g.axes((dim1, dim2), self.rank)
    return g.call("diagonal", self, offset=offset, axis1=a, axis2=b)


@converts("linalg_diagonal.default")
def matrix_diagonal(g: Context, A: Value, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:  # noqa: N803
    return diagonal(g, A, offset=offset, dim1=dim1, dim2=dim2)


@converts("diagonal_scatter.default")
def diagonal_scatter(g: Context, self: Value, src: Value, *, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    return with_diagonal(g, self, g.cast(src, self.dtype), offset, *g.axes((dim1, dim2), self.rank))


@converts("diag_embed.default")
def diag_embed(g: Context, self: Value, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """Matrices with the last axis as a diagonal, else 0."""
    a, b = g.axes((dim1, dim2), self.rank + 1)
    matrices = axes.diag_embed(g, self, offset)
    rank = matrices.rank
    return axes.transposed(g, matrices, axes.moved(rank, (rank - 2, rank - 1), (a, b)))


@converts("diag.default")
def diag(g: Context, self: Value, *, diagonal: int = 0) -> Value:
    if self.rank == 1:
        return diag_embed(g, self, offset=diagonal)
    return g.call("diagonal", self, offset=diagonal, axis1=0, axis2=1)


@converts("unfold.default", "unfold_copy.default")
def unfold(g: Context, self: Value, *, dimension: int, size: int, step: int) -> Value:
    """Windows along an axis; their elements are the last axis."""
    if self.rank == 0:
        return g.reshape(self, (1,)) if size else g.call("zeros", shape=(0,), dtype=self.dtype)
    axis = g.axis(dimension, self.rank, "dimension")
    return g.call("sliding_window", self, axis=axis, window_shape=(size,), strides=(step,))
