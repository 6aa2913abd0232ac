"""Minimax fits: how the coefficients of ``forge.codegen`` were found. Needs mpmath.

    python -m scripts.minimax gelu_single

``polynomial`` is the exchange algorithm of Remez, in multiple precision; ``rational`` reweights a linear least-squares fit until
the relative error is level (Lawson's method). Coefficients are rounded one after another, and the others fitted again.
"""

from __future__ import annotations

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
    """Coefficients c, constant first, that minimise the largest |weight(x) (c(x) - f(x))|; the first ones are ``fixed``."""
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
