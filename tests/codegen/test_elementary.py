"""Accuracy of the elementary functions, over all sizes of numbers, at every x86-64 level."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from forge.tir import expr as tir
from tests.codegen.native import LEVELS, Array, assert_identical, map_function, run_map

ULP = {"exp": 1.1, "log": 1.0, "pow": 1.3}
"""Largest error in units in the last place; 3 where nothing is said."""

UNARY = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "tanh", "erf", "sin", "cos", "tan", "asin", "acos",
         "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sqrt", "rsqrt")

_REFERENCES: dict[str, Callable[..., Array]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x), "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power, "atan2": np.arctan2,
    "erf": lambda x: np.array([math.erf(float(v)) for v in x], np.longdouble),
}


def reference(name: str) -> Callable[..., Array]:
    return _REFERENCES.get(name) or getattr(np, name)


def samples(dtype: str, count: int = 4096) -> Array:
    """All magnitudes, the usual ranges, and the edges."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 256, count * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)
    info = np.finfo(dtype)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, info.tiny, info.smallest_subnormal, info.max, -info.max, 0.5, 2.0,
             88.7, -87.4, -103.9, 709.7, -745.0, 1e6, 1.0000001e6, 3e9, 1e22, np.pi / 2, np.pi, 9.02, -9.03, 3.93, 6.0, 1e-5]
    ranges = [rng.normal(size=count), rng.normal(size=count) * 30, rng.uniform(-1, 1, count), 1 + rng.normal(size=count) / 100]
    return np.concatenate([bits, *(r.astype(dtype) for r in ranges), np.resize(np.array(edges, dtype), 32)])


def assert_accurate(name: str, got: Array, want: Array, *inputs: Array) -> None:
    """Within the bound of ``name``; infinities, NaN and zeros in the same places."""
    rounded = want.astype(got.dtype)
    finite = np.isfinite(rounded) & np.isfinite(got)
    special = ~finite & ~((got == rounded) | (np.isnan(got) & np.isnan(rounded)))
    spacing = np.spacing(np.abs(np.where(finite, rounded, 1))).astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(got.astype(np.longdouble) - want) / spacing, 0)
    worst = int(error.argmax())
    assert not special.any(), f"{name}{[x[special][0] for x in inputs]}: {got[special][0]}, want {rounded[special][0]}"
    assert error[worst] <= ULP.get(name, 3.0), f"{name}{[x[worst] for x in inputs]}: {error[worst]:.2f} ulp"


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_one_argument(dtype: str, target: str) -> None:
    x = samples(dtype)
    for name in UNARY:
        got = run_map(map_function((dtype,), dtype, lambda v, name=name: tir.call(name, v)), (x,), target)
        with np.errstate(all="ignore"):
            assert_accurate(name, got, reference(name)(x.astype(np.longdouble)), x)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["pow", "atan2", "fmod"])
def test_functions_of_two_arguments(name: str, dtype: str, target: str) -> None:
    rng = np.random.default_rng(3)
    edges = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 1e30, 1.5, -2.5], dtype)
    x = samples(dtype)
    a = np.concatenate([x, np.repeat(edges, 16), np.exp(rng.normal(size=4096) * 3).astype(dtype)])
    b = np.concatenate([rng.permutation(x), np.tile(edges, 16), np.round(rng.normal(size=4096) * 20).astype(dtype)])
    got = run_map(map_function((dtype, dtype), dtype, lambda u, v: tir.call(name, u, v)), (a, b), target)
    with np.errstate(all="ignore"):
        want = reference(name)(a.astype(np.longdouble), b.astype(np.longdouble))
    assert_accurate(name, got, want, a, b)
    numbers = ~np.isnan(got)
    assert (np.signbit(got) == np.signbit(want.astype(dtype)))[numbers].all()


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 0.5])
def test_power_with_a_constant_exponent(exponent: float) -> None:
    x = samples("float32")
    got = run_map(map_function(("float32",), "float32", lambda v: tir.call("pow", v, exponent)), (x,))
    with np.errstate(all="ignore"):
        assert_accurate("pow of a constant", got, np.power(x.astype(np.longdouble), exponent), x)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_division_with_remainder_and_rounding(dtype: str, target: str) -> None:
    rng = np.random.default_rng(5)
    edges = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 1e30, 1.5, -2.5], dtype)
    a = np.concatenate([samples(dtype, 512), np.repeat(edges, 16)])
    b = np.concatenate([rng.permutation(samples(dtype, 512)), np.tile(edges, 16)])
    with np.errstate(all="ignore"):
        want = {"floordiv": np.floor_divide(a, b), "floormod": np.mod(a, b), "truncdiv": np.trunc(a / b),
                "truncmod": np.fmod(a, b)}
    for op, expected in want.items():
        got = run_map(map_function((dtype, dtype), dtype, lambda x, y, op=op: tir.binary(op, x, y)), (a, b), target)
        assert_identical(got, expected)
    for name in ("floor", "ceil", "trunc", "round"):
        got = run_map(map_function((dtype,), dtype, lambda x, name=name: tir.call(name, x)), (a,), target)
        assert_identical(got, getattr(np, name)(a))


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 32])
def test_any_number_of_lanes(lanes: int) -> None:
    x = np.resize(samples("float32", 16), 96)
    for name in ("exp", "tanh", "sin", "fmod"):
        def body(v: tir.Expr, name: str = name) -> tir.Expr:
            return tir.call(name, v, tir.const(0.7, "float32", lanes)) if name == "fmod" else tir.call(name, v)

        wide = run_map(map_function(("float32",), "float32", body, lanes=lanes), (x,))
        narrow = run_map(map_function(("float32",), "float32",
                                      lambda v, name=name: tir.call(name, v, 0.7) if name == "fmod" else tir.call(name, v)), (x,))
        assert_identical(wide, narrow)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_computed_in_float32(dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
    x = samples("float32", 64).astype(kind)
    for name in ("exp", "tanh", "sigmoid"):
        got = run_map(map_function((dtype,), dtype, lambda v, name=name: tir.call(name, v)), (x,))
        with np.errstate(all="ignore"):
            want = reference(name)(x.astype(np.float64)).astype(kind).astype(np.float32)
        np.testing.assert_allclose(got.astype(np.float32), want, rtol=0.008, atol=1e-6)
