"""pow in loop IR: exp2(y log2 |x|), with the logarithm in more precision than the result."""

from __future__ import annotations

import math

from forge.codegen import exponential
from forge.tir import expr as tir
from forge.tir import floats
from forge.tir.expr import Expr, select
from forge.tir.floats import absolute, constant, fma, is_nan, polynomial, single

Pair = tuple[Expr, Expr]
"""A number as the unevaluated sum of a float64 and a much smaller one."""

_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)

# ((2 atanh(s) - 2 s) / s^3 - 2/3) / z in z = s^2 for |s| <= 0.1716
_TAIL = (0.40000000000002267, 0.28571428570092555, 0.2222222252130238, 0.18181784236167045, 0.15386763801531608,
         0.13256657593902632, 0.13197897329506708)

_LIMIT = 2000.0  # twice the exponent range is 2046


def power(x: Expr, y: Expr) -> Expr:
    """IEEE's pow: a negative x needs an integer y, and the result has its sign where y is odd."""
    a = absolute(x)
    size = _single_magnitude(a, y) if single(x) else _double_magnitude(a, y)
    size = select(tir.logical_and(a.eq(1.0), absolute(y).eq(math.inf)), constant(x, 1.0), size)
    whole = tir.call("trunc", y).eq(y)
    half = y * 0.5
    odd = tir.logical_and(whole, tir.call("trunc", half).ne(half))
    result = select(odd, floats.copy_sign(size, x), size)
    invalid = tir.logical_and(tir.logical_and(x < 0.0, a < math.inf), tir.logical_not(whole))
    result = select(invalid, constant(x, math.nan), result)
    result = select(is_nan(x) | is_nan(y), x + y, result)
    return select(tir.binary("or", y.eq(0.0), x.eq(1.0)), constant(x, 1.0), result)


def _single_magnitude(a: Expr, y: Expr) -> Expr:
    """|x|^y of float32, by way of float64."""
    wide = a.astype("float64")
    return exponential.exp2(y.astype("float64") * exponential.log2(wide)).astype("float32")


def _double_magnitude(a: Expr, y: Expr) -> Expr:
    """|x|^y of float64, its exponent a pair."""
    high, low = _log2(a)
    exponent = y * high
    rest = tir.call("product_error", y, high) + y * low
    clamped = floats.clamp(exponent, -_LIMIT, _LIMIT)
    t = floats.shifted(clamped, 1.0)
    r = clamped - floats.unshifted(t) + select(absolute(exponent) < _LIMIT, rest, 0.0)
    return floats.scale(fma(r, polynomial(r, exponential.EXP2["float64"]), 1.0), t)


def _log2(a: Expr) -> Pair:
    """log2 of a positive number: e + log(m) / ln 2, log(m) = 2 s + 2/3 s^3 + s^5 (...) with s = (m - 1) / (m + 1)."""
    e, m = exponential.split(a)
    s = _quotient(m - 1.0, _sum(m, constant(m, 1.0)))
    z = _product(s, s)
    cube = _product(s, z)
    third = _product(cube, _constants(m, _TWO_THIRDS))
    beyond = cube[0] * z[0] * polynomial(z[0], _TAIL)
    log = _add(_add((s[0] * 2.0, s[1] * 2.0), third), (beyond, constant(m, 0.0)))
    high, low = _add((e, constant(e, 0.0)), _product(log, _constants(m, _LOG2_E)))
    edge = select(a.eq(0.0), constant(a, -math.inf), a)
    special = tir.binary("or", a.eq(0.0), a.eq(math.inf))
    return select(special, edge, high), select(special, constant(a, 0.0), low)


def _constants(x: Expr, pair: tuple[float, float]) -> Pair:
    return constant(x, pair[0]), constant(x, pair[1])


def _sum(a: Expr, b: Expr) -> Pair:
    """a + b exactly, for any sizes."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def _add(a: Pair, b: Pair) -> Pair:
    total, low = _sum(a[0], b[0])
    low = low + (a[1] + b[1])
    high = total + low
    return high, (total - high) + low


def _product(a: Pair, b: Pair) -> Pair:
    p = a[0] * b[0]
    low = tir.call("product_error", a[0], b[0]) + (a[0] * b[1] + a[1] * b[0])
    high = p + low
    return high, (p - high) + low


def _quotient(a: Expr, b: Pair) -> Pair:
    q = a / b[0]
    return q, (tir.call("residual", q, b[0], a) - q * b[1]) / b[0]
