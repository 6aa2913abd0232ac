"""Factorizations and Fourier transforms of the specification."""

from __future__ import annotations

from forge import dtypes
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.registry import converts
from forge.ir.nodes import Value

Ints = tuple[int, ...]


@converts("cholesky")
def cholesky(g: Context, a: Value, *, lower: bool = False) -> Value:
    return g.call("linalg.cholesky", a, lower=lower)


@converts("triangular_solve")
def triangular_solve(
    g: Context, a: Value, b: Value, *, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str = "NO_TRANSPOSE"
) -> Value:
    return solved(g, a, b, left_side, lower, unit_diagonal, transpose_a != "NO_TRANSPOSE", transpose_a == "ADJOINT")


def solved(
    g: Context, a: Value, b: Value, left_side: bool, lower: bool, unit_diagonal: bool, transposed: bool, conjugated: bool
) -> Value:
    """x with op(a) x = b, or x op(a) = b, for triangular a; op(a) may be transposed and conjugated."""
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
