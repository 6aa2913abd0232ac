"""Linear systems and what is made of factors of matrices; all operands are stacks of matrices ``[.., M, N]``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from forge import dims, dtypes
from forge.compose.axes import broadcast, matrix_transpose, part, places
from forge.compose.loops import repeat_while
from forge.compose.products import matmul
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.broadcast import common_size
from forge.ops.core.composer import Composer
from forge.ops.core.inference import HALF_TYPES
from forge.ops.core.term import Term
from forge.ops.linalg.eigenvalues import hermitian, rotated


def conjugate(g: Composer, x: Value) -> Value:
    """Conjugate numbers; ``x`` itself where it is not complex."""
    return g.call("complex.conj", x) if dtypes.is_complex(x.dtype) else x


def identity(g: Composer, like: Value) -> Value:
    """Identity matrices of the shape and type of ``like``; ones on the diagonal where it is not square."""
    return broadcast(g, g.call("eye", n=like.shape[-2], m=like.shape[-1], dtype=like.dtype), like.shape)


def stacked(g: Composer, *matrices: Value) -> list[Value]:
    """Stacks of matrices with equal leading axes."""
    rank = max(v.rank for v in matrices) - 2
    leading: list[tuple[Dim, ...]] = [(*(1,) * (rank + 2 - v.rank), *v.shape[:-2]) for v in matrices]
    shape = tuple(common_size(column) for column in zip(*leading))
    return [broadcast(g, v, (*shape, *v.shape[-2:])) for v in matrices]


def pivots(g: Composer, factors: Value) -> Value:
    """The diagonals."""
    return g.call("diagonal", factors, axis1=factors.rank - 2, axis2=factors.rank - 1)


def inverse_pivots(g: Composer, factors: Value) -> Value:
    """1 over the pivots: infinite where one is 0."""
    found = pivots(g, factors)
    return g.call("divide", g.constant(1, found.dtype), found)


def first_bad_pivot(g: Composer, factors: Value) -> Value:
    """LAPACK's ``info``: the number of the first pivot, from 1 on, that is 0 or NaN; 0 where there is none. int32."""
    found = pivots(g, factors)
    if found.shape[-1] == 0:
        return g.call("zeros", shape=found.shape[:-1], dtype="int32")
    bad = g.call("logical_or", g.call("equal", found, g.constant(0, found.dtype)), g.call("isnan", found))
    last = (found.rank - 1,)
    number = g.call("add", g.call("argmax", g.cast(bad, "int32"), axis=last), g.constant(1, "int64"))
    return g.cast(g.call("where", g.call("any", bad, axis=last), number, g.constant(0, "int64")), "int32")


def solve(g: Composer, a: Value, b: Value, *, left: bool = True) -> Value:
    """x with ``a @ x = b``, or ``x @ a = b``; ``b`` may be a vector for each matrix."""
    is_vector = b.rank == 1 or (b.rank == a.rank - 1 and b.shape == a.shape[:-1])
    right = g.call("expand_dims", b, axis=b.rank) if is_vector else b if left else matrix_transpose(g, b)
    found = g.call("linalg.solve", *stacked(g, a if left else matrix_transpose(g, a), right))
    if is_vector:
        return g.call("squeeze", found, axis=(found.rank - 1,))
    return found if left else matrix_transpose(g, found)


def triangular_solve(
    g: Composer, a: Value, b: Value, *, upper: bool, left: bool = True, transpose: bool = False, unit: bool = False
) -> Value:
    """x with ``a @ x = b``, or ``x @ a = b``, for triangular ``a``, its transpose or, if ``unit``, with ones as its diagonal."""
    matrices, right = stacked(g, a, b)
    return g.call(
        "linalg.triangular_solve", matrices, right, left_side=left, lower=not upper, transpose_a=transpose, unit_diagonal=unit
    )


def cholesky_solve(g: Composer, factor: Value, b: Value, *, upper: bool = False) -> Value:
    """x with ``a @ x = b``, where ``a`` is L L^H and ``factor`` is L, or U^H U and ``factor`` is U."""
    conjugated = conjugate(g, factor)
    half = triangular_solve(g, conjugated if upper else factor, b, upper=upper, transpose=upper)
    return triangular_solve(g, factor if upper else conjugated, half, upper=upper, transpose=not upper)


def permutation_matrix(g: Composer, order: Value, dtype: str) -> Value:
    """The matrices P with ``P[order[k], k] = 1``."""
    on, off = g.constant(1, dtype), g.constant(0, dtype)
    return matrix_transpose(g, g.call("one_hot", order, on, off, depth=order.shape[-1], axis=-1, dtype=dtype))


def lu_unpack(g: Composer, packed: Value) -> tuple[Value, Value]:
    """L, whose diagonal is 1, and U out of one matrix."""
    rows, columns = packed.shape[-2:]
    count = dims.minimum(rows, columns)
    left = part(g, packed, packed.rank - 1, 0, count)
    below = g.call("trilu", left, g.constant(-1, "int64"), upper=False)
    lower = g.call("add", below, g.call("eye", n=rows, m=count, dtype=packed.dtype))
    return lower, g.call("trilu", part(g, packed, packed.rank - 2, 0, count), upper=True)


