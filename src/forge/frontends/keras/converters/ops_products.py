"""Products, linear algebra and Fourier transforms of ``keras.ops``."""


from __future__ import annotations

from typing import Any

from forge.compose import distances, linalg, spectral
from forge.compose.products import kron as kron_of
from forge.compose.products import matmul as matmul_of
from forge.compose.products import tensordot as tensordot_of
from forge.compose.reductions import vector_norm
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.core import einsum as einsum_of
from forge.frontends.keras.converters.ops_reduce import axes_of
from forge.frontends.keras.promotion import real, together
from forge.frontends.keras.registry import OPS, converts
from forge.ir.nodes import Value


@converts("Matmul", domain=OPS)
def matmul(g: Context, x1: Any, x2: Any) -> Value:
    return matmul_of(g, *together(g, x1, x2))


@converts("Dot", domain=OPS)
def dot(g: Context, x1: Any, x2: Any) -> Value:
    a, b = together(g, x1, x2)
    if not a.rank or not b.rank:
        return g.call("multiply", a, b)
    return tensordot_of(g, a, b, (a.rank - 1,), (max(b.rank - 2, 0),))


@converts("Inner", domain=OPS)
def inner(g: Context, x1: Any, x2: Any) -> Value:
    a, b = together(g, x1, x2)
    return tensordot_of(g, a, b, (a.rank - 1,), (b.rank - 1,)) if a.rank and b.rank else g.call("multiply", a, b)


@converts("Vdot", domain=OPS)
def vdot(g: Context, x1: Any, x2: Any) -> Value:
    a, b = (g.call("reshape", v, newshape=(-1,)) for v in together(g, x1, x2))
    return matmul_of(g, a, b)


@converts("Outer", domain=OPS)
def outer(g: Context, x1: Any, x2: Any) -> Value:
    a, b = (g.call("reshape", v, newshape=(-1,)) for v in together(g, x1, x2))
    return g.call("multiply", g.call("expand_dims", a, axis=1), b)


@converts("Kron", domain=OPS)
def kron(g: Context, x1: Any, x2: Any) -> Value:
    return kron_of(g, *together(g, x1, x2))


@converts("Tensordot", domain=OPS)
def tensordot(g: Context, x1: Any, x2: Any, *, axes: Any = None) -> Value:
    a, b = together(g, x1, x2)
    axes = 2 if axes is None else axes
    if isinstance(axes, int):
        left, right = tuple(range(a.rank - axes, a.rank)), tuple(range(axes))
    else:
        left, right = (tuple(v) if isinstance(v, tuple) else (v,) for v in axes)
    return tensordot_of(g, a, b, [g.axis(k, a.rank) for k in left], [g.axis(k, b.rank) for k in right])


@converts("Einsum", domain=OPS)
def einsum(g: Context, *operands: Any, subscripts: str) -> Value:
    return einsum_of(g, subscripts, *together(g, *operands))


@converts("Cross", domain=OPS)
def cross(g: Context, x1: Any, x2: Any, *, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Value:
    a, b = together(g, x1, x2)
    if (axisa, axisb, axisc) != (-1, -1, -1) or a.shape[-1] != 3 or b.shape[-1] != 3:
        raise g.unsupported("got other axes than the last ones, or vectors that have not 3 elements; not supported")
    return _crossed(g, a, b)


def _crossed(g: Context, a: Value, b: Value) -> Value:
    """The product of vectors along the last axis."""
    turned = [[g.call("roll", v, shift=(-n,), axis=(v.rank - 1,)) for n in (1, 2)] for v in (a, b)]
    left, right = (g.call("multiply", turned[0][k], turned[1][1 - k]) for k in (0, 1))
    return g.call("subtract", left, right)


@converts("CDist", domain=OPS)
def cdist(g: Context, x: Any, y: Any) -> Value:
    a, b = (real(g, v) for v in together(g, x, y))
    return distances.cdist(g, a, b)


@converts("Norm", domain=OPS)
def norm(g: Context, x: Any, *, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Value:  # noqa: A002
    data = real(g, x)
    over = axes_of(g, axis, data.rank)
    if isinstance(ord, str) and ord != "fro" or ord not in (None, "fro") and len(over) != 1:
        raise g.unsupported(f"ord: got {ord!r} for {len(over)} axes; supported: vectors, or 'fro'")
    return vector_norm(g, data, 2.0 if ord in (None, "fro") else float(ord), over, keepdims)


@converts("Det", domain=OPS)
def det(g: Context, x: Any) -> Value:
    return g.call("linalg.determinant", real(g, x))


@converts("Inv", domain=OPS)
def inv(g: Context, x: Any) -> Value:
    return g.call("linalg.inverse", real(g, x))


@converts("Solve", domain=OPS)
def solve(g: Context, a: Any, b: Any) -> Value:
    return linalg.solve(g, *(real(g, v) for v in together(g, a, b)))


@converts("Cholesky", domain=OPS)
def cholesky(g: Context, x: Any, *, upper: bool = False) -> Value:
    found = g.call("linalg.cholesky", real(g, x))
    return g.moved(found, (*range(found.rank - 2), found.rank - 1, found.rank - 2)) if upper else found


@converts("FFT", "FFT2", "IFFT2", domain=OPS)
def fft(g: Context, x: Any) -> list[Value]:
    parts = together(g, *x)
    rank = parts[0].rank
    over = (rank - 1,) if g.layer.class_name == "FFT" else (rank - 2, rank - 1)
    data = g.call("complex.make", *(real(g, p) for p in parts))
    found = spectral.fftn(g, data, over, inverse=g.layer.class_name == "IFFT2")
    return [g.call("complex.real", found), g.call("complex.imag", found)]


@converts("RFFT", domain=OPS)
def rfft(g: Context, x: Any, *, fft_length: Any = None) -> list[Value]:
    data = real(g, x)
    found = spectral.fftn(g, data, (data.rank - 1,), None if fft_length is None else (fft_length,), onesided=True)
    return [g.call("complex.real", found), g.call("complex.imag", found)]
