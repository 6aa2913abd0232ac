"""Linear systems, factors of matrices and what is made of them. A call fails for a matrix that has no such factors, where torch
raises an error; elsewhere it gives NaN or infinite numbers, and ``info`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from forge import dims, dtypes
from forge.compose import products
from forge.compose.loops import repeat_while
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.shape.parts import part
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.broadcast import common_size
from forge.ops.core.composer import Composer
from forge.ops.core.inference import HALF_TYPES
from forge.ops.core.term import Term


def turned(g: Context, value: Value) -> Value:
    """Matrices transposed."""
    rank = value.rank
    return g.call("transpose", value, axes=(*range(rank - 2), rank - 1, rank - 2))


def _conjugate(g: Context, value: Value) -> Value:
    return g.call("complex.conj", value) if dtypes.is_complex(value.dtype) else value


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


def _checked(g: Context, found: Value, numbers: Value, given: Value, expected: str) -> Value:
    """``found``; a call fails where ``numbers`` are not finite though those of ``given`` are: there are no such factors."""
    name = g.step.target.split(".")[1]
    return g.call("check_finite", found, numbers, given, message=f"{name}: it does not exist; expected {expected}")


def _inverse_pivots(g: Context, factors: Value) -> Value:
    """Infinite where a pivot is 0."""
    pivots = g.call("diagonal", factors, axis1=factors.rank - 2, axis2=factors.rank - 1)
    return g.call("divide", g.constant(1, pivots.dtype), pivots)


_REGULAR, _POSITIVE = "matrices that are not singular", "matrices that are positive definite"


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
    return [factors, _info(g, factors) if g.wants(1) else None]


@converts("linalg_cholesky.default", "cholesky.default")
def cholesky(g: Context, self: Value, *, upper: bool = False) -> Value:
    factors = g.call("linalg.cholesky", self, lower=not upper)
    return _checked(g, factors, _inverse_pivots(g, factors), self, _POSITIVE)


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
    if check_errors or g.step.target.endswith("linalg_solve.default"):
        result = _checked(g, result, result, A, _REGULAR)
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
    """x with L L^H x = self."""
    turned_back = _conjugate(g, input2)
    half = _triangular(g, turned_back if upper else input2, self, upper=upper, transpose=upper)
    return _triangular(g, input2 if upper else turned_back, half, upper=upper, transpose=not upper)


@converts("cholesky_inverse.default")
def cholesky_inverse(g: Context, self: Value, *, upper: bool = False) -> Value:
    size = self.shape[-1]
    identity = g.call("broadcast_to", g.call("eye", n=size, m=size, dtype=self.dtype), shape=self.shape)
    return cholesky_solve(g, identity, self, upper=upper)


def _order(g: Context, exchanges: Value, rows: Dim) -> Value:
    """Where each row of P^T A is in A, from LAPACK's exchanges, which count from 1."""
    return g.call("linalg.permutation", g.call("subtract", exchanges, g.scalar(1, exchanges)), size=rows)


def _matrix_of(g: Context, order: Value, dtype: str) -> Value:
    """The matrices P of a permutation."""
    on, off = g.constant(1, dtype), g.constant(0, dtype)
    return turned(g, g.call("one_hot", order, on, off, depth=order.shape[-1], axis=-1, dtype=dtype))


def _unpacked(g: Context, packed: Value) -> list[Value]:
    """L and U out of one matrix."""
    rows, columns = packed.shape[-2:]
    count = dims.minimum(rows, columns)
    left = part(g, packed, packed.rank - 1, 0, count)
    below = g.call("trilu", left, g.constant(-1, "int64"), upper=False)
    lower = g.call("add", below, g.call("eye", n=rows, m=count, dtype=packed.dtype))
    return [lower, g.call("trilu", part(g, packed, packed.rank - 2, 0, count), upper=True)]