def lu_solve(g: Composer, packed: Value, order: Value, b: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    """x with ``a @ x = b``, or ``x @ a = b``, for ``a``, or with ``adjoint`` its conjugate transpose.

    ``packed`` are L and U in one matrix, and row k of their product is row ``order[k]`` of ``a``.
    """
    if not left:
        x = lu_solve(g, packed, order, conjugate(g, matrix_transpose(g, b)), adjoint=not adjoint)
        return conjugate(g, matrix_transpose(g, x))
    packed, x, rows = stacked(g, packed, b, g.call("expand_dims", order, axis=order.rank))
    if not adjoint:
        x = triangular_solve(g, packed, _rows(g, x, rows), upper=False, unit=True)
        return triangular_solve(g, packed, x, upper=True)
    packed = conjugate(g, packed)
    x = triangular_solve(g, packed, x, upper=True, transpose=True)
    x = triangular_solve(g, packed, x, upper=False, transpose=True, unit=True)
    return _rows(g, x, g.call("argsort", rows, axis=-2, dtype="int64"))


def _rows(g: Composer, x: Value, order: Value) -> Value:
    """Rows of matrices in another order; ``order`` has one column."""
    return g.call("gather", x, g.call("broadcast_to", order, shape=x.shape), axis=-2)


def ldl_solve(g: Composer, factors: Value, exchanges: Value, b: Value) -> Value:
    """x with ``a @ x = b``, for the factors and exchanges of ``linalg.ldl``."""
    factors, right, columns = stacked(g, factors, b, g.call("expand_dims", exchanges, axis=exchanges.rank))
    return g.call("linalg.ldl_solve", factors, g.call("squeeze", columns, axis=(columns.rank - 1,)), right)


def slogdet(g: Composer, x: Value) -> tuple[Value, Value]:
    """The sign of the determinant and the logarithm of its size; both from the pivots, whose product may be out of range."""
    packed, exchanges = g.multi("linalg.lu", x)
    found = pivots(g, packed)
    last = found.rank - 1
    moved = g.call("not_equal", exchanges, places(g, exchanges, exchanges.rank - 1))
    turns = g.call("where", moved, g.constant(-1, x.dtype), g.constant(1, x.dtype))
    sign = g.call("prod", g.call("multiply", g.call("sign", found), turns), axis=(last,))
    return sign, g.call("sum", g.call("log", g.call("abs", found)), axis=(last,))


def logdet(g: Composer, x: Value) -> Value:
    """The logarithm of the determinant: NaN where this is a negative real number, of a complex one with the angle."""
    sign, size = slogdet(g, x)
    if dtypes.is_complex(sign.dtype):
        return g.call("complex.make", size, g.call("complex.angle", sign))
    return g.call("where", g.call("less", sign, g.constant(0, sign.dtype)), g.constant(math.nan, size.dtype), size)


def matrix_power(g: Composer, x: Value, n: int) -> Value:
    """``x`` times itself, n >= 0, by repeated squaring."""
    result: Value | None = None
    while n:
        if n & 1:
            result = x if result is None else matmul(g, result, x)
        n >>= 1
        x = matmul(g, x, x) if n else x
    return identity(g, x) if result is None else result


def similar(g: Composer, x: Value) -> tuple[Value, Value, Value]:
    """The triangular factor T and the unitary one Z of ``x = Z T Z^H``, Schur's, and for each matrix how many rows are left.

    T of real matrices has blocks of two rows: see ``linalg.schur``.
    """
    wide = g.cast(x, "complex128" if dtypes.is_complex(x.dtype) else "float64")
    factors, tau = g.multi("linalg.hessenberg", wide)
    form, vectors, left = g.multi("linalg.schur", factors, rotated(g.builder, factors, tau, identity(g, wide)))
    return form, vectors, left


def eigenvalues(g: Composer, form: Value) -> tuple[Value, Value]:
    """Real and imaginary parts of the eigenvalues of a triangular factor of `similar`; of a pair, the positive one first."""
    found = pivots(g, form)
    if dtypes.is_complex(form.dtype):
        return g.call("complex.real", found), g.call("complex.imag", found)
    if isinstance(form.shape[-1], int) and form.shape[-1] < 2:
        return found, g.call("zeros_like", found)
    sides = [g.call("diagonal", form, offset=k, axis1=form.rank - 2, axis2=form.rank - 1) for k in (-1, 1)]
    first, second = (g.call("sqrt", g.call("abs", side)) for side in sides)
    size = g.call("multiply", first, second)
    before, after = (
        g.call("nn.pad", size, g.scalar(0, size), pad_width=(*((0, 0),) * (size.rank - 1), width)) for width in ((0, 1), (1, 0)))
    return found, g.call("subtract", before, after)


def eigenvectors(g: Composer, form: Value, vectors: Value, values: Value, *, left: bool = False) -> Value:
    """Of the factors of `similar`, as columns of norm 1 whose largest element is real: v with ``x v = values[k] v``.

    With ``left``, v with ``v^H x = values[k] v^H``.
    """
    form, vectors = g.cast(form, "complex128"), g.cast(vectors, "complex128")
    if left:  # those of the adjoint, which is triangular too where rows and columns are in the opposite order
        form, values = _turned(g, conjugate(g, matrix_transpose(g, form)), -2, -1), _turned(g, conjugate(g, values), -1)
    found = g.call("linalg.triangular_eigenvectors", form, values)
    product = matmul(g, vectors, _turned(g, found, -2, -1) if left else found)
    size = g.call("abs", product)
    if product.shape[-1] == 0:
        return product
    largest = g.call("argmax", size, axis=(size.rank - 2,), keepdims=True)
    first = g.call("gather", product, largest, axis=-2)
    norm = g.call("sqrt", g.call("sum", g.call("multiply", size, size), axis=(size.rank - 2,), keepdims=True))
    phase = g.call("divide", conjugate(g, first), g.cast(g.call("abs", first), "complex128"))
    return g.call("divide", g.call("multiply", product, phase), g.cast(norm, "complex128"))


def _turned(g: Composer, x: Value, *axes: int) -> Value:
    """Elements along ``axes`` in the opposite order."""
    for axis in axes:
        x = g.call("reverse", x, axis=axis % x.rank)
    return x


def tridiagonal(g: Composer, x: Value, *, lower: bool) -> tuple[Value, Value, Value, Value]:
    """A symmetric or Hermitian matrix, of which one triangle is read, as LAPACK's sytrd and hetrd leave it; its diagonal, the one
    beside it, and the factors of the reflections.
    """
    source = x if lower else _turned(g, x, -2, -1)
    factors, tau = g.multi("linalg.hessenberg", hermitian(g.builder, source, True))
    rank = x.rank
    diagonal, beside = (
        g.call("diagonal", factors, offset=k, axis1=rank - 2, axis2=rank - 1) for k in ((0, -1) if x.shape[-1] != 0 else (0, 0)))
    below = g.call("trilu", factors, g.constant(0, "int64"), upper=False)
    kept = g.call("trilu", source, g.constant(1, "int64"), upper=True)
    parts = [g.call("complex.real", v) if dtypes.is_complex(x.dtype) else v for v in (diagonal, beside)]
    matrix = g.call("add", below, kept)
    if lower:
        return matrix, parts[0], parts[1], tau
    return _turned(g, matrix, -2, -1), _turned(g, parts[0], -1), _turned(g, parts[1], -1), _turned(g, tau, -1)


# Up to this 1-norm the polynomial of `_taylor` is exact to the precision of the type: those for degree 18 (Bader, Blanes, Casas).
_LARGEST_NORM = {"float32": 3.010066362817634, "float64": 1.090863719290036}


def matrix_exp(g: Composer, x: Value) -> Value:
    """``expm``: the Taylor polynomial of degree 19 of the matrices divided by 2^s, squared s times; s is each one's own."""
    if x.shape[-1] == 0:
        return x
    if x.dtype in HALF_TYPES:
        return g.cast(matrix_exp(g, g.cast(x, "float32")), x.dtype)
    columns = g.call("sum", g.call("abs", x), axis=(x.rank - 2,), keepdims=True)
    norm = Term(g, g.call("max", columns, axis=(x.rank - 1,), keepdims=True))
    halvings = Term(g, g.call("log2", (norm * (1 / _LARGEST_NORM[norm.value.dtype])).value)).ceil().maximum(0)
    halvings = Term(g, g.call("isfinite", norm.value)).where(halvings, 0)
    factor = Term(g, g.call("exp2", (halvings * -1).value)).cast(x.dtype)
    result = _taylor(g, (Term(g, x) * factor).value)

    def left(at: Composer, values: Sequence[Value]) -> Value:
        return at.call("any", (Term(at, values[1]) > 0).value, axis=None, keepdims=False)

    def square(at: Composer, values: Sequence[Value]) -> Sequence[Value]:
        matrices, rounds = (Term(at, v) for v in values)
        squared = Term(at, matmul(at, matrices.value, matrices.value))
        return [(rounds > 0).where(squared, matrices).value, (rounds - 1).value]

    return repeat_while(g, [result, halvings.value], left, square)[0]


def _taylor(g: Composer, x: Value) -> Value:
    """The sum of x^k / k! for k < 20, by powers up to the fourth (Paterson and Stockmeyer)."""
    size = x.shape[-1]
    powers = [g.call("eye", n=size, m=size, dtype=x.dtype), x, matmul(g, x, x)]
    powers += [matmul(g, x, powers[2]), matmul(g, powers[2], powers[2])]
    total: Term | None = None
    for block in reversed(range(5)):
        terms = [Term(g, powers[k]) * (1 / math.factorial(4 * block + k)) for k in range(4)]
        part = terms[3] + terms[2] + terms[1] + terms[0]
        total = part if total is None else Term(g, matmul(g, total.value, powers[4])) + part
    assert total is not None
    return total.value
