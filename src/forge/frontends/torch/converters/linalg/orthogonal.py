"""QR factors, singular values, eigenvalues of symmetric matrices, and pseudo-inverses.

Of complex matrices there are singular values, eigenvalues and pseudo-inverses: those of real matrices of twice the size.

Factors of QR have LAPACK's signs. Those of singular vectors and eigenvectors, which torch leaves open, are the ones of
``linalg.svd`` and ``linalg.eigh``. A matrix with elements that are not finite gives NaN, where torch raises an error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forge import dims, dtypes
from forge.compose import products
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.converters.linalg.factorization import turned
from forge.frontends.torch.converters.reduce.reduction import reduced
from forge.frontends.torch.converters.shape.parts import part
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


def real(g: Context, matrices: Value) -> Value:
    """``matrices``, which must not be complex."""
    if dtypes.is_complex(matrices.dtype):
        raise g.unsupported(f"got matrices of {matrices.dtype}; supported: real ones")
    return matrices


def _zeros(g: Context, index: int) -> Value:
    """Result ``index`` filled with zeros."""
    return g.call("zeros", shape=g.meta(index).shape, dtype=g.meta(index).dtype)


@converts("geqrf.default")
def geqrf(g: Context, self: Value) -> list[Value]:
    return g.multi("linalg.householder", real(g, self))


def _applied(g: Context, factors: Value, tau: Value, other: Value, *, transpose: bool = False) -> Value:
    return g.call("linalg.householder_multiply", factors, tau, other, transpose=transpose)


@converts("linalg_householder_product.default", "orgqr.default")
def householder_product(g: Context, self: Value, input2: Value) -> Value:
    """The first columns of H_0 H_1 ..., as many as ``self`` has."""
    one = g.call("eye", n=self.shape[-2], m=self.shape[-1], dtype=real(g, self).dtype)
    return _applied(g, self, input2, g.call("broadcast_to", one, shape=self.shape))


@converts("ormqr.default")
def ormqr(g: Context, self: Value, input2: Value, input3: Value, *, left: bool = True, transpose: bool = False) -> Value:
    real(g, self)
    if left:
        return _applied(g, self, input2, input3, transpose=transpose)
    return turned(g, _applied(g, self, input2, turned(g, input3), transpose=not transpose))


def _qr(g: Context, matrices: Value, *, complete: bool, vectors: bool = True) -> list[Value]:
    """Q and R; without ``vectors``, Q is empty."""
    factors, tau = g.multi("linalg.householder", real(g, matrices))
    *batch, rows, columns = matrices.shape
    size = rows if complete else dims.minimum(rows, columns)
    right = g.call("trilu", part(g, factors, factors.rank - 2, 0, size), upper=True)
    if not vectors:
        return [_zeros(g, 0), right]
    one = g.call("broadcast_to", g.call("eye", n=rows, m=size, dtype=factors.dtype), shape=(*batch, rows, size))
    return [_applied(g, factors, tau, one), right]


@converts("linalg_qr.default")
def linalg_qr(g: Context, A: Value, *, mode: str = "reduced") -> list[Value]:  # noqa: N803
    return _qr(g, A, complete=mode == "complete", vectors=mode != "r")


@converts("qr.default")
def qr(g: Context, self: Value, *, some: bool = True) -> list[Value]:
    return _qr(g, self, complete=not some)


def _doubled(g: Context, re: Value, im: Value) -> Value:
    """[[re, -im], [im, re]]: sums, products and inverses of these are those of re + i im, and their values those, each twice."""
    down, across = re.rank - 2, re.rank - 1
    rows = ((re, g.call("negative", im)), (im, re))
    return g.call("concatenate", *(g.call("concatenate", *row, axis=across) for row in rows), axis=down)


def _as_real(g: Context, matrices: Value) -> Value:
    """``matrices``, or those of twice the size that stand for complex ones."""
    if not dtypes.is_complex(matrices.dtype):
        return matrices
    return _doubled(g, g.call("complex.real", matrices), g.call("complex.imag", matrices))


def _as_symmetric(g: Context, matrices: Value, *, lower: bool) -> Value:
    """`_as_real` of Hermitian matrices, of which the lower triangle is read, or the upper one; as in the result."""
    if not dtypes.is_complex(matrices.dtype):
        return matrices
    beside = g.constant(-1 if lower else 1, "int64")
    im = g.call("trilu", g.call("complex.imag", matrices), beside, upper=not lower)
    return _doubled(g, g.call("complex.real", matrices), g.call("subtract", im, turned(g, im)))


def _once(g: Context, values: Value, matrices: Value) -> Value:
    """Every second one of the values of complex matrices."""
    if not dtypes.is_complex(matrices.dtype):
        return values
    return part(g, values, values.rank - 1, 0, values.shape[-1], 2)


def singular_values(g: Context, matrices: Value) -> Value:
    return _once(g, g.multi("linalg.svd", _as_real(g, matrices), full_matrices=False)[1], matrices)


@converts("_linalg_svd.default", "linalg_svd.default")
def linalg_svd(
    g: Context, A: Value, *, full_matrices: bool = True, compute_uv: bool = True, driver: str | None = None  # noqa: N803
) -> list[Value]:
    if not compute_uv:
        return [_zeros(g, 0), singular_values(g, A), _zeros(g, 2)]
    return g.multi("linalg.svd", real(g, A), full_matrices=full_matrices)


@converts("svd.default")
def svd(g: Context, self: Value, *, some: bool = True, compute_uv: bool = True) -> list[Value]:
    """The last result is V, not V^T. Without ``compute_uv`` the vectors are zeros."""
    left, values, right = linalg_svd(g, self, full_matrices=not some, compute_uv=compute_uv)
    return [left, values, turned(g, right) if compute_uv else right]


@converts("linalg_svdvals.default")
def svdvals(g: Context, A: Value, *, driver: str | None = None) -> Value:  # noqa: N803
    return singular_values(g, A)


@converts("_linalg_eigh.default", "linalg_eigh.default")
def linalg_eigh(g: Context, A: Value, *, UPLO: str = "L", compute_v: bool = True) -> list[Value]:  # noqa: N803
    if not compute_v:
        return [eigvalsh(g, A, UPLO=UPLO), _zeros(g, 1)]
    return g.multi("linalg.eigh", real(g, A), lower=UPLO.upper() == "L")


@converts("linalg_eigvalsh.default")
def eigvalsh(g: Context, self: Value, *, UPLO: str = "L") -> Value:  # noqa: N803
    lower = UPLO.upper() == "L"
    return _once(g, g.multi("linalg.eigh", _as_symmetric(g, self, lower=lower), lower=lower)[0], self)


class _Tolerance(NamedTuple):
    """What singular values must exceed to count: ``absolute``, and ``relative`` to the largest one."""

    absolute: Value
    relative: Value

    def of(self, g: Context, sizes: Value) -> Value:
        """For ``sizes`` of singular values, in any order."""
        largest = Term(g, g.call("max", sizes, axis=(sizes.rank - 1,), keepdims=True))
        absolute, relative = (Term(g, g.call("expand_dims", v, axis=v.rank) if v.rank else v) for v in self)
        return absolute.maximum(relative * largest).value


def _tolerance(g: Context, matrices: Value, atol: Operand | None, rtol: Operand | None) -> _Tolerance:
    """torch's defaults: 0, and epsilon times the longer side unless ``atol`` is positive."""
    dtype = dtypes.part(matrices.dtype) if dtypes.is_complex(matrices.dtype) else matrices.dtype
    absolute = g.tensor(0.0 if atol is None else atol, dtype)
    if rtol is not None:
        return _Tolerance(absolute, g.tensor(rtol, dtype))
    epsilon = float(np.finfo(dtypes.numpy_dtype(dtype)).eps)
    side = Term(g, g.tensor(dims.maximum(*matrices.shape[-2:]), "int64")).cast("float64") * epsilon
    zero = g.constant(0.0, dtype)
    return _Tolerance(absolute, g.call("where", g.call("greater", absolute, zero), zero, side.cast(dtype).value))


