"""Minimax fits: how the coefficients of ``forge.codegen`` were found. Needs mpmath.

    python -m scripts.minimax gelu_single       # or another name of FITS

``polynomial`` is the exchange algorithm of Remez, in multiple precision; ``rational`` reweights a linear least-squares fit until
the relative error is level (Lawson's method). Coefficients are rounded one after another, and the others fitted again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np

Number = Any
"""An mpmath number; mpmath has no types."""
Real = Callable[[Number], Number]


def _nodes(low: float, high: float, count: int) -> list[Number]:
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    return [middle - half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def polynomial(f: Real, degree: int, low: float, high: float, weight: Real, fixed: Sequence[Number] = ()) -> list[Number]:
    """Coefficients c, constant first, that minimize the largest |weight(x) (c(x) - f(x))|; the first ones are ``fixed``."""
    free = range(len(fixed), degree + 1)
    points = _nodes(low, high, len(free) + 1)
    grid = _nodes(low, high, 40 * (degree + 2))
    rest = [(f(x) - mp.polyval(list(reversed(fixed or (0,))), x)) for x in grid]
    weights = [weight(x) for x in grid]
    solution: list[Number] = []
    for _ in range(8):
        rows = [[x**k for k in free] + [(-1) ** i / weight(x)] for i, x in enumerate(points)]
        values = [f(x) - mp.polyval(list(reversed(fixed or (0,))), x) for x in points]
        solution = list(mp.lu_solve(mp.matrix(rows), mp.matrix(values)))[:-1]
        errors = [w * (sum(c * x**k for c, k in zip(solution, free)) - r) for x, w, r in zip(grid, weights, rest)]
        points = _extrema(grid, errors, len(points))
    return [*fixed, *solution]


def _extrema(grid: list[Number], errors: list[Number], count: int) -> list[Number]:
    """Where alternating errors are largest: one place for each run of equal sign, ``count`` neighbouring ones."""
    best: list[int] = []
    for i, error in enumerate(errors):
        if best and (errors[best[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[best[-1]]):
                best[-1] = i
        else:
            best.append(i)
    while len(best) > count:
        del best[0 if abs(errors[best[0]]) < abs(errors[best[-1]]) else -1]
    if len(best) < count:
        raise ArithmeticError(f"minimax: {len(best)} extrema; expected {count}; choose another degree or more digits")
    return [grid[i] for i in best]


def rounded(f: Real, degree: int, low: float, high: float, weight: Real, round_to: Callable[[Number], float]) -> list[float]:
    """``polynomial`` with coefficients of a number format: each is rounded and fixed before the rest is fitted again."""
    fixed: list[float] = []
    while len(fixed) <= degree:
        fixed.append(round_to(polynomial(f, degree, low, high, weight, fixed)[len(fixed)]))
    return fixed


def rational(f: Real, degrees: tuple[int, int], low: float, high: float, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """(p, q), constant first and q[0] == 1, with the smallest relative error of p(x) / q(x), by Lawson's weights."""
    x = np.array([float(v) for v in _nodes(low, high, count)], np.longdouble)
    y = np.array([mp.nstr(f(mp.mpf(float(v))), 25) for v in x], np.longdouble)
    top, bottom = degrees
    scale = np.longdouble(high)
    powers = (x / scale)[:, None] ** np.arange(max(degrees) + 1)
    weights, q_values = np.ones(count, np.longdouble), np.ones(count, np.longdouble)
    best: tuple[np.longdouble, np.ndarray] = (np.longdouble(np.inf), np.zeros(0))
    for _ in range(200):
        columns = np.hstack([powers[:, :top + 1] / y[:, None], -powers[:, 1:bottom + 1]])
        factor = np.sqrt(weights) / q_values
        solution = _least_squares(columns * factor[:, None], factor)
        q_values = 1 + powers[:, 1:bottom + 1] @ solution[top + 1:]
        error = np.abs((powers[:, :top + 1] @ solution[:top + 1]) / q_values / y - 1)
        if error.max() < best[0]:
            best = (error.max(), solution)
        weights = weights * (error + error.max() * np.longdouble(1e-3))
        weights /= weights.sum()
    solution = best[1]
    p = solution[:top + 1] / scale ** np.arange(top + 1)
    q = np.concatenate([[np.longdouble(1)], solution[top + 1:] / scale ** np.arange(1, bottom + 1)])
    return p, q


