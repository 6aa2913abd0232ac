"""Norms of matrices, and condition numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from forge import dtypes
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.converters.linalg.orthogonal import singular_values
from forge.frontends.torch.converters.reduce.reduction import extreme, p_norm, plain_number, reduced, vector_norm
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Order = float | str


def _extreme(g: Context, order: float, sizes: Value, axis: int, keepdim: bool = False) -> Value:
    """The largest of ``sizes`` for a positive order, 0 where there are none; else the smallest."""
    found = extreme(g, "max" if order > 0 else "min", sizes, axis, keepdim)
    size = sizes.shape[axis]
    is_some = isinstance(size, int) and size > 0
    return found if order < 0 or is_some else g.call("maximum", found, g.scalar(0, found))


def matrix_norm_of(g: Context, x: Value, order: Order, dim: Sequence[int], keepdim: bool) -> Value:
    """The norm of the matrices along two axes.

    ``order``: "fro", "nuc", 1 and infinity (the largest sum of sizes of a column, of a row), 2 (the largest singular value), and
    -1, -infinity and -2 (the smallest one).
    """
    rows, columns = (g.axis(axis, x.rank, "dim") for axis in dim)
    if order == "fro":
        return p_norm(g, g.call("abs", x), 2, (rows, columns), keepdim)
    if order in ("nuc", 2, -2):
        batch = [k for k in range(x.rank) if k not in (rows, columns)]
        values = singular_values(g, g.call("transpose", x, axes=(*batch, rows, columns)))
        last = values.rank - 1
        found = reduced(g, "sum", values, last) if isinstance(order, str) else _extreme(g, order, values, last)
        return g.reshape(found, [1 if k in (rows, columns) else d for k, d in enumerate(x.shape)]) if keepdim else found
    if not isinstance(order, str) and order in (1, -1, math.inf, -math.inf):
        first, second = (rows, columns) if abs(order) == 1 else (columns, rows)
        sums = reduced(g, "sum", g.call("abs", x), first, keepdim)
        return _extreme(g, order, sums, second - (second > first and not keepdim), keepdim)
    raise g.invalid(f"ord: got {order!r}; expected 'fro', 'nuc', 1, 2, infinity, or the negative of one of these numbers")


@converts("linalg_matrix_norm.default", "linalg_matrix_norm.str_ord")
def matrix_norm(g: Context, self: Value, ord: Operand | str = "fro", *, dim: Sequence[int] = (-2, -1),  # noqa: A002
                keepdim: bool = False, dtype: str | None = None) -> Value:
    """In the element type of the result; complex numbers count by their size, except in norms by singular values."""
    order = ord if isinstance(ord, str) else plain_number(g, ord, "ord")
    x = g.cast(self, dtype) if dtype else self
    if dtypes.is_complex(x.dtype) and order not in ("nuc", 2, -2):
        x = g.call("abs", x)
    return matrix_norm_of(g, x, order, dim, keepdim)


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
    """The norm of the matrices times that of their inverses, infinite where there is none; of no elements, 0."""
    order = p if isinstance(p, str) else 2 if p is None else plain_number(g, p, "p")
    if any(isinstance(d, int) and d == 0 for d in self.shape):
        return g.call("zeros", shape=g.shape, dtype=g.dtype)
    if order in (2, -2):
        values = singular_values(g, self)
        sizes = [extreme(g, name, values, values.rank - 1, False) for name in ("max", "min")]
        return g.call("divide", *(sizes if order == 2 else reversed(sizes)))
    axes = (self.rank - 2, self.rank - 1)
    inverse = g.call("linalg.inverse", self)
    bad = g.call("logical_not", g.call("all", g.call("isfinite", inverse), axis=axes))
    norm = matrix_norm_of(g, self, order, axes, False)
    other = matrix_norm_of(g, g.call("where", g.call("isfinite", inverse), inverse, g.scalar(0, inverse)), order, axes, False)
    return g.call("where", bad, g.call("add", norm, g.scalar(math.inf, norm)), g.call("multiply", norm, other))
