"""QR factors, singular values, eigenvalues of symmetric matrices, and pseudo-inverses.

Of complex matrices there are singular values, eigenvalues and pseudo-inverses: those of real matrices of twice the size.

Factors of QR have LAPACK's signs. Those of singular vectors and eigenvectors, which torch leaves open, are the ones of
``linalg.svd`` and ``linalg.eigh``. A matrix with elements that are not finite gives NaN, where torch raises an error.
"""

from __future__ import annotations

from forge import dtypes
from forge.compose import decompositions
from forge.compose.axes import matrix_transpose
from forge.compose.decompositions import Tolerance
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


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


@converts("linalg_householder_product.default", "orgqr.default")
def householder_product(g: Context, self: Value, input2: Value) -> Value:
    return decompositions.householder_product(g, real(g, self), input2)


@converts("ormqr.default")
def ormqr(g: Context, self: Value, input2: Value, input3: Value, *, left: bool = True, transpose: bool = False) -> Value:
    return decompositions.householder_multiply(g, real(g, self), input2, input3, left=left, transpose=transpose)


@converts("linalg_qr.default")
def linalg_qr(g: Context, A: Value, *, mode: str = "reduced") -> list[Value]:  # noqa: N803
    left, right = decompositions.qr(g, real(g, A), complete=mode == "complete")
    return [_zeros(g, 0) if mode == "r" else left, right]


@converts("qr.default")
def qr(g: Context, self: Value, *, some: bool = True) -> list[Value]:
    return [*decompositions.qr(g, real(g, self), complete=not some)]


@converts("_linalg_svd.default", "linalg_svd.default")
def linalg_svd(
    g: Context, A: Value, *, full_matrices: bool = True, compute_uv: bool = True, driver: str | None = None  # noqa: N803
) -> list[Value]:
    if not compute_uv:
        return [_zeros(g, 0), decompositions.singular_values(g, A), _zeros(g, 2)]
    return g.multi("linalg.svd", real(g, A), full_matrices=full_matrices)


@converts("svd.default")
def svd(g: Context, self: Value, *, some: bool = True, compute_uv: bool = True) -> list[Value]:
    """The last result is V, not V^T. Without ``compute_uv`` the vectors are zeros."""
    left, values, right = linalg_svd(g, self, full_matrices=not some, compute_uv=compute_uv)
    return [left, values, matrix_transpose(g, right) if compute_uv else right]


@converts("linalg_svdvals.default")
def svdvals(g: Context, A: Value, *, driver: str | None = None) -> Value:  # noqa: N803
    return decompositions.singular_values(g, A)


@converts("_linalg_eigh.default", "linalg_eigh.default")
def linalg_eigh(g: Context, A: Value, *, UPLO: str = "L", compute_v: bool = True) -> list[Value]:  # noqa: N803
    if not compute_v:
        return [eigvalsh(g, A, UPLO=UPLO), _zeros(g, 1)]
    return g.multi("linalg.eigh", real(g, A), lower=UPLO.upper() == "L")


@converts("linalg_eigvalsh.default")
def eigvalsh(g: Context, self: Value, *, UPLO: str = "L") -> Value:  # noqa: N803
    return decompositions.eigvalsh(g, self, lower=UPLO.upper() == "L")


def _tolerance(g: Context, matrices: Value, atol: Operand | None, rtol: Operand | None) -> Tolerance:
    """torch's defaults: 0, and epsilon times the longer side unless ``atol`` is positive."""
    dtype = dtypes.part(matrices.dtype) if dtypes.is_complex(matrices.dtype) else matrices.dtype
    absolute = g.tensor(0.0 if atol is None else atol, dtype)
    if rtol is not None:
        return Tolerance(absolute, g.tensor(rtol, dtype))
    zero = g.constant(0.0, dtype)
    own = decompositions.default_tolerance(g, matrices)
    return Tolerance(absolute, g.call("where", g.call("greater", absolute, zero), zero, own))


@converts("linalg_matrix_rank.atol_rtol_tensor", "linalg_matrix_rank.atol_rtol_float")
def matrix_rank(g: Context, self: Value, *, atol: Operand | None = None, rtol: Operand | None = None,
                hermitian: bool = False) -> Value:
    if 0 in self.shape:
        return _zeros(g, 0)
    return decompositions.matrix_rank(g, self, _tolerance(g, self, atol, rtol), hermitian=hermitian)


@converts("linalg_matrix_rank.default", "linalg_matrix_rank.tol_tensor")
def matrix_rank_within(g: Context, self: Value, tol: Operand, *, hermitian: bool = False) -> Value:
    return matrix_rank(g, self, atol=tol, rtol=0.0, hermitian=hermitian)


@converts("linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float")
def pinv(g: Context, self: Value, *, atol: Operand | None = None, rtol: Operand | None = None, hermitian: bool = False) -> Value:
    if 0 in self.shape:
        return _zeros(g, 0)
    return decompositions.pinv(g, self, _tolerance(g, self, atol, rtol), hermitian=hermitian)


@converts("linalg_pinv.default", "linalg_pinv.rcond_tensor", "pinverse.default")
def pinv_within(g: Context, self: Value, rcond: Operand = 1e-15, *, hermitian: bool = False) -> Value:
    return pinv(g, self, atol=0.0, rtol=rcond, hermitian=hermitian)
