"""The regularized incomplete gamma functions. float32 and narrower types are computed in float64.

Errors in float64 against mpmath, relative to the result: 2e-15, times the logarithm of the result where that is small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from forge import te
from forge.ops.core.signatures import Array, Expr
from forge.ops.elementwise.rows import register_rows
from forge.ops.special import gamma_tables, tables
from forge.ops.special.functions import (
    INFINITY,
    erfc,
    in_float64,
    is_equal,
    lgamma_positive,
    number,
    polynomial,
    special_row,
)

# Temme's expansion holds from this a on, for x / a within these bounds.
LARGE = 20.0
TEMME_RANGE = (0.5, 1.7)
# Up to this x the upper function has a power series without cancellation.
SMALL = 1.5
# Terms after which nothing changes: of the series for x <= a (a <= 20) or x <= a / 2, of the continued fraction for x > 1.5 and
# x >= a (a <= 20) or x >= 1.7 a, of the power series for x <= 1.5, and of that of the inverse hyperbolic tangent.
SERIES, FRACTION, POWERS, TANGENT = 55, 65, 20, 17


@dataclass(frozen=True)
class _Point:
    """a and x, positive, and what all regions need."""

    a: Expr
    x: Expr
    distance: Expr  # (x - a) / a
    log_ratio: Expr  # ln(x / a) - distance


def _point(a: Expr, x: Expr) -> _Point:
    distance = (x - a) / a
    s = distance / (distance + 2.0)
    odd = polynomial(s * s, [1 / (2 * k + 3) for k in range(TANGENT)])
    near = s * s * s * odd * 2.0 - distance * s
    is_near = te.binary("and", distance > -0.51, distance < 0.71)
    return _Point(a, x, distance, te.select(is_near, near, te.call("log", x / a) - distance))


def _lgamma_of_next(a: Expr) -> Expr:
    """ln(gamma(1 + a)); its relative error is small for small a too."""
    low = te.binary("min", a, number(1.0))
    small = low * (low - 1.0) * polynomial(low * 2.0 - 1.0, tables.LGAMMA)
    return te.select(a < 1.0, small, lgamma_positive(te.binary("max", a, number(1.0)) + 1.0))


def _factor(p: _Point) -> Expr:
    """x^a exp(-x) / gamma(a + 1)."""
    low, x = te.binary("min", p.a, number(8.0)), te.binary("min", p.x, number(1000.0))
    small = te.call("pow", x, low) * te.call("exp", te.negate(x) - _lgamma_of_next(low))
    large = te.binary("max", p.a, number(8.0))
    inverse = number(1.0) / large
    stirling = inverse * polynomial(inverse * inverse, tables.STIRLING)
    result = te.call("exp", large * p.log_ratio - stirling) / te.call("sqrt", large * (2 * math.pi))
    return te.select(p.a < 8.0, small, result)


def _series(p: _Point) -> Expr:
    """P / factor."""
    total: Expr = number(1.0)
    for k in range(SERIES, 0, -1):
        total = te.call("fma", p.x / (p.a + float(k)), total, number(1.0))
    return total


def _fraction(p: _Point) -> Expr:
    """factor * a / Q."""
    base = p.x - p.a
    total = base + float(2 * FRACTION + 1)
    for k in range(FRACTION, 0, -1):
        total = base + float(2 * k - 1) + te.call("fma", p.a, number(float(k)), number(-float(k * k))) / total
    return total


def _upper_of_small(p: _Point) -> Expr:
    """Q of x <= 1.5: 1 - x^a / gamma(1 + a), and a power series."""
    x = te.binary("min", p.x, number(SMALL))
    a = te.binary("min", p.a, number(SMALL))
    exponent = a * te.call("log", x) - _lgamma_of_next(a)
    term: Expr = number(1.0)
    total: Expr = number(0.0)
    for n in range(1, POWERS):
        term = term * x * (-1.0 / n)
        total = total + term / (a + float(n))
    return te.negate(te.call("expm1", exponent)) - te.call("exp", exponent) * a * total


def _temme(p: _Point, upper: bool) -> Expr:
    a = te.binary("max", p.a, number(LARGE))
    half_square = te.binary("max", te.negate(p.log_ratio), number(0.0))
    eta = te.call("sqrt", half_square * 2.0)
    eta = te.select(p.distance < 0.0, te.negate(eta), eta)
    eta = te.binary("max", te.binary("min", eta, number(1.0)), number(-1.0))
    inverse = number(1.0) / a
    total = polynomial(eta, gamma_tables.TEMME[-1])
    for row in reversed(gamma_tables.TEMME[:-1]):
        total = te.call("fma", total, inverse, polynomial(eta, row))
    rest = te.call("exp", te.negate(a * half_square)) * total / te.call("sqrt", a * (2 * math.pi))
    shifted = eta * te.call("sqrt", a * 0.5)
    if upper:
        return erfc(shifted) * 0.5 + rest
    return erfc(te.negate(shifted)) * 0.5 - rest


def _incomplete(upper: bool) -> Callable[[Expr, Expr], Expr]:
    def lower(a: Expr, x: Expr) -> Expr:
        p = _point(a, x)
        factor = _factor(p)
        p_series = factor * _series(p)
        q_fraction = factor * a / _fraction(p)
        q_small = _upper_of_small(p)
        # where x is so small that 1 - P would lose digits; x^a is then near 1
        tiny = te.select(x < 0.5, a * te.call("log", x) > -0.4, a < x)
        tiny = te.binary("and", tiny, x < SMALL)
        below = te.binary("or", x < SMALL, x < a)
        if upper:
            value = te.select(tiny, q_small, te.select(below, number(1.0) - p_series, q_fraction))
        else:
            value = te.select(below, p_series, number(1.0) - q_fraction)
        low, high = TEMME_RANGE
        central = te.binary("and", a > LARGE, te.binary("and", x > a * low, x < a * high))
        value = te.select(central, _temme(p, upper), value)
        nothing, all_ = (number(1.0), number(0.0)) if upper else (number(0.0), number(1.0))
        wrong = number(math.nan)
        value = te.select(is_equal(x, INFINITY), all_, value)
        value = te.select(is_equal(a, INFINITY), te.select(is_equal(x, INFINITY), wrong, nothing), value)
        value = te.select(is_equal(x, 0.0), nothing, value)
        value = te.select(is_equal(a, 0.0), te.select(x > 0.0, all_, wrong), value)
        return te.select(te.binary("or", a < 0.0, x < 0.0), wrong, value)

    return lower


# The NumPy meanings.

# Between these places the exp-sinh quadrature goes from 1e-31 to 1e18 times the scale of the integrand.
ENDS = (-4.5, 4.0)


def _prefix(a: float, x: float) -> float:
    """x^a exp(-x) / gamma(a), by Stirling's series."""
    with localcontext() as context:
        context.prec = 50
        big_a, big_x = Decimal(a), Decimal(x)
        moved = big_a + 20 if a < LARGE else big_a
        stirling = sum((Decimal(c) / moved ** (2 * k + 1) for k, c in enumerate(tables.STIRLING)), Decimal(0))
        turn = Decimal(2) * Decimal("3.14159265358979323846264338327950288419716939937511")
        if a >= LARGE:
            ratio = (big_x / big_a).ln() - (big_x - big_a) / big_a
            logarithm = big_a * ratio - stirling + (big_a / turn).ln() / 2
        else:
            log_gamma = (moved - Decimal("0.5")) * moved.ln() - moved + turn.ln() / 2 + stirling
            log_gamma -= math.prod((big_a + k for k in range(20)), start=Decimal(1)).ln()
            logarithm = big_a * big_x.ln() - big_x - log_gamma
        return float(max(logarithm, Decimal(-800)).exp())


