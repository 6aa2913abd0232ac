"""sigmoid, silu, gelu, mish and softplus: relative accuracy over all sizes of numbers, at every x86-64 level."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from forge.tir import expr as tir
from forge.tir.gates import MEANINGS
from tests.codegen.native import LEVELS, Array, assert_identical, interpret_map, map_function, run_map

BOUND = 4.0
"""Largest error in units in the last place."""

EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "sigmoid": lambda mp, x: 1 / (1 + mp.exp(-x)),
    "silu": lambda mp, x: x / (1 + mp.exp(-x)),
    "gelu": lambda mp, x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "gelu_tanh": lambda mp, x: x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * x * (1 + mp.mpf("0.044715") * x * x))),
    "mish": lambda mp, x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "softplus": lambda mp, x: mp.log1p(mp.exp(x)),
}


def points(dtype: str) -> Array:
    """From tiny to where results underflow or are the argument itself."""
    rng = np.random.default_rng(11)
    end = 120.0 if dtype == "float32" else 760.0
    parts = [rng.uniform(-end, 60.0, 160), rng.normal(size=160), rng.normal(size=120) * 6, -(10.0 ** rng.uniform(-30, 1, 72))]
    return np.concatenate(parts).astype(dtype)


def errors(name: str, x: Array, got: Array) -> list[float]:
    """Units in the last place."""
    mp = pytest.importorskip("mpmath")
    bits, smallest = (24, -149) if got.dtype == np.float32 else (53, -1074)
    found = []
    with mp.workdps(60):
        for a, b in zip(x.tolist(), got.tolist()):
            truth = EXACT[name](mp, mp.mpf(a))
            unit = mp.ldexp(1, max(int(mp.frexp(truth)[1]) - bits, smallest))
            found.append(float(abs(mp.mpf(b) - truth) / unit))
    return found


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3", "llvm"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(EXACT))
def test_small_results_have_all_their_digits(name: str, dtype: str, target: str) -> None:
    x = points(dtype)
    got = run_map(map_function((dtype,), dtype, lambda v: tir.call(name, v)), (x,), target)
    found = errors(name, x, got)
    worst = int(np.argmax(found))
    assert found[worst] <= BOUND, f"{name}({x[worst]!r}) is {got[worst]!r}: {found[worst]:.2f} ulp"


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges(dtype: str, target: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, -800.0], dtype)
    large = {"sigmoid": [1, 0, np.nan, 0.5, 0.5, 1, 0, 0], "softplus": [np.inf, 0, np.nan, math.log(2), math.log(2), x[5], 0, 0]}
    for name in EXACT:
        want = np.array(large.get(name, [np.inf, np.nan, np.nan, 0.0, -0.0, x[5], -0.0, -0.0]), dtype)
        assert_identical(run_map(map_function((dtype,), dtype, lambda v, name=name: tir.call(name, v)), (x,), target), want)


@pytest.mark.parametrize("name", sorted(MEANINGS))
def test_the_interpreter_agrees(name: str) -> None:
    x = points("float32")
    function = map_function(("float32",), "float32", lambda v: tir.call(name, v))
    np.testing.assert_array_max_ulp(interpret_map(function, (x,)), run_map(function, (x,)), 4)


@pytest.mark.parametrize(("name", "kind"), [
    *((name, np.dtype(np.float16)) for name in ("exp", "tanh", "erf", *sorted(EXACT))), ("exp", np.dtype(ml_dtypes.bfloat16))])
def test_every_number_of_16_bits_is_rounded_but_once(name: str, kind: np.dtype) -> None:
    """Half a unit of the narrow type, and what 4 units of float32 add to it."""
    x = np.arange(1 << 16, dtype=np.uint16).view(kind)
    got = run_map(map_function((kind.name,), kind.name, lambda v: tir.call(name, v)), (x,)).astype(np.float64)
    wide = x.astype(np.float64)
    known = {"exp": np.exp, "tanh": np.tanh, "erf": np.frompyfunc(math.erf, 1, 1)}
    meaning = known.get(name) or MEANINGS[name]
    truth = np.asarray(meaning(wide), np.float64)
    with np.errstate(all="ignore"):
        rounded = truth.astype(kind).astype(np.float64)
    finite = np.isfinite(rounded) & np.isfinite(got)
    assert (finite | (got == rounded) | (np.isnan(got) & np.isnan(rounded))).all()
    info = ml_dtypes.finfo(kind)
    exponents = np.frexp(np.where(finite, truth, 1.0))[1]
    unit = np.maximum(np.ldexp(1.0, exponents - info.nmant - 1), float(info.smallest_subnormal))
    assert (np.abs(got - truth)[finite] / unit[finite]).max() <= 0.5 + BOUND * 2.0 ** (info.nmant - 23)
