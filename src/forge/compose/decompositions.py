"""QR factors, singular values, eigenvalues of Hermitian matrices, and what follows from them: pseudo-inverses, ranks, norms.

All operands are stacks of matrices ``[.., M, N]``. Of complex matrices there are values, pseudo-inverses and norms: those of real
matrices of twice the size. A matrix with elements that are not finite gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from forge import dims, dtypes
from forge.compose.axes import matrix_transpose, part
from forge.compose.linalg import identity
from forge.compose.products import matmul
from forge.compose.reductions import extreme, reduced, vector_norm
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def householder_multiply(
    g: Composer, factors: Value, tau: Value, other: Value, *, left: bool = True, transpose: bool = False
) -> Value:
    """``Q @ other``, or ``other @ Q``, for Q = H_0 H_1 .. of ``linalg.householder``, or with its transpose."""
    if left:
        return g.call("linalg.householder_multiply", factors, tau, other, transpose=transpose)
    return matrix_transpose(g, householder_multiply(g, factors, tau, matrix_transpose(g, other), transpose=not transpose))


def householder_product(g: Composer, factors: Value, tau: Value) -> Value:
    """The first columns of H_0 H_1 .., as many as ``factors`` has."""
    return householder_multiply(g, factors, tau, identity(g, factors))


def qr(g: Composer, x: Value, *, complete: bool = False) -> tuple[Value, Value]:
    """Q ``[.., M, K]`` and R ``[.., K, N]``, with LAPACK's signs; K is the smaller of M and N, or M if ``complete``."""
    factors, tau = g.multi("linalg.householder", x)
    *batch, rows, columns = x.shape
    size = rows if complete else dims.minimum(rows, columns)
    one = g.call("broadcast_to", g.call("eye", n=rows, m=size, dtype=factors.dtype), shape=(*batch, rows, size))
    right = g.call("trilu", part(g, factors, factors.rank - 2, 0, size), upper=True)
    return householder_multiply(g, factors, tau, one), right


def _doubled(g: Composer, re: Value, im: Value) -> Value:
    """[[re, -im], [im, re]]: sums, products and inverses of these are those of re + i im, and their values those, each twice."""
    down, across = re.rank - 2, re.rank - 1
    rows = ((re, g.call("negative", im)), (im, re))
    return g.call("concatenate", *(g.call("concatenate", *row, axis=across) for row in rows), axis=down)


def _as_real(g: Composer, x: Value) -> Value:
    """``x``, or matrices of twice the size that stand for complex ones."""
    if not dtypes.is_complex(x.dtype):
        return x
    return _doubled(g, g.call("complex.real", x), g.call("complex.imag", x))


def _as_symmetric(g: Composer, x: Value, *, lower: bool) -> Value:
    """`_as_real` of Hermitian matrices, of which the lower triangle is read, or the upper one; as in the result."""
    if not dtypes.is_complex(x.dtype):
        return x
    beside = g.constant(-1 if lower else 1, "int64")
    im = g.call("trilu", g.call("complex.imag", x), beside, upper=not lower)
    return _doubled(g, g.call("complex.real", x), g.call("subtract", im, matrix_transpose(g, im)))


def _once(g: Composer, values: Value, x: Value) -> Value:
    """Every second one of the values of complex matrices."""
    return part(g, values, values.rank - 1, 0, values.shape[-1], 2) if dtypes.is_complex(x.dtype) else values


def singular_values(g: Composer, x: Value) -> Value:
    """``[.., K]``, the largest first."""
    return _once(g, g.multi("linalg.svd", _as_real(g, x), full_matrices=False)[1], x)


def eigvalsh(g: Composer, x: Value, *, lower: bool = True) -> Value:
    """Eigenvalues of Hermitian matrices ``[.., N]``, the least first; read is the lower triangle, or the upper one."""
    return _once(g, g.multi("linalg.eigh", _as_symmetric(g, x, lower=lower), lower=lower)[0], x)


class Tolerance(NamedTuple):
    """What a singular value must exceed to count as nonzero, ``absolute`` and ``relative`` to the largest, for each matrix."""

    absolute: Value
    relative: Value

    def exceeded(self, g: Composer, sizes: Value) -> Term:
        """Which of ``sizes``, in any order, exceed the tolerance."""
        largest = Term(g, g.call("max", sizes, axis=(sizes.rank - 1,), keepdims=True))
        absolute, relative = (Term(g, g.call("expand_dims", v, axis=v.rank) if v.rank else v) for v in self)
        return Term(g, sizes) > absolute.maximum(relative * largest)