@converts("linalg_lu_factor.default", "linalg_lu_factor_ex.default", "_lu_with_info.default")
def lu_factor(
    g: Context, A: Value, *, pivot: bool = True, check_errors: bool = False  # noqa: N803
) -> list[Value | None]:
    """Factors in one matrix, exchanges of rows as LAPACK counts them, ``info``."""
    if not pivot:
        raise g.unsupported("got pivot=False; supported: with pivoting")
    packed, exchanges = g.multi("linalg.lu", A)
    counted = g.cast(g.call("add", exchanges, g.constant(1, "int64")), "int32")
    if check_errors or g.step.target.endswith("linalg_lu_factor.default"):
        packed = _checked(g, packed, _inverse_pivots(g, packed), A, _REGULAR)
    return [packed, counted, _info(g, packed) if g.wants(2) else None]


@converts("linalg_lu.default")
def linalg_lu(g: Context, A: Value, *, pivot: bool = True) -> list[Value | None]:  # noqa: N803
    if not pivot:
        raise g.unsupported("got pivot=False; supported: with pivoting")
    packed, exchanges = g.multi("linalg.lu", A)
    order = g.call("linalg.permutation", exchanges, size=A.shape[-2])
    return [_matrix_of(g, order, A.dtype), *_unpacked(g, packed)]


@converts("lu_unpack.default")
def lu_unpack(
    g: Context, LU_data: Value, LU_pivots: Value, *, unpack_data: bool = True, unpack_pivots: bool = True  # noqa: N803
) -> list[Value | None]:
    """P, L and U; where one is not asked for, a tensor without elements."""
    nothing = g.call("zeros", shape=(0,), dtype=LU_data.dtype)
    factors = _unpacked(g, LU_data) if unpack_data else [nothing, nothing]
    return [_matrix_of(g, _order(g, LU_pivots, LU_data.shape[-2]), LU_data.dtype) if unpack_pivots else nothing, *factors]


@converts("linalg_lu_solve.default")
def linalg_lu_solve(
    g: Context, LU: Value, pivots: Value, B: Value, *, left: bool = True, adjoint: bool = False  # noqa: N803
) -> Value:
    """x with A x = B, or x A = B, for A of these factors, or with ``adjoint`` its conjugate transpose."""
    if not left:
        x = linalg_lu_solve(g, LU, pivots, _conjugate(g, turned(g, B)), adjoint=not adjoint)
        return _conjugate(g, turned(g, x))
    order = _order(g, pivots, LU.shape[-1])
    packed, x, places = _together(g, LU, B, g.call("expand_dims", order, axis=order.rank))
    if not adjoint:
        x = _rows(g, x, places)
        return _triangular(g, packed, _triangular(g, packed, x, upper=False, unit=True), upper=True)
    packed = _conjugate(g, packed)
    x = _triangular(g, packed, x, upper=True, transpose=True)
    x = _triangular(g, packed, x, upper=False, transpose=True, unit=True)
    return _rows(g, x, g.call("argsort", places, axis=-2, dtype="int64"))


def _rows(g: Context, value: Value, places: Value) -> Value:
    """Rows of matrices in another order; ``places`` has one column."""
    return g.call("gather", value, g.call("broadcast_to", places, shape=value.shape), axis=-2)


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
    return [factors, g.cast(pivots, "int32"), _info(g, g.call("where", alone, factors, g.constant(1, factors.dtype)))]


@converts("linalg_ldl_solve.default")
def ldl_solve(g: Context, LD: Value, pivots: Value, B: Value, *, hermitian: bool = False) -> Value:  # noqa: N803
    factors, right, places = _together(g, LD, B, g.call("expand_dims", pivots, axis=pivots.rank))
    return g.call("linalg.ldl_solve", factors, g.call("squeeze", places, axis=(places.rank - 1,)), right)


@converts("linalg_tensorinv.default")
def tensor_inverse(g: Context, self: Value, *, ind: int = 2) -> Value:
    """The inverse of the matrix whose columns the axes from ``ind`` on count."""
    rows, columns = self.shape[:ind], self.shape[ind:]
    count = math.prod(columns)
    matrix = g.reshape(self, (count, count))
    return g.reshape(inverse(g, matrix), (*columns, *rows))


@converts("_linalg_det.default", "linalg_det.default", "det.default")
def determinant(g: Context, A: Value) -> list[Value | None]:  # noqa: N803
    return [g.call("linalg.determinant", A), None, None]


