"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from forge.compose import axes, decompositions, linalg, spectral
from forge.compose.axes import matrix_transpose
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts, refuse
from forge.ir.nodes import Value

for _name in ("MatrixSquareRoot", "MatrixLogarithm", "MatrixSolveLs", "Eig", "BatchSvd"):
    refuse(_name, "a decomposition that is not converted; compute it outside of the model")


def _adjoint(g: Context, x: Value) -> Value:
    return matrix_transpose(g, linalg.conjugate(g, x))


@converts("Cholesky", "BatchCholesky")
def cholesky(g: Context, x: Value) -> Value:
    return g.call("linalg.cholesky", x)


@converts("MatrixInverse", "BatchMatrixInverse")
def matrix_inverse(g: Context, x: Value, *, adjoint: bool = False) -> Value:
    return g.call("linalg.inverse", _adjoint(g, x) if adjoint else x)


@converts("MatrixSolve", "BatchMatrixSolve")
def matrix_solve(g: Context, matrix: Value, right: Value, *, adjoint: bool = False) -> Value:
    return g.call("linalg.solve", *linalg.stacked(g, _adjoint(g, matrix) if adjoint else matrix, right))


@converts("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def matrix_triangular_solve(
    g: Context, matrix: Value, right: Value, *, lower: bool = True, adjoint: bool = False
) -> Value:
    given = linalg.conjugate(g, matrix) if adjoint else matrix
    return linalg.triangular_solve(g, given, right, upper=not lower, transpose=adjoint)


@converts("MatrixDeterminant", "BatchMatrixDeterminant")
def matrix_determinant(g: Context, x: Value) -> Value:
    return g.call("linalg.determinant", x)


@converts("LogMatrixDeterminant", outputs="sign log_abs_determinant")
def log_matrix_determinant(g: Context, x: Value) -> list[Value]:
    sign, size = linalg.slogdet(g, x)
    return [sign, g.cast(size, x.dtype)]


@converts("Qr", outputs="q r")
def qr(g: Context, x: Value, *, full_matrices: bool = False) -> list[Value]:
    return list(decompositions.qr(g, x, complete=full_matrices))


@converts("Svd", outputs="s u v")
def svd(g: Context, x: Value, *, compute_uv: bool = True, full_matrices: bool = False) -> list[Value | None]:
    if not compute_uv:
        return [g.cast(decompositions.singular_values(g, x), x.dtype), None, None]
    left, values, right = g.multi("linalg.svd", x, full_matrices=full_matrices)
    return [g.cast(values, x.dtype), left, _adjoint(g, right)]


@converts("SelfAdjointEigV2", outputs="e v")
def self_adjoint_eig(g: Context, x: Value, *, compute_v: bool = True) -> list[Value | None]:
    if not compute_v:
        return [g.cast(decompositions.eigvalsh(g, x), x.dtype), None]
    values, vectors = g.multi("linalg.eigh", x)
    return [g.cast(values, x.dtype), vectors]


@converts("TridiagonalSolve")
def tridiagonal_solve(
    g: Context, diagonals: Value, right: Value, *, partial_pivoting: bool = True, perturb_singular: bool = False
) -> Value:
    """Diagonals are that above the main one, this, and that below; exchanges of rows are made in any case."""
    if perturb_singular:
        raise g.unsupported("perturb_singular: got True; expected systems that have a solution")
    above, main, below = (
        g.call("take", diagonals, g.constant(k, "int64"), axis=diagonals.rank - 2) for k in range(3))
    return g.multi("linalg.tridiagonal_solve", below, main, above, right)[-1]


@converts("TridiagonalMatMul")
def tridiagonal_matmul(g: Context, above: Value, main: Value, below: Value, right: Value) -> Value:
    """Diagonals are rows [.., 1, M], of which the last number above and the first one below are not read."""
    rows = right.rank - 2
    columns = [matrix_transpose(g, v) for v in (above, main, below)]
    size = right.shape[rows]
    places = axes.along(g, axes.places(g, right, rows), rows, right.rank)
    following, before = (g.call("roll", right, shift=(k,), axis=(rows,)) for k in (-1, 1))
    zero = g.constant(0, right.dtype)
    last = g.call("subtract", g.size(size), g.constant(1, "int64"))
    following = g.call("where", g.call("equal", places, last), zero, following)
    before = g.call("where", g.call("equal", places, g.constant(0, "int64")), zero, before)
    products = [g.call("multiply", a, b) for a, b in zip(columns, (following, right, before))]
    return g.call("add", g.call("add", products[0], products[1]), products[2])


@converts("Lu", outputs="lu p")
def lu(g: Context, x: Value, *, output_idx_type: str = "int32") -> list[Value]:
    packed, exchanges = g.multi("linalg.lu", x)
    return [packed, g.cast(g.call("linalg.permutation", exchanges, size=x.shape[-2]), output_idx_type)]


@converts("MatrixExponential")
def matrix_exponential(g: Context, x: Value) -> Value:
    return linalg.matrix_exp(g, x)


for _count, _suffix in ((1, ""), (2, "2D"), (3, "3D")):
    def _fourier(g: Context, x: Value, *, count: int = _count) -> Value:
        last = tuple(range(x.rank - count, x.rank))
        return spectral.fftn(g, x, last, inverse=g.node.op.startswith("I"))

    def _real(
        g: Context, x: Value, lengths: Value, *, Tcomplex: str = "complex64", Treal: str = "float32", count: int = _count  # noqa: N803
    ) -> Value:
        last = tuple(range(x.rank - count, x.rank))
        return spectral.fftn(g, x, last, g.required_ints(lengths, "fft_length"), inverse=g.node.op.startswith("I"), onesided=True)

    converts(f"FFT{_suffix}", f"IFFT{_suffix}")(_fourier)
    converts(f"RFFT{_suffix}", f"IRFFT{_suffix}")(_real)
