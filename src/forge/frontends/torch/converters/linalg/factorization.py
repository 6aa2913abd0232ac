"""Linear systems, factors of matrices and what is made of them. A call fails for a matrix that has no such factors, where torch
raises an error; elsewhere it gives NaN or infinite numbers, and ``info`` says so.
"""

from __future__ import annotations

import math

from forge.compose import linalg
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_REGULAR, _POSITIVE = "matrices that are not singular", "matrices that are positive definite"


def _info_of_lu(g: Context, matrices: Value, index: int) -> Value | None:
    """``info``, where the program reads result ``index``."""
    return linalg.first_bad_pivot(g, g.multi("linalg.lu", matrices)[0]) if g.wants(index) else None


def _checked(g: Context, found: Value, numbers: Value, given: Value, expected: str) -> Value:
    """``found``; a call fails where ``numbers`` are not finite though those of ``given`` are: there are no such factors."""
    name = g.step.target.split(".")[1]
    return g.call("check_finite", found, numbers, given, message=f"{name}: it does not exist; expected {expected}")


@converts("linalg_inv_ex.default")
def inverse_with_info(g: Context, A: Value, *, check_errors: bool = False) -> list[Value | None]:  # noqa: N803
    return [inverse(g, A) if check_errors else g.call("linalg.inverse", A), _info_of_lu(g, A, 1)]


@converts("linalg_inv.default", "inverse.default")
def inverse(g: Context, A: Value) -> Value:  # noqa: N803
    found = g.call("linalg.inverse", A)
    return _checked(g, found, found, A, _REGULAR)


@converts("linalg_cholesky_ex.default")
def cholesky_with_info(g: Context, self: Value, *, upper: bool = False, check_errors: bool = False) -> list[Value | None]:
    factors = cholesky(g, self, upper=upper) if check_errors else g.call("linalg.cholesky", self, lower=not upper)
    return [factors, linalg.first_bad_pivot(g, factors) if g.wants(1) else None]


@converts("linalg_cholesky.default", "cholesky.default")
def cholesky(g: Context, self: Value, *, upper: bool = False) -> Value:
    factors = g.call("linalg.cholesky", self, lower=not upper)
    return _checked(g, factors, linalg.inverse_pivots(g, factors), self, _POSITIVE)


@converts("_linalg_solve_ex.default")
def solve_with_factors(
    g: Context, A: Value, B: Value, *, left: bool = True, check_errors: bool = False  # noqa: N803
) -> list[Value | None]:
    """The solution, two results that nothing reads, and ``info``."""
    return [solve(g, A, B, left=left)[0], None, None, _info_of_lu(g, A, 3)]


@converts("linalg_solve_ex.default", "linalg_solve.default")
def solve(g: Context, A: Value, B: Value, *, left: bool = True, check_errors: bool = False) -> list[Value | None]:  # noqa: N803
    result = linalg.solve(g, A, B, left=left)
    if check_errors or g.step.target.endswith("linalg_solve.default"):
        result = _checked(g, result, result, A, _REGULAR)
    return [result, _info_of_lu(g, A, 1) if g.num_outputs == 2 else None]


@converts("triangular_solve.default")
def triangular_solve(
    g: Context, self: Value, A: Value, *, upper: bool = True, transpose: bool = False, unitriangular: bool = False  # noqa: N803
) -> list[Value]:
    return [linalg.triangular_solve(g, A, self, upper=upper, transpose=transpose, unit=unitriangular), A]


@converts("linalg_solve_triangular.default")
def linalg_solve_triangular(
    g: Context, self: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False  # noqa: N803
) -> Value:
    return linalg.triangular_solve(g, self, B, upper=upper, left=left, unit=unitriangular)


@converts("cholesky_solve.default")
def cholesky_solve(g: Context, self: Value, input2: Value, *, upper: bool = False) -> Value:
    return linalg.cholesky_solve(g, input2, self, upper=upper)


@converts("cholesky_inverse.default")
def cholesky_inverse(g: Context, self: Value, *, upper: bool = False) -> Value:
    return linalg.cholesky_solve(g, self, linalg.identity(g, self), upper=upper)


def _order(g: Context, exchanges: Value, rows: Dim) -> Value:
    """Where each row of P^T A is in A, from LAPACK's exchanges, which count from 1."""
    return g.call("linalg.permutation", g.call("subtract", exchanges, g.scalar(1, exchanges)), size=rows)


def _pivoted(g: Context, A: Value, pivot: bool) -> list[Value]:  # noqa: N803
    """L and U in one matrix, and the exchanges of rows."""
    if not pivot:
        raise g.unsupported("got pivot=False; supported: with pivoting")
    return g.multi("linalg.lu", A)