def default_tolerance(g: Composer, x: Value) -> Value:
    """What NumPy's ``matrix_rank`` takes relative to the largest singular value: epsilon times the longer side."""
    dtype = dtypes.part(x.dtype) if dtypes.is_complex(x.dtype) else x.dtype
    epsilon = float(np.finfo(dtypes.numpy_dtype(dtype)).eps)
    rows, columns = (Term(g, g.extent(x, x.rank - k)) for k in (2, 1))
    return (rows.maximum(columns).cast("float64") * epsilon).cast(dtype).value


def matrix_rank(g: Composer, x: Value, tolerance: Tolerance, *, hermitian: bool = False) -> Value:
    """How many singular values exceed the tolerance, as int64."""
    sizes = g.call("abs", eigvalsh(g, x)) if hermitian else singular_values(g, x)
    return reduced(g, "sum", g.cast(tolerance.exceeded(g, sizes).value, "int64"), [sizes.rank - 1])


def pinv(g: Composer, x: Value, tolerance: Tolerance, *, hermitian: bool = False) -> Value:
    """Pseudo-inverses ``[.., N, M]`` by the singular values that exceed the tolerance."""
    if hermitian:
        values, right = g.multi("linalg.eigh", _as_symmetric(g, x, lower=True))
        left, sizes = matrix_transpose(g, right), g.call("abs", values)
    else:
        u, values, vh = g.multi("linalg.svd", _as_real(g, x), full_matrices=False)
        left, right, sizes = matrix_transpose(g, u), matrix_transpose(g, vh), values
    inverse = tolerance.exceeded(g, sizes).where(1 / Term(g, values), 0.0).value
    found = matmul(g, g.call("multiply", right, g.call("expand_dims", inverse, axis=inverse.rank - 1)), left)
    if not dtypes.is_complex(x.dtype):
        return found
    rows, columns = x.shape[-1], x.shape[-2]
    half = part(g, found, found.rank - 1, 0, columns)
    return g.call("complex.make", *(part(g, half, half.rank - 2, begin, begin + rows) for begin in (0, rows)))


def _extreme(g: Composer, order: float, sizes: Value, axis: int, keepdims: bool = False) -> Value:
    """The largest of ``sizes`` for a positive order, 0 where there are none; else the smallest."""
    found = extreme(g, "max" if order > 0 else "min", sizes, [axis], keepdims)
    size = sizes.shape[axis]
    is_some = isinstance(size, int) and size > 0
    return found if order < 0 or is_some else g.call("maximum", found, g.scalar(0, found))


def matrix_norm(g: Composer, x: Value, order: float | str, axes: Sequence[int], keepdims: bool = False) -> Value:
    """The norm of the matrices along two axes.

    ``order``: "fro", "nuc", 1 and infinity (the largest sum of sizes of a column, of a row), 2 (the largest singular value), and
    -1, -infinity and -2 (the smallest one).

    Raises:
        OpAttributeInvalid: another order.
    """
    rows, columns = axes
    if order == "fro":
        return vector_norm(g, g.call("abs", x), 2, (rows, columns), keepdims)
    if order in ("nuc", 2, -2):
        batch = [k for k in range(x.rank) if k not in (rows, columns)]
        values = singular_values(g, g.call("transpose", x, axes=(*batch, rows, columns)))
        last = values.rank - 1
        found = reduced(g, "sum", values, [last]) if isinstance(order, str) else _extreme(g, order, values, last)
        return g.reshape(found, [1 if k in (rows, columns) else d for k, d in enumerate(x.shape)]) if keepdims else found
    if not isinstance(order, str) and order in (1, -1, math.inf, -math.inf):
        first, second = (rows, columns) if abs(order) == 1 else (columns, rows)
        sums = reduced(g, "sum", g.call("abs", x), [first], keepdims)
        return _extreme(g, order, sums, second - (second > first and not keepdims), keepdims)
    raise g.invalid(f"ord: got {order!r}; expected 'fro', 'nuc', 1, 2, infinity, or the negative of one of these numbers")


def cond(g: Composer, x: Value, order: float | str = 2) -> Value:
    """Condition numbers: the norm of the matrices times that of their inverses, infinite where there is none."""
    if order in (2, -2):
        values = singular_values(g, x)
        sizes = [extreme(g, name, values, [values.rank - 1]) for name in ("max", "min")]
        return g.call("divide", *(sizes if order == 2 else reversed(sizes)))
    axes = (x.rank - 2, x.rank - 1)
    inverse = g.call("linalg.inverse", x)
    bad = g.call("logical_not", g.call("all", g.call("isfinite", inverse), axis=axes))
    norm = matrix_norm(g, x, order, axes)
    other = matrix_norm(g, g.call("where", g.call("isfinite", inverse), inverse, g.scalar(0, inverse)), order, axes)
    return g.call("where", bad, g.call("add", norm, g.scalar(math.inf, norm)), g.call("multiply", norm, other))
