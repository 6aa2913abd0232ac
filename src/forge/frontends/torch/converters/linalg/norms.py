"""Norms of matrices, and condition numbers."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dtypes
from forge.compose import decompositions
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.converters.reduce.reduction import plain_number, vector_norm
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("linalg_matrix_norm.default", "linalg_matrix_norm.str_ord")
def matrix_norm(g: Context, self: Value, ord: Operand | str = "fro", *, dim: Sequence[int] = (-2, -1),  # noqa: A002
                keepdim: bool = False, dtype: str | None = None) -> Value:
    """In the element type of the result; complex numbers count by their size, except in norms by singular values."""
    order = ord if isinstance(ord, str) else plain_number(g, ord, "ord")
    x = g.cast(self, dtype) if dtype else self
    if dtypes.is_complex(x.dtype) and order not in ("nuc", 2, -2):
        x = g.call("abs", x)
    return decompositions.matrix_norm(g, x, order, [g.axis(axis, x.rank, "dim") for axis in dim], keepdim)


@converts("linalg_norm.default", "linalg_norm.ord_str")
def linalg_norm(g: Context, self: Value, ord: Operand | str | None = None, *, dim: Sequence[int] | int | None = None,  # noqa: A002
                keepdim: bool = False, dtype: str | None = None) -> Value:
    """A matrix's norm for two axes and an order, else a vector's; without an order, the 2-norm of all."""
    axes = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if axes is None and ord is not None:
        axes = tuple(range(self.rank))
    if ord is not None and axes is not None and len(axes) == 2:
        return matrix_norm(g, self, ord, dim=axes, keepdim=keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise g.invalid(f"ord: got {ord!r} for axes {axes}; expected two axes")
    return vector_norm(g, self, 2 if ord is None else ord, dim=axes, keepdim=keepdim, dtype=dtype)


@converts("nuclear_norm.default", "nuclear_norm.dim")
def nuclear_norm(g: Context, self: Value, *, dim: Sequence[int] = (-2, -1), keepdim: bool = False) -> Value:
    return matrix_norm(g, self, "nuc", dim=dim, keepdim=keepdim)


@converts("frobenius_norm.dim")
def frobenius_norm(g: Context, self: Value, *, dim: Sequence[int], keepdim: bool = False) -> Value:
    return vector_norm(g, self, 2, dim=dim, keepdim=keepdim)


@converts("linalg_cond.default", "linalg_cond.p_str")
def cond(g: Context, self: Value, p: Operand | str | None = None) -> Value:
    """Of no elements, 0."""
    order = p if isinstance(p, str) else 2 if p is None else plain_number(g, p, "p")
    if 0 in self.shape:
        return g.call("zeros", shape=g.shape, dtype=g.dtype)
    return decompositions.cond(g, self, order)