@converts("linalg_lu_factor.default", "linalg_lu_factor_ex.default", "_lu_with_info.default")
def lu_factor(
    g: Context, A: Value, *, pivot: bool = True, check_errors: bool = False  # noqa: N803
) -> list[Value | None]:
    """Factors in one matrix, exchanges of rows as LAPACK counts them, ``info``."""
    packed, exchanges = _pivoted(g, A, pivot)
    counted = g.cast(g.call("add", exchanges, g.constant(1, "int64")), "int32")
    if check_errors or g.step.target.endswith("linalg_lu_factor.default"):
        packed = _checked(g, packed, linalg.inverse_pivots(g, packed), A, _REGULAR)
    return [packed, counted, linalg.first_bad_pivot(g, packed) if g.wants(2) else None]


@converts("linalg_lu.default")
def linalg_lu(g: Context, A: Value, *, pivot: bool = True) -> list[Value | None]:  # noqa: N803
    packed, exchanges = _pivoted(g, A, pivot)
    order = g.call("linalg.permutation", exchanges, size=A.shape[-2])
    return [linalg.permutation_matrix(g, order, A.dtype), *linalg.lu_unpack(g, packed)]


@converts("lu_unpack.default")
def lu_unpack(
    g: Context, LU_data: Value, LU_pivots: Value, *, unpack_data: bool = True, unpack_pivots: bool = True  # noqa: N803
) -> list[Value | None]:
    """P, L and U; where one is not asked for, a tensor without elements."""
    nothing = g.call("zeros", shape=(0,), dtype=LU_data.dtype)
    factors = linalg.lu_unpack(g, LU_data) if unpack_data else (nothing, nothing)
    if not unpack_pivots:
        return [nothing, *factors]
    return [linalg.permutation_matrix(g, _order(g, LU_pivots, LU_data.shape[-2]), LU_data.dtype), *factors]


@converts("linalg_lu_solve.default")
def linalg_lu_solve(
    g: Context, LU: Value, pivots: Value, B: Value, *, left: bool = True, adjoint: bool = False  # noqa: N803
) -> Value:
    return linalg.lu_solve(g, LU, _order(g, pivots, LU.shape[-1]), B, left=left, adjoint=adjoint)


@converts("lu_solve.default")
def lu_solve(g: Context, self: Value, LU_data: Value, LU_pivots: Value) -> Value:  # noqa: N803
    return linalg_lu_solve(g, LU_data, LU_pivots, self)


@converts("linalg_ldl_factor.default", "linalg_ldl_factor_ex.default")
def ldl_factor(g: Context, self: Value, *, hermitian: bool = False, check_errors: bool = False) -> list[Value | None]:
    """Factors in one lower triangle, pivots as LAPACK counts them, ``info``: the first pivot that is 0."""
    factors, pivots = g.multi("linalg.ldl", self)
    if not g.wants(2):
        return [factors, g.cast(pivots, "int32"), None]
    alone = g.call("expand_dims", g.call("greater", pivots, g.constant(0, "int64")), axis=pivots.rank)
    info = linalg.first_bad_pivot(g, g.call("where", alone, factors, g.constant(1, factors.dtype)))
    return [factors, g.cast(pivots, "int32"), info]


@converts("linalg_ldl_solve.default")
def ldl_solve(g: Context, LD: Value, pivots: Value, B: Value, *, hermitian: bool = False) -> Value:  # noqa: N803
    return linalg.ldl_solve(g, LD, pivots, B)


@converts("linalg_tensorinv.default")
def tensor_inverse(g: Context, self: Value, *, ind: int = 2) -> Value:
    """The inverse of the matrix whose columns the axes from ``ind`` on count."""
    rows, columns = self.shape[:ind], self.shape[ind:]
    count = math.prod(columns)
    return g.reshape(inverse(g, g.reshape(self, (count, count))), (*columns, *rows))


@converts("_linalg_det.default", "linalg_det.default", "det.default")
def determinant(g: Context, A: Value) -> list[Value | None]:  # noqa: N803
    return [g.call("linalg.determinant", A), None, None]


@converts("_linalg_slogdet.default", "linalg_slogdet.default", "slogdet.default")
def slogdet(g: Context, A: Value) -> list[Value | None]:  # noqa: N803
    return [*linalg.slogdet(g, A), None, None]


@converts("linalg_matrix_power.default", "matrix_power.default")
def matrix_power(g: Context, self: Value, *, n: int) -> Value:
    return linalg.matrix_power(g, inverse(g, self) if n < 0 else self, abs(n))


converts("logdet.default")(linalg.logdet)
converts("linalg_matrix_exp.default", "matrix_exp.default")(linalg.matrix_exp)