def _part(a: float, x: float, upper: bool) -> float:
    """Q, or P, by the integral over t = x exp(v), or x exp(-v)."""
    sign = 1.0 if upper else -1.0
    # where the integrand begins to fall; of a small x it does so at once
    scale = 1 - math.log(x) if upper and x < 1 else 1 / math.sqrt(x) if upper else 1 / min(a, math.sqrt(a))
    step = 0.05 / (10 + scale) if upper else 0.005
    t = ENDS[0] + np.arange(int((ENDS[1] - ENDS[0]) / step)) * step
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        v = scale * np.exp(math.pi / 2 * np.sinh(t))
        exponent = sign * (x - a) * v + _bent(x, sign * v)
        values = np.exp(-np.minimum(exponent, 800.0)) * v * np.cosh(t)
    return _prefix(a, x) * float(np.sum(np.where(np.isfinite(values), values, 0.0))) * step * math.pi / 2


def _bent(x: float, v: Array) -> Array:
    """x (exp(v) - 1 - v)."""
    small = v * v * np.polyval([1 / math.factorial(k) for k in range(16, 1, -1)], v)
    return np.where(np.abs(v) < 0.5, x * small, np.exp(np.minimum(v + math.log(x), 709.0)) - x - x * v)


def _incomplete_of(a: float, x: float, upper: bool) -> float:
    nothing, all_ = (1.0, 0.0) if upper else (0.0, 1.0)
    if a < 0 or x < 0 or (a == 0 and not x > 0):
        return math.nan
    if a == 0 or x == 0:
        return all_ if a == 0 else nothing
    if math.isinf(a):
        return math.nan if math.isinf(x) else nothing
    if math.isinf(x):
        return all_
    if math.isnan(a) or math.isnan(x):
        return math.nan
    # the part that is small; of a small a, Q may be so for all x
    by_upper = x >= a or a < 1e-3 or (upper and a < 0.05)
    part = _part(a, x, by_upper)
    return part if upper == by_upper else 1 - part


def _of_two(upper: bool) -> Callable[[Array, Array], Array]:
    def run(a: Array, x: Array) -> Array:
        first, second = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
        flat = [_incomplete_of(p, q, upper) for p, q in zip(first.ravel().tolist(), second.ravel().tolist())]
        return np.array(flat, np.float64).reshape(first.shape).astype(a.dtype)

    return run


register_rows(__name__, [
    special_row("igamma", "the integral of t^(lhs - 1) exp(-t) / gamma(lhs) over t from 0 to rhs; NaN for negative operands",
                _of_two(False), in_float64(_incomplete(False)), 2, flops=900),
    special_row("igammac", "1 - igamma(lhs, rhs), accurate where that is small", _of_two(True), in_float64(_incomplete(True)), 2,
                flops=900),
])
