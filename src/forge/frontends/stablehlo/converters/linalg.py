"""Factorisations and Fourier transforms, of the specification and of the custom calls that jax makes on CPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from forge import dtypes
from forge.dims import Dim
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.registry import CUSTOM_CALL, converts, refuse
from forge.ir.nodes import Value

Ints = tuple[int, ...]


@converts("cholesky")
def cholesky(g: Context, a: Value, *, lower: bool = False) -> Value:
    return g.call("linalg.cholesky", a, lower=lower)


@converts("triangular_solve")
def triangular_solve(
    g: Context, a: Value, b: Value, *, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str = "NO_TRANSPOSE"
) -> Value:
    return _solved(g, a, b, left_side, lower, unit_diagonal, transpose_a != "NO_TRANSPOSE", transpose_a == "ADJOINT")


def _solved(
    g: Context, a: Value, b: Value, left_side: bool, lower: bool, unit_diagonal: bool, transposed: bool, conjugated: bool
) -> Value:
    a = g.call("complex.conj", a) if conjugated and dtypes.is_complex(a.dtype) else a
    return g.call(
        "linalg.triangular_solve", a, b, left_side=left_side, lower=lower, transpose_a=transposed, unit_diagonal=unit_diagonal)


@converts("fft")
def fft(g: Context, operand: Value, *, fft_type: str, fft_length: Ints) -> Value:
    axes = tuple(range(operand.rank - len(fft_length), operand.rank))
    inverse, onesided = fft_type in ("IFFT", "IRFFT"), fft_type in ("RFFT", "IRFFT")
    if 0 in g.result_type().shape or 0 in operand.shape:
        return g.filled(g.constant(0, g.result_type().dtype), "", g.shape())
    return g.call("fft.fft", operand, axes=axes, lengths=tuple(fft_length), inverse=inverse, onesided=onesided)


def _of_types(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a converter for routines of LAPACK, for all of their element types; "?" stands for one's letter."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
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


@_of_types("?orgqr", "?ungqr")
def orgqr(g: Context, factors: Value, tau: Value) -> Value:
    rows, columns = factors.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise g.unsupported(f"matrices of {rows} x {columns} are not supported; expected numbers of rows and columns")
    identity = g.call("eye", n=rows, m=columns, dtype=factors.dtype)
    other = g.broadcast(g.reshape(identity, (*[1] * (factors.rank - 2), rows, columns)), factors.shape)
    return g.call("linalg.householder_multiply", factors, tau, other)


@_of_types("?gesdd")
def gesdd(g: Context, a: Value, *, mode: int) -> list[Value]:
    u, s, vh = g.multi("linalg.svd", a, full_matrices=_is(mode, "A"))
    if _is(mode, "N"):
        u, vh = (g.filled(0, a.dtype, g.shape(k)) for k in (2, 3))
    return [a, s, u, vh, _success(g, _batch(a))]


@_of_types("?syevd", "?heevd")
def syevd(g: Context, a: Value, *, uplo: int, mode: int) -> list[Value]:
    values, vectors = g.multi("linalg.eigh", a, lower=_is(uplo, "L"))
    return [vectors, values, _success(g, _batch(a))]


@_of_types("?trsm")
def trsm(g: Context, a: Value, b: Value, *, side: int, uplo: int, trans_x: int, diag: int) -> Value:
    return _solved(g, a, b, _is(side, "L"), _is(uplo, "L"), _is(diag, "U"), not _is(trans_x, "N"), _is(trans_x, "C"))


_LACKING = {
    "?geev": "eigenvalues of general matrices", "?gees": "Schur factors", "?gehrd": "Hessenberg forms",
    "?sytrd": "tridiagonal forms", "?hetrd": "tridiagonal forms", "?gtsv": "tridiagonal systems", "?geqp3": "QR with pivots",
}
for _name, _what in _LACKING.items():
    for _letter in "sdcz":
        refuse(f"lapack_{_name.replace('?', _letter)}_ffi", f"no operator computes {_what}", domain=CUSTOM_CALL)
