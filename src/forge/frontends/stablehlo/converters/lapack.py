"""Routines of LAPACK as custom calls, which jax makes on CPUs: ``lapack_dgetrf_ffi``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from forge import dtypes
from forge.compose import linalg
from forge.dims import Dim
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters.linalg import solved
from forge.frontends.stablehlo.registry import CUSTOM_CALL, converts, refuse
from forge.ir.nodes import Value

C = TypeVar("C", bound=Callable[..., Any])


def _of_types(*names: str) -> Callable[[C], C]:
    """Registers a converter for routines of LAPACK, for all of their element types; "?" stands for one's letter."""

    def add(function: C) -> C:
        for name in names:
            for letter in "sdcz":
                converts(f"lapack_{name.replace('?', letter)}_ffi", domain=CUSTOM_CALL)(function)
        return function

    return add


def _batch(value: Value) -> tuple[Dim, ...]:
    return tuple(value.shape[:-2])


def _success(g: Context, batch: Sequence[Dim]) -> Value:
    """LAPACK's report that nothing failed, for each matrix."""
    return g.filled(0, "int32", batch)


def _is(code: int, letter: str) -> bool:
    return code == ord(letter)


@_of_types("?potrf")
def potrf(g: Context, a: Value, *, uplo: int) -> list[Value]:
    found = g.call("linalg.cholesky", a, lower=_is(uplo, "L"))
    sums = g.call("sum", g.call("diagonal", found, axis1=-2, axis2=-1), axis=(-1,))
    sums = g.call("complex.real", sums) if dtypes.is_complex(sums.dtype) else sums
    return [found, g.cast(g.call("logical_not", g.call("isfinite", sums)), "int32")]


@_of_types("?getrf")
def getrf(g: Context, a: Value) -> list[Value]:
    factors, exchanges = g.multi("linalg.lu", a)
    pivots = g.call("add", g.cast(exchanges, "int32"), g.constant(1, "int32"))
    return [factors, pivots, _success(g, _batch(a))]


@_of_types("?geqrf")
def geqrf(g: Context, a: Value) -> list[Value]:
    return g.multi("linalg.householder", a)


@_of_types("?geqp3")
def geqp3(g: Context, a: Value, fixed: Value) -> list[Value]:
    known = g.array(fixed)
    if known is None or known.any():
        raise g.unsupported("columns that are said to come first are not supported; expected zeros")
    factors, tau, order = g.multi("linalg.householder_pivoted", a)
    return [factors, g.cast(g.call("add", order, g.constant(1, "int64")), "int32"), tau]


@_of_types("?orgqr", "?ungqr")
def orgqr(g: Context, factors: Value, tau: Value) -> Value:
    rows, columns = factors.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise g.unsupported(f"matrices of {rows} x {columns} are not supported; expected numbers of rows and columns")
    identity = g.call("eye", n=rows, m=columns, dtype=factors.dtype)
    other = g.broadcast(g.reshape(identity, (*[1] * (factors.rank - 2), rows, columns)), factors.shape)
    return g.call("linalg.householder_multiply", factors, tau, other)


@_of_types("?ormqr", "?unmqr")
def ormqr(g: Context, factors: Value, tau: Value, other: Value, *, left: bool, transpose: bool) -> Value:
    if left:
        return g.call("linalg.householder_multiply", factors, tau, other, transpose=transpose)
    found = g.call("linalg.householder_multiply", factors, tau, _adjoint(g, other), transpose=not transpose)
    return _adjoint(g, found)


def _adjoint(g: Context, x: Value) -> Value:
    return linalg.conjugate(g, g.moved(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2)))


@_of_types("?gesvd", "?gesdd")
def gesdd(g: Context, a: Value, *, mode: int) -> list[Value]:
    u, s, vh = g.multi("linalg.svd", a, full_matrices=_is(mode, "A"))
    if _is(mode, "N"):
        u, vh = (g.filled(0, a.dtype, g.shape(k)) for k in (2, 3))
    return [a, s, u, vh, _success(g, _batch(a))]


@_of_types("?syevd", "?heevd")
def syevd(g: Context, a: Value, *, uplo: int, mode: int) -> list[Value]:
    values, vectors = g.multi("linalg.eigh", a, lower=_is(uplo, "L"))
    return [vectors, values, _success(g, _batch(a))]


@_of_types("?gehrd")
def gehrd(g: Context, a: Value, *, low: int, high: int) -> list[Value]:
    size = a.shape[-1]
    if low != 1 or high != size:
        raise g.unsupported(f"rows {low} to {high} of {size} are not supported; expected all")
    return [*g.multi("linalg.hessenberg", a), _success(g, _batch(a))]


@_of_types("?sytrd", "?hetrd")
def sytrd(g: Context, a: Value, *, uplo: int) -> list[Value]:
    return [*linalg.tridiagonal(g, a, lower=_is(uplo, "L")), _success(g, _batch(a))]


@_of_types("?gees")
def gees(g: Context, a: Value, *, mode: int, sort: int) -> list[Value]:
    if not _is(sort, "N"):
        raise g.unsupported("eigenvalues in the order of a function are not supported; expected no order")
    form, vectors, left = linalg.similar(g, a)
    values = [g.cast(v, _part(a)) for v in linalg.eigenvalues(g, form)]
    if dtypes.is_complex(a.dtype):
        values = [g.call("complex.make", *values)]
    vectors = vectors if _is(mode, "V") else a
    return [g.cast(form, a.dtype), g.cast(vectors, a.dtype), *values, _success(g, _batch(a)), left]


@_of_types("?geev")
def geev(g: Context, a: Value, *, compute_left: int, compute_right: int) -> list[Value]:
    form, vectors, left = linalg.similar(g, a)
    values = linalg.eigenvalues(g, form)
    wide, dtype = g.call("complex.make", *values), dtypes.complex_of(_part(a))
    parts = [g.cast(wide, dtype)] if dtypes.is_complex(a.dtype) else [g.cast(v, _part(a)) for v in values]
    sides = [
        g.cast(linalg.eigenvectors(g, form, vectors, wide, left=is_left), dtype) if _is(wanted, "V") else
        g.filled(0, dtype, a.shape) for is_left, wanted in ((True, compute_left), (False, compute_right))]
    return [*parts, *sides, left]


def _part(a: Value) -> str:
    return dtypes.part(a.dtype) if dtypes.is_complex(a.dtype) else a.dtype


@_of_types("?gtsv")
def gtsv(g: Context, lower: Value, diagonal: Value, upper: Value, b: Value) -> list[Value]:
    found = g.multi("linalg.tridiagonal_solve", lower, diagonal, upper, b)
    singular = g.call("equal", found[1], g.scalar(0, found[1]))
    return [*found, g.cast(g.call("any", singular, axis=(singular.rank - 1,)), "int32")]


@_of_types("?trsm")
def trsm(g: Context, a: Value, b: Value, *, side: int, uplo: int, trans_x: int, diag: int) -> Value:
    return solved(g, a, b, _is(side, "L"), _is(uplo, "L"), _is(diag, "U"), not _is(trans_x, "N"), _is(trans_x, "C"))


refuse("tridiagonal_solve_perturbed_ffi", "no operator perturbs pivots; solve without perturb_singular", domain=CUSTOM_CALL)
