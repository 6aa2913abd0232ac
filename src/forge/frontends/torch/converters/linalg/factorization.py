"""Linear systems, factors of matrices and what is made of them. A matrix that has no such factors gives NaN or infinite numbers,
where torch raises an error, or says so in ``info``.
"""

from __future__ import annotations

from forge.compose import products
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.broadcast import common_size


def turned(g: Context, value: Value) -> Value:
    """Matrices transposed."""
    rank = value.rank
    return g.call("transpose", value, axes=(*range(rank - 2), rank - 1, rank - 2))


def _together(g: Context, *values: Value) -> list[Value]:
    """Stacks of matrices whose batch axes are equal."""
    rank = max(v.rank for v in values) - 2
    batches: list[tuple[Dim, ...]] = [(*(1,) * (rank + 2 - v.rank), *v.shape[:-2]) for v in values]
    shape = tuple(common_size(column) for column in zip(*batches))
    wanted = [(*shape, *v.shape[-2:]) for v in values]
    return [v if v.shape == s else g.call("broadcast_to", v, shape=s) for v, s in zip(values, wanted)]


def _info(g: Context, factors: Value) -> Value:
    """The number of the first pivot, from 1 on, that is 0 or NaN; 0 where there is none."""
    pivots = g.call("diagonal", factors, axis1=factors.rank - 2, axis2=factors.rank - 1)
    if pivots.shape[-1] == 0:
        return g.call("zeros", shape=pivots.shape[:-1], dtype="int32")
    bad = g.call("logical_or", g.call("equal", pivots, g.constant(0, pivots.dtype)), g.call("isnan", pivots))
    last = (pivots.rank - 1,)
    number = g.call("add", g.call("argmax", g.cast(bad, "int32"), axis=last), g.constant(1, "int64"))
    return g.cast(g.call("where", g.call("any", bad, axis=last), number, g.constant(0, "int64")), "int32")


def _info_of_lu(g: Context, matrices: Value, index: int) -> Value | None:
    """``_info``, where the program reads result ``index``."""
    return _info(g, g.multi("linalg.lu", matrices)[0]) if g.wants(index) else None


@converts("linalg_inv_ex.default", "linalg_inv.default", "inverse.default")
def inverse(g: Context, A: Value, *, check_errors: bool = False) -> list[Value | None]:  # noqa: N803
    return [g.call("linalg.inverse", A), _info_of_lu(g, A, 1)]


@converts("linalg_cholesky_ex.default", "linalg_cholesky.default", "cholesky.default")
def cholesky(g: Context, self: Value, *, upper: bool = False, check_errors: bool = False) -> list[Value | None]:
    factors = g.call("linalg.cholesky", self, lower=not upper)
    return [factors, _info(g, factors) if g.wants(1) else None]


@converts("_linalg_solve_ex.default")
def solve_with_factors(
    g: Context, A: Value, B: Value, *, left: bool = True, check_errors: bool = False  # noqa: N803
) -> list[Value | None]:
    """The solution, two results that nobody reads, and ``info``."""
    return [solve(g, A, B, left=left)[0], None, None, _info_of_lu(g, A, 3)]


@converts("linalg_solve_ex.default", "linalg_solve.default")
def solve(g: Context, A: Value, B: Value, *, left: bool = True, check_errors: bool = False) -> list[Value | None]:  # noqa: N803
    """x with A x = B, or x A = B; B may be one vector for each matrix."""
    is_vector = B.rank == 1 or (B.rank == A.rank - 1 and B.shape == A.shape[:-1])
    right = g.call("expand_dims", B, axis=B.rank) if is_vector else B if left else turned(g, B)
    matrices, right = _together(g, A if left else turned(g, A), right)
    found = g.call("linalg.solve", matrices, right)
    result = g.call("squeeze", found, axis=(found.rank - 1,)) if is_vector else found if left else turned(g, found)
    return [result, _info_of_lu(g, A, 1) if g.num_outputs == 2 else None]


def _triangular(
    g: Context, matrices: Value, right: Value, *, upper: bool, left: bool = True, transpose: bool = False, unit: bool = False
) -> Value:
    a, b = _together(g, matrices, right)
    return g.call("linalg.triangular_solve", a, b, left_side=left, lower=not upper, transpose_a=transpose, unit_diagonal=unit)