def _is_empty(matrices: Value) -> bool:
    return any(isinstance(d, int) and d == 0 for d in matrices.shape)


@converts("linalg_matrix_rank.atol_rtol_tensor", "linalg_matrix_rank.atol_rtol_float")
def matrix_rank(g: Context, self: Value, *, atol: Operand | None = None, rtol: Operand | None = None,
                hermitian: bool = False) -> Value:
    if _is_empty(self):
        return _zeros(g, 0)
    sizes = g.call("abs", eigvalsh(g, self)) if hermitian else singular_values(g, self)
    counted = Term(g, sizes) > Term(g, _tolerance(g, self, atol, rtol).of(g, sizes))
    return reduced(g, "sum", g.cast(counted.value, "int64"), -1)


@converts("linalg_matrix_rank.default", "linalg_matrix_rank.tol_tensor")
def matrix_rank_within(g: Context, self: Value, tol: Operand, *, hermitian: bool = False) -> Value:
    return matrix_rank(g, self, atol=tol, rtol=0.0, hermitian=hermitian)


@converts("linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float")
def pinv(g: Context, self: Value, *, atol: Operand | None = None, rtol: Operand | None = None, hermitian: bool = False) -> Value:
    if _is_empty(self):
        return _zeros(g, 0)
    if hermitian:
        values, right = g.multi("linalg.eigh", _as_symmetric(g, self, lower=True))
        left, sizes = turned(g, right), g.call("abs", values)
    else:
        u, values, vh = g.multi("linalg.svd", _as_real(g, self), full_matrices=False)
        left, right, sizes = turned(g, u), turned(g, vh), values
    counted = Term(g, sizes) > Term(g, _tolerance(g, self, atol, rtol).of(g, sizes))
    inverse = counted.where(1 / Term(g, values), 0.0).value
    found = products.matmul(g, g.call("multiply", right, g.call("expand_dims", inverse, axis=inverse.rank - 1)), left)
    if not dtypes.is_complex(self.dtype):
        return found
    rows, columns = self.shape[-1], self.shape[-2]
    half = part(g, found, found.rank - 1, 0, columns)
    parts = (part(g, half, half.rank - 2, begin, end) for begin, end in ((0, rows), (rows, 2 * rows)))
    return g.call("complex.make", *parts)


@converts("linalg_pinv.default", "linalg_pinv.rcond_tensor", "pinverse.default")
def pinv_within(g: Context, self: Value, rcond: Operand = 1e-15, *, hermitian: bool = False) -> Value:
    return pinv(g, self, atol=0.0, rtol=rcond, hermitian=hermitian)
