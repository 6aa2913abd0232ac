"""Functions of complex numbers against many digits, over the whole range of exponents and next to branch points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forge.ir.op import Accuracy
from tests.ops import harness
from tests.ops.case import row
from tests.ops.compare import tolerance

mpmath = pytest.importorskip("mpmath")

DIGITS = 660
"""Enough for 1 + 1e-300."""

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": mpmath.exp, "expm1": lambda z: mpmath.exp(z) - 1, "log": mpmath.log, "log1p": lambda z: mpmath.log(1 + z),
    "sqrt": mpmath.sqrt, "rsqrt": lambda z: 1 / mpmath.sqrt(z), "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan,
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh, "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan,
    "asinh": mpmath.asinh, "acosh": mpmath.acosh, "atanh": mpmath.atanh, "reciprocal": lambda z: 1 / z, "abs": abs,
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)), "sign": lambda z: z / abs(z),
}
GROWING = {"exp": 0, "expm1": 0, "sigmoid": 0, "sinh": 0, "cosh": 0, "tanh": 0, "sin": 1, "cos": 1, "tan": 1}
"""Functions that overflow in their real (0) or imaginary (1) direction."""


def points(name: str, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(5)

    def signed(low: float, high: float) -> np.ndarray:
        sizes = 10.0 ** rng.uniform(low, high, (2, 40)) * rng.choice([-1, 1], (2, 40))
        return sizes[0] + 1j * sizes[1]

    range_ = 300 if dtype == "complex128" else 36
    beside = rng.choice([1, -1, 1j, -1j, 0], 40) + signed(-17, 0)
    z = np.concatenate([rng.uniform(-4, 4, 40) + 1j * rng.uniform(-4, 4, 40), signed(-range_, range_), beside, signed(-3, 2.8)])
    if name in GROWING:
        parts = (z.real, z.imag)
        z = z[(np.abs(parts[GROWING[name]]) < 1e3) & (np.abs(parts[1 - GROWING[name]]) < 1e15)]
    return z.astype(dtype)


def error(z: complex, result: complex, function: Callable[[Any], Any], part: type[np.floating[Any]]) -> float:
    """The distance from the exact result against its modulus; 0 where that is beyond the range of normal numbers."""
    exact = function(mpmath.mpc(z.real, z.imag))
    size = abs(exact)
    limits = np.finfo(part)
    if not float(limits.tiny) <= size <= float(limits.max):
        return 0.0
    if not np.isfinite(result):
        return float("inf")
    return float(abs(mpmath.mpmathify(result) - exact) / size)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_a_few_units_in_the_last_place_of_the_modulus(name: str, dtype: str) -> None:
    z = points(name, dtype)
    (results,) = harness.compile_and_run(row(name, [z]))
    part = np.float32 if dtype == "complex64" else np.float64
    with mpmath.workdps(DIGITS):
        errors = [error(complex(x), complex(y), FUNCTIONS[name], part) for x, y in zip(z, results, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= tolerance(Accuracy.ROUNDING, dtype)[0], (z[worst], results[worst])
