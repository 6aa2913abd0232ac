"""Routines of LAPACK that jax calls on CPUs, as functions of jax use them, and as jax called them in its older versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import ForgeError

RNG = np.random.default_rng(7)
REAL = RNG.normal(size=(4, 4))
COMPLEX = REAL + 1j * RNG.normal(size=(4, 4))
ARRAYS = {
    "f64": REAL, "c128": COMPLEX, "f32": REAL.astype(np.float32), "c64": COMPLEX.astype(np.complex64),
    "batch": RNG.normal(size=(2, 3, 3, 3)), "empty": np.zeros((0, 0)), "no_batch": np.zeros((0, 3, 3), np.complex64),
}
SINGLE = ("float32", "complex64")


def functions() -> dict[str, Callable[[Any], Any]]:
    """What functions of jax give where it is unique."""
    jax = pytest.importorskip("jax")
    jnp, lax, scipy = jax.numpy, jax.lax, jax.scipy.linalg

    def adjoint(x: Any) -> Any:
        return jnp.swapaxes(x, -1, -2).conj()

    def hermitian(x: Any) -> Any:
        return x + adjoint(x)

    def definite(x: Any) -> Any:
        return x @ adjoint(x) + jnp.eye(x.shape[-1])

    def eig(x: Any) -> Any:
        values, left, right = lax.linalg.eig(x, compute_left_eigenvectors=True)
        of_left, of_right = adjoint(left) @ x - values[..., None] * adjoint(left), x @ right - right * values[..., None, :]
        return (values**3).sum(-1), of_left, of_right

    def eigh(x: Any, lower: bool = True) -> Any:
        vectors, values = lax.linalg.eigh(hermitian(x), lower=lower, symmetrize_input=False)
        return values, vectors * values[..., None, :] @ adjoint(vectors), adjoint(vectors) @ vectors

    def schur(output: str) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            form, vectors = scipy.schur(x, output=output)
            return vectors @ form @ adjoint(vectors), adjoint(vectors) @ vectors, jnp.tril(form, -2)

        return run

    def svd(x: Any) -> Any:
        left, values, right = jnp.linalg.svd(x[..., :-1])
        count = values.shape[-1]
        return values, left[..., :count] * values[..., None, :] @ right, adjoint(left) @ left

    return {
        "eig": eig, "eigh": eigh, "eigh_upper": lambda x: eigh(x, lower=False), "schur_real": schur("real"),
        "schur_complex": schur("complex"), "hessenberg": lambda x: scipy.hessenberg(x, calc_q=True),
        "tridiagonal": lambda x: lax.linalg.tridiagonal(hermitian(x), lower=True),
        "tridiagonal_upper": lambda x: lax.linalg.tridiagonal(hermitian(x), lower=False),
        "qr": lambda x: tuple(jnp.linalg.qr(x[..., :-1], mode="complete")), "qr_pivoted": lambda x: scipy.qr(x, pivoting=True),
        "svd": svd, "svd_of_rows": lambda x: svd(jnp.swapaxes(x, -1, -2)),
        "svd_by_qr": lambda x: lax.linalg.svd(x, algorithm=lax.linalg.SvdAlgorithm.QR, compute_uv=False),
        "cholesky": lambda x: jnp.linalg.cholesky(definite(x)), "sqrtm": lambda x: scipy.sqrtm(definite(x)), "expm": scipy.expm,
        "solve": lambda x: jnp.linalg.solve(x, x[..., :2]), "pinv": jnp.linalg.pinv, "rank": jnp.linalg.matrix_rank,
        "cond": jnp.linalg.cond, "slogdet": jnp.linalg.slogdet, "polar": scipy.polar,
        "lstsq": lambda x: jnp.linalg.lstsq(x[:, :-1], x[:, 0]), "multiply_by_q": lambda x: scipy.qr_multiply(x, x),
        "tridiagonal_solve": lambda x: lax.linalg.tridiagonal_solve(x[..., 0], x[..., 1], x[..., 2], x[..., :2]),
    }


FUNCTIONS = (
    "cholesky", "cond", "eig", "eigh", "eigh_upper", "expm", "hessenberg", "lstsq", "multiply_by_q", "pinv", "polar", "qr",
    "qr_pivoted", "rank", "schur_complex", "schur_real", "slogdet", "solve", "sqrtm", "svd", "svd_by_qr", "svd_of_rows",
    "tridiagonal", "tridiagonal_solve", "tridiagonal_upper",
)
PAIRS = [
    *((name, kind) for name in FUNCTIONS for kind in ("f64", "c64")),
    *((name, kind) for name in ("eig", "eigh", "svd", "qr_pivoted", "schur_complex")
      for kind in ("batch", "empty", "no_batch", "f32", "c128")),
]


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_functions_of_jax(name: str, kind: str) -> None:
    jax = pytest.importorskip("jax")
    from tests.frontends.stablehlo.against_jax import loaded, results

    with jax.enable_x64(True):
        function, given = functions()[name], jax.numpy.asarray(ARRAYS[kind])
        expected = [np.asarray(v) for v in jax.tree.leaves(function(given))]
        run = loaded(function, given).get_inference_function()
        found = results(run(ARRAYS[kind]))
    least = 2e-4 if str(ARRAYS[kind].dtype) in SINGLE else 1e-9
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=least, atol=least * max(1, np.abs(other).max(initial=0)))


F, C = "tensor<3x3xf32>", "tensor<3x3xcomplex<f32>>"
A = REAL[:3, :3].astype(np.float32)
Z = COMPLEX[:3, :3].astype(np.complex64)


def called(target: str, numbers: str, matrices: list[tuple[np.ndarray, str]], results: list[str]) -> list[np.ndarray]:
    """The results of a custom call whose first operands are ``numbers``, ``1:i32 86:ui8``."""
    pairs = [text.split(":") for text in numbers.split()]
    lines = [f"%c{k} = stablehlo.constant dense<{number}> : tensor<{kind}>" for k, (number, kind) in enumerate(pairs)]
    names = [*(f"%c{k}" for k in range(len(pairs))), *(f"%a{k}" for k in range(len(matrices)))]
    types = [*(f"tensor<{kind}>" for _, kind in pairs), *(kind for _, kind in matrices)]
    arguments = ", ".join(f"%a{k}: {kind}" for k, (_, kind) in enumerate(matrices))
    count, all_types = len(results), ", ".join(results)
    wanted = ", ".join(f"%r#{k}" if count > 1 else "%r" for k in range(count))
    text = "\n".join([
        f"func.func @main({arguments}) -> ({all_types}) {{", *lines,
        f"%r{f':{count}' if count > 1 else ''} = stablehlo.custom_call @{target}({', '.join(names)}) : "
        f"({', '.join(types)}) -> ({all_types})", f"return {wanted} : {all_types}", "}"])
    found = forge.from_stablehlo(text).get_inference_function()(*(array for array, _ in matrices))
    return list(found) if isinstance(found, list | tuple) else [found]


def test_calls_of_older_versions() -> None:
    factors, exchanges, info = called("lapack_sgetrf", "1:i32 3:i32 3:i32", [(A, F)], [F, "tensor<3xi32>", "tensor<i32>"])
    assert exchanges.min() >= 1 and info == 0
    lower = np.tril(factors, -1) + np.eye(3)
    order = np.arange(3)
    for k, other in enumerate(exchanges):
        order[[k, other - 1]] = order[[other - 1, k]]
    np.testing.assert_allclose(lower @ np.triu(factors), A[order], rtol=1e-5, atol=1e-6)

    raw, tau, *_ = called(
        "lapack_sgeqrf", "1:i32 3:i32 3:i32 96:i32", [(A, F)], [F, "tensor<3xf32>", "tensor<i32>", "tensor<96xf32>"])
    q, *_ = called("lapack_sorgqr", "1:i32 3:i32 3:i32 3:i32 96:i32", [(raw, F), (tau, "tensor<3xf32>")],
                   [F, "tensor<i32>", "tensor<96xf32>"])
    np.testing.assert_allclose(q @ np.triu(raw), A, rtol=1e-5, atol=1e-6)

    _, values, left, right, *_ = called(
        "lapack_cgesdd", "1:i32 1:i32 1:i32 3:i32 3:i32 99:i32", [(Z, C)],
        [C, "tensor<3xf32>", C, C, "tensor<i32>", "tensor<24xi32>", "tensor<9xf32>", "tensor<99xcomplex<f32>>"])
    np.testing.assert_allclose(left * values @ right, Z, rtol=1e-4, atol=1e-5)

    (solution,) = called("blas_strsm", "1:i32 1:i32 0:i32 0:i32 3:i32 3:i32 1:i32 1.0:f32", [(A, F), (A, F)], [F])
    np.testing.assert_allclose(np.tril(A) @ solution, A, rtol=1e-4, atol=1e-5)


def test_eigenvalues_of_older_versions() -> None:
    vector, complex_vector = "tensor<3xf32>", "tensor<3xcomplex<f32>>"
    *_, real, imaginary, _, right, info = called(
        "lapack_sgeev", "1:i32 3:i32 78:ui8 86:ui8", [(A, F)], [F, F, F, vector, vector, C, C, "tensor<i32>"])
    np.testing.assert_allclose(A @ right, right * (real + 1j * imaginary), atol=1e-5)
    assert info == 0
    form, _, values, vectors, *_ = called(
        "lapack_cgees", "1:i32 3:i32 86:ui8 78:ui8", [(Z, C)], [C, vector, complex_vector, C, "tensor<i32>", "tensor<i32>"])
    np.testing.assert_allclose(vectors @ form @ vectors.conj().T, Z, atol=1e-5)
    np.testing.assert_allclose(np.diagonal(form), values, rtol=1e-6)
    _, values, *_ = called("lapack_cheevd", "1:i32 1:i32 3:i32", [(Z, C)], [
        C, vector, "tensor<i32>", "tensor<9xcomplex<f32>>", "tensor<9xf32>", "tensor<9xi32>"])
    np.testing.assert_allclose(values, np.linalg.eigvalsh(Z), rtol=1e-4, atol=1e-5)
    _, diagonal, *_ = called("lapack_ssytrd", "3:i32 1:i32 3:i32 1:i32 96:i32", [(A, F)], [
        F, vector, "tensor<2xf32>", "tensor<2xf32>", "tensor<i32>", "tensor<96xf32>"])
    np.testing.assert_allclose(diagonal.sum(), np.trace(A), rtol=1e-5)
    raw, *_ = called("lapack_sgehrd", "3:i32 1:i32 3:i32 3:i32 1:i32 96:i32", [(A, F)], [
        F, "tensor<2xf32>", "tensor<i32>", "tensor<96xf32>"])
    np.testing.assert_allclose(np.trace(raw), np.trace(A), rtol=1e-5)
    _, info = called("lapack_spotrf", "1:i32 1:i32 3:i32", [(-np.eye(3, dtype=np.float32), F)], [F, "tensor<i32>"])
    assert info != 0


def test_what_no_routine_does_is_refused() -> None:
    vector, count = "tensor<3xi32>", "tensor<3xf32>"
    with pytest.raises(ForgeError, match=r"rows 2 to 3 of 3 are not supported"):
        called("lapack_sgehrd", "3:i32 2:i32 3:i32 3:i32 1:i32 96:i32", [(A, F)], [F, "tensor<2xf32>", "tensor<i32>", count])
    with pytest.raises(ForgeError, match="columns that are said to come first"):
        called("lapack_sgeqp3_ffi", "", [(A, F), (np.ones(3, np.int32), vector)], [F, vector, count])
    with pytest.raises(ForgeError, match="no operator perturbs pivots"):
        called("tridiagonal_solve_perturbed_ffi", "", [(A, F)] * 4, [F])
    with pytest.raises(ForgeError, match="a factor of the right side"):
        called("blas_strsm", "1:i32 1:i32 0:i32 0:i32 3:i32 3:i32 1:i32 2.0:f32", [(A, F), (A, F)], [F])