@converts("_linalg_slogdet.default", "linalg_slogdet.default", "slogdet.default")
def sign_and_log(g: Context, A: Value) -> list[Value | None]:  # noqa: N803
    """Sign of the determinant, and the logarithm of its size; both from the pivots, whose product may be out of range."""
    packed, exchanges = g.multi("linalg.lu", A)
    pivots = g.call("diagonal", packed, axis1=A.rank - 2, axis2=A.rank - 1)
    last = (pivots.rank - 1,)
    moved = g.call("not_equal", exchanges, g.count(g.extent(exchanges, exchanges.rank - 1), exchanges.shape[-1]))
    turns = g.call("where", moved, g.constant(-1, A.dtype), g.constant(1, A.dtype))
    sign = g.call("prod", g.call("multiply", g.call("sign", pivots), turns), axis=last)
    return [sign, g.call("sum", g.call("log", g.call("abs", pivots)), axis=last), None, None]


@converts("logdet.default")
def logdet(g: Context, self: Value) -> Value:
    """NaN where the determinant is a negative real number; of a complex one the logarithm with the angle."""
    sign, size, *_ = sign_and_log(g, self)
    assert sign is not None and size is not None
    if dtypes.is_complex(sign.dtype):
        return g.call("complex.make", size, g.call("complex.angle", sign))
    return g.call("where", g.call("less", sign, g.constant(0, sign.dtype)), g.constant(float("nan"), size.dtype), size)


@converts("linalg_matrix_power.default", "matrix_power.default")
def matrix_power(g: Context, self: Value, *, n: int) -> Value:
    """By repeated squaring."""
    base = inverse(g, self) if n < 0 else self
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


@converts("linalg_matrix_exp.default", "matrix_exp.default")
def matrix_exp(g: Context, self: Value) -> Value:
    """The Taylor polynomial of degree 19 of the matrices divided by 2^s, squared s times; s is chosen for each of them."""
    size = self.shape[-1]
    if size == 0:
        return self
    if self.dtype in HALF_TYPES:
        return g.cast(matrix_exp(g, g.cast(self, "float32")), self.dtype)
    columns = g.call("sum", g.call("abs", self), axis=(self.rank - 2,), keepdims=True)
    norm = Term(g, g.call("max", columns, axis=(self.rank - 1,), keepdims=True))
    halvings = Term(g, g.call("log2", (norm * (1 / _LARGEST_NORM[norm.value.dtype])).value)).ceil().maximum(0)
    halvings = Term(g, g.call("isfinite", norm.value)).where(halvings, 0)
    factor = Term(g, g.call("exp2", (halvings * -1).value)).cast(self.dtype)
    result = _taylor(g, (Term(g, self) * factor).value)

    def left(at: Composer, values: Sequence[Value]) -> Value:
        return at.call("any", (Term(at, values[1]) > 0).value, axis=None, keepdims=False)

    def square(at: Composer, values: Sequence[Value]) -> Sequence[Value]:
        matrices, rounds = (Term(at, v) for v in values)
        squared = Term(at, products.matmul(at, matrices.value, matrices.value))
        return [(rounds > 0).where(squared, matrices).value, (rounds - 1).value]

    return repeat_while(g, [result, halvings.value], left, square)[0]


# Up to this 1-norm the polynomial is exact to the precision of the type: those of torch, for degree 18.
_LARGEST_NORM = {"float32": 3.010066362817634, "float64": 1.090863719290036}


def _taylor(g: Context, matrices: Value) -> Value:
    """The sum of matrices^k / k! for k < 20, by powers up to the fourth (Paterson and Stockmeyer)."""
    size = matrices.shape[-1]
    powers = [g.call("eye", n=size, m=size, dtype=matrices.dtype), matrices]
    powers += [products.matmul(g, matrices, matrices)]
    powers += [products.matmul(g, matrices, powers[2]), products.matmul(g, powers[2], powers[2])]
    total: Term | None = None
    for block in reversed(range(5)):
        terms = [Term(g, powers[k]) * (1 / math.factorial(4 * block + k)) for k in range(4)]
        part = terms[3] + terms[2] + terms[1] + terms[0]
        total = part if total is None else Term(g, products.matmul(g, total.value, powers[4])) + part
    assert total is not None
    return total.value