def _least_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solved in double, then refined with residuals in extended precision."""
    scale = np.sqrt((a * a).sum(axis=0))
    a = a / scale
    narrow = a.astype(np.float64)
    x = np.zeros(a.shape[1], np.longdouble)
    for _ in range(4):
        x = x + np.linalg.lstsq(narrow, (b - a @ x).astype(np.float64), rcond=None)[0]
    return np.asarray(x / scale)


def _gelu_tail(a: Number) -> Number:
    """W(a) of ``forge.codegen.gates``."""
    return mp.erfc(a / mp.sqrt(2)) * mp.exp(a * a / 2) / 2


def _gelu_double() -> list[Number]:
    def f(q: Number) -> Number:
        a = 4 * (1 + q) / (1 - q)
        return _gelu_tail(a) * (1 + 2 * a)

    return polynomial(f, 22, -1.0, float(mp.mpf(35) / 43), lambda q: 1 / f(q))


_FIRST = float(np.float32(-2 / float(mp.sqrt(mp.pi))))


def _erf_single() -> list[float]:
    def f(a: Number) -> Number:
        return mp.log(mp.erfc(a)) / a - mp.mpf(_FIRST)

    def weight(a: Number) -> Number:
        log = f(a) + mp.mpf(_FIRST)
        return min(1, log * a / mp.expm1(log * a)) / abs(log) if a > 1e-5 else 1 / abs(log)

    return rounded(f, 8, 1e-6, 3.95, weight, _float32)


def _tan_single() -> list[float]:
    def f(u: Number) -> Number:
        r = mp.sqrt(u)
        return (mp.tan(r) - r) / (r * u)

    return rounded(f, 6, 1e-9, 0.6185, lambda u: u * mp.sqrt(u) / mp.tan(mp.sqrt(u)), _float32)


def _float32(x: Number) -> float:
    return float(np.float32(float(x)))


def _bfloat16_gelu() -> list[Number]:
    """The 32nd root of gelu(-a) / -a in b = a - 6.5; subnormal results, below 2^-126, may have less precision."""
    def f(b: Number) -> Number:
        return mp.root(mp.erfc((b + 6.5) / mp.sqrt(2)) / 2, 32)

    return polynomial(f, 8, -6.5, 6.5, lambda b: 32 / f(b) * min(1, (b + 7.5) * f(b) ** 32 * mp.mpf(2) ** 126))


def _bfloat16_odd(f: Real, degree: int, one: float, high: float) -> list[Number]:
    """f(a) / a, which from ``one`` on, where results are 1 in bfloat16, may be less precise."""
    return polynomial(lambda a: f(a) / a, degree, 1e-4, high, lambda a: a / f(a) * (1 if a < one else 0.2))


def _relative(f: Real, degree: int, low: float, high: float) -> list[Number]:
    return polynomial(f, degree, low, high, lambda x: 1 / f(x))


FITS: dict[str, Callable[[], Any]] = {
    "gelu_single": lambda: rational(_gelu_tail, (4, 5), 1e-9, 14.6),
    "gelu_double": _gelu_double,
    "softplus_single": lambda: rational(lambda e: mp.log1p(e) / e, (3, 3), 1e-9, 1.0),
    "erf_single": _erf_single,
    "tan_single": _tan_single,
    "bfloat16_exp2": lambda: _relative(lambda r: mp.mpf(2) ** r, 3, -0.5, 0.5),
    "bfloat16_softplus": lambda: _relative(lambda e: mp.log1p(e) / e, 4, 1e-9, 1.0),
    "bfloat16_gelu": _bfloat16_gelu,
    "bfloat16_tanh": lambda: _bfloat16_odd(mp.tanh, 8, 3.46, 3.6),
    "bfloat16_erf": lambda: _bfloat16_odd(mp.erf, 6, 2.19, 2.3),
}
"""Fits by name; each gives the coefficients."""


def main(argv: Sequence[str]) -> int:
    mp.mp.dps = 60
    for name in argv or FITS:
        print(name, [[float(v) for v in part] if np.ndim(part) else float(part) for part in FITS[name]()])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