@converts("triangular_solve.default")
def triangular_solve(
    g: Context, self: Value, A: Value, *, upper: bool = True, transpose: bool = False, unitriangular: bool = False  # noqa: N803
) -> list[Value]:
    return [_triangular(g, A, self, upper=upper, transpose=transpose, unit=unitriangular), A]


@converts("linalg_solve_triangular.default")
def linalg_solve_triangular(
    g: Context, self: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False  # noqa: N803
) -> Value:
    return _triangular(g, self, B, upper=upper, left=left, unit=unitriangular)


@converts("cholesky_solve.default")
def cholesky_solve(g: Context, self: Value, input2: Value, *, upper: bool = False) -> Value:
    """x with L L^T x = self."""
    half = _triangular(g, input2, self, upper=upper, transpose=upper)
    return _triangular(g, input2, half, upper=upper, transpose=not upper)


@converts("cholesky_inverse.default")
def cholesky_inverse(g: Context, self: Value, *, upper: bool = False) -> Value:
    size = self.shape[-1]
    identity = g.call("broadcast_to", g.call("eye", n=size, m=size, dtype=self.dtype), shape=self.shape)
    return cholesky_solve(g, identity, self, upper=upper)


def _lu(g: Context, matrices: Value) -> tuple[Value, Value]:
    """The factors in one matrix, and the matrices of the permutation P in P L U."""
    packed, order = g.multi("linalg.lu", matrices)
    on, off = g.constant(1, matrices.dtype), g.constant(0, matrices.dtype)
    return packed, turned(g, g.call("one_hot", order, on, off, depth=matrices.shape[-1], axis=-1, dtype=matrices.dtype))


@converts("linalg_lu.default")
def linalg_lu(g: Context, A: Value, *, pivot: bool = True) -> list[Value]:  # noqa: N803
    if not pivot or A.shape[-1] != A.shape[-2]:
        raise g.unsupported(f"linalg_lu: got pivot={pivot} and matrices {A.type}; supported: square ones, with pivoting")
    packed, permutation = _lu(g, A)
    below = g.call("trilu", packed, g.constant(-1, "int64"), upper=False)
    size = A.shape[-1]
    return [permutation, g.call("add", below, g.call("eye", n=size, m=size, dtype=A.dtype)), g.call("trilu", packed, upper=True)]


@converts("_linalg_det.default", "linalg_det.default", "det.default")
def determinant(g: Context, A: Value) -> list[Value | None]:  # noqa: N803
    return [g.call("linalg.determinant", A), None, None]


@converts("_linalg_slogdet.default", "linalg_slogdet.default", "slogdet.default")
def sign_and_log(g: Context, A: Value) -> list[Value | None]:  # noqa: N803
    """Sign of the determinant, and the logarithm of its size; both from the pivots, whose product may be out of range."""
    packed, permutation = _lu(g, A)
    pivots = g.call("diagonal", packed, axis1=A.rank - 2, axis2=A.rank - 1)
    last = (pivots.rank - 1,)
    sign = g.call("multiply", g.call("prod", g.call("sign", pivots), axis=last), g.call("linalg.determinant", permutation))
    return [sign, g.call("sum", g.call("log", g.call("abs", pivots)), axis=last), None, None]


@converts("logdet.default")
def logdet(g: Context, self: Value) -> Value:
    """NaN where the determinant is negative."""
    sign, size, *_ = sign_and_log(g, self)
    assert sign is not None and size is not None
    return g.call("where", g.call("less", sign, g.constant(0, sign.dtype)), g.constant(float("nan"), size.dtype), size)


@converts("linalg_matrix_power.default", "matrix_power.default")
def matrix_power(g: Context, self: Value, *, n: int) -> Value:
    """By repeated squaring."""
    base = g.call("linalg.inverse", self) if n < 0 else self
    size = self.shape[-1]
    result: Value | None = None
    count = abs(n)
    while count:
        if count & 1:
            result = base if result is None else products.matmul(g, result, base)
        count >>= 1
        base = products.matmul(g, base, base) if count else base
    return result if result is not None else g.call(
        "broadcast_to", g.call("eye", n=size, m=size, dtype=self.dtype), shape=self.shape)
