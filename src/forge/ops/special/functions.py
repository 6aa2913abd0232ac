"""Special functions. float32 and narrower types are computed in float64 and rounded once: 0.50 ulp (exp2: 0.76).

Errors in float64 against mpmath, in ulp: cbrt 1, hypot and logaddexp 2, lgamma of positive numbers, erfc, erfcx and erfinv 4,
Bessel functions 20 (at 8). lgamma of negative numbers and digamma have zeros, near which errors are small only relative to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from forge import te
from forge.ir.op import Accuracy, Trait
from forge.ops.core.signatures import Array, Expr
from forge.ops.elementwise.rows import Row, register_rows
from forge.ops.special import tables

WORK = "float64"
INFINITY = float("inf")
ROOT_PI = math.sqrt(math.pi)
CENTRE = 3.75
ERFC_ENDS = tuple((x - CENTRE) / (x + CENTRE) for x in (0.5, 28.0))
TAIL_ENDS = (math.sqrt(6.0), 6.2)


def number(value: float) -> Expr:
    return te.const(value, WORK)


def polynomial(t: Expr, coefficients: Sequence[float]) -> Expr:
    """Horner's rule; the constant term comes first."""
    total: Expr = number(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = te.call("fma", total, t, number(c))
    return total


def _onto_unit(x: Expr, ends: Sequence[float]) -> Expr:
    """The range between ``ends`` moved to [-1, 1]."""
    low, high = ends
    return te.call("fma", x, number(2 / (high - low)), number(-(low + high) / (high - low)))


def magnitude(x: Expr) -> Expr:
    return te.call("abs", x)


def is_equal(x: Expr, value: float) -> Expr:
    return x.eq(number(value))


def _erfc_tail(a: Expr) -> Expr:
    """erfc of a >= 0.5: exp(-a^2) times a polynomial, where the square of a with few digits is exact and the rest is small.

    The exponential comes in factors, as it may be subnormal.
    """
    a = te.binary("min", a, number(28.0))
    coarse = te.call("round", a * 64.0) * (1 / 64)
    half = te.call("exp", coarse * coarse * -0.5)
    rest = te.call("exp", (coarse - a) * (coarse + a))
    t = _onto_unit((a - CENTRE) / (a + CENTRE), ERFC_ENDS)
    return polynomial(t, tables.ERFCX) / (a * 2.0 + 1.0) * rest * half * half


def erfc(x: Expr) -> Expr:
    a = magnitude(x)
    tail = _erfc_tail(te.binary("max", a, number(0.5)))
    outer = te.select(x < 0.0, number(2.0) - tail, tail)
    return te.select(a < 0.5, number(1.0) - te.call("erf", x), outer)


def erfcx(x: Expr) -> Expr:
    """erfc by its polynomial without the exponential, or by its series in 1 / (2 x^2); for negative x with exp(x^2)."""
    a = magnitude(x)
    near = te.binary("min", te.binary("max", a, number(0.5)), number(28.0))
    inner = polynomial(_onto_unit((near - CENTRE) / (near + CENTRE), ERFC_ENDS), tables.ERFCX) / (near * 2.0 + 1.0)
    far = te.binary("max", a, number(28.0))
    outer = polynomial(number(0.5) / (far * far), tables.ERFCX_FAR) / (far * ROOT_PI)
    value = te.select(a < 28.0, inner, outer)
    least = te.binary("min", a, number(28.0))
    coarse = te.call("round", least * 64.0) * (1 / 64)
    square = te.call("exp", coarse * coarse) * te.call("exp", (least - coarse) * (least + coarse))
    central = square * (number(1.0) - te.call("erf", x))
    return te.select(a < 0.5, central, te.select(x < 0.0, square * 2.0 - value, value))


def erfinv(x: Expr) -> Expr:
    """A polynomial of w = -log(1 - x^2) or of its root, and one step of Halley's method."""
    a = magnitude(x)
    missing = number(1.0) - a
    w = te.negate(te.call("log", missing * (a + 1.0)))
    root = te.binary("min", te.call("sqrt", te.binary("max", w, number(0.0))), number(TAIL_ENDS[1]))
    central = a * polynomial(w * (1 / 3) - 1.0, tables.ERFINV_CENTRAL)
    y = te.select(w < 6.0, central, polynomial(_onto_unit(root, TAIL_ENDS), tables.ERFINV_TAIL))
    excess = te.select(a < 0.53, te.call("erf", y) - a, missing - _erfc_tail(te.binary("max", y, number(0.25))))
    step = excess / (te.call("exp", te.negate(y * y)) * (2 / ROOT_PI))
    y = y - step / (y * step + 1.0)
    y = te.select(is_equal(a, 1.0), number(INFINITY), y)
    return te.select(x < 0.0, te.negate(y), y)


def _sine_of_pi(a: Expr) -> Expr:
    """|sin(pi a)|; 0 for whole numbers."""
    return te.call("sin", magnitude(a - te.call("round", a)) * math.pi)


def _lgamma_below_8(a: Expr) -> Expr:
    """For 0 <= a < 8, by lgamma of 1 <= r <= 2 and the logarithm of what r and a differ by."""
    steps = te.binary("max", te.call("floor", a) - 1.0, number(0.0))
    small = a < 1.0
    above = te.select(small, a, a - steps - 1.0)
    below = te.select(small, a - 1.0, a - steps - 2.0)
    factors: Expr = te.select(small, a, number(1.0))
    for k in range(6):
        factors = factors * te.select(steps > float(k), above + float(k + 1), number(1.0))
    logarithm = te.call("log", factors)
    return above * below * polynomial(above + below, tables.LGAMMA) + te.select(small, te.negate(logarithm), logarithm)


def lgamma_positive(a: Expr) -> Expr:
    large = te.binary("max", a, number(8.0))
    inverse = number(1.0) / large
    series = inverse * polynomial(inverse * inverse, tables.STIRLING)
    stirling = (large - 0.5) * (te.call("log", large) - 1.0) + (series + (math.log(2 * math.pi) - 1) / 2)
    return te.select(a < 8.0, _lgamma_below_8(te.binary("min", a, number(8.0))), stirling)


def lgamma(x: Expr) -> Expr:
    a = magnitude(x)
    positive = lgamma_positive(a)
    sine = _sine_of_pi(a)
    reflected = number(math.log(math.pi)) - te.call("log", a) - te.call("log", sine) - positive
    reflected = te.select(is_equal(sine, 0.0), number(INFINITY), reflected)
    return te.select(is_equal(a, INFINITY), a, te.select(x < -1e-200, reflected, positive))  # nearer 0 both are -ln(a)


def digamma(x: Expr) -> Expr:
    negative = x < 0.0
    y: Expr = te.select(negative, number(1.0) - x, x)
    total: Expr = number(0.0)
    for _ in range(10):
        below = y < 10.0
        total = total - te.select(below, number(1.0) / y, number(0.0))
        y = te.select(below, y + 1.0, y)
    inverse = number(1.0) / y
    square = inverse * inverse
    positive = total + te.call("log", y) - inverse * 0.5 - square * polynomial(square, tables.DIGAMMA)
    fraction = x - te.call("round", x)
    reflected = positive - number(math.pi) / te.call("tan", fraction * math.pi)
    reflected = te.select(fraction.eq(number(0.0)), number(float("nan")), reflected)
    return te.select(is_equal(x, 0.0), number(-1.0) / x, te.select(negative, reflected, positive))


def _bessel(a: Expr, small: Expr, large: Sequence[float]) -> Expr:
    far = te.binary("max", a, number(8.0))
    outer = polynomial(number(16.0) / far - 1.0, large) / te.call("sqrt", far)
    return te.select(a < 8.0, small, outer)


def _near(a: Expr) -> Expr:
    return te.binary("min", a, number(8.0)) * 0.25 - 1.0


def i0e(x: Expr) -> Expr:
    a = magnitude(x)
    return _bessel(a, polynomial(_near(a), tables.I0_SMALL), tables.I0_LARGE)


def i1e(x: Expr) -> Expr:
    a = magnitude(x)
    value = _bessel(a, a * polynomial(_near(a), tables.I1_SMALL), tables.I1_LARGE)
    return te.select(x < 0.0, te.negate(value), value)


def _unscaled(scaled: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """The function times exp(|x|), in two factors, as the result may be finite where that is not."""

    def lower(x: Expr) -> Expr:
        a = magnitude(x)
        half = te.call("exp", a * 0.5)
        value = scaled(x) * half * half
        limit = a if scaled is i0e else x
        return te.select(is_equal(a, INFINITY), limit, value)

    return lower


def cbrt(x: Expr) -> Expr:
    """exp2(log2(|x|) / 3) and one step of Newton's method."""
    a = magnitude(x)
    y = te.call("exp2", te.call("log2", a) * (1 / 3))
    y = y - (y - a / (y * y)) * (1 / 3)
    root = te.select(x < 0.0, te.negate(y), y)
    return te.select(te.binary("or", is_equal(a, 0.0), is_equal(a, INFINITY)), x, root)


def hypot(a: Expr, b: Expr) -> Expr:
    a, b = magnitude(a), magnitude(b)
    larger, smaller = te.binary("max", a, b), te.binary("min", a, b)
    ratio = smaller / larger
    length = te.select(is_equal(larger, 0.0), larger, larger * te.call("sqrt", ratio * ratio + 1.0))
    infinite = te.binary("or", is_equal(a, INFINITY), is_equal(b, INFINITY))
    return te.select(infinite, number(INFINITY), length)


def logaddexp(a: Expr, b: Expr) -> Expr:
    larger, smaller = te.binary("max", a, b), te.binary("min", a, b)
    result = larger + te.call("log1p", te.call("exp", smaller - larger))
    return te.select(is_equal(magnitude(larger), INFINITY), larger, result)


def xlogy(a: Expr, b: Expr) -> Expr:
    zero = te.logical_and(is_equal(a, 0.0), te.logical_not(te.call("isnan", b)))
    return te.select(zero, number(0.0), a * te.call("log", b))


def in_float64(function: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda *x: te.cast(function(*(te.cast(v, WORK) for v in x)), x[0].dtype)


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """The NumPy meaning out of a function of one Python number."""

    def run(x: Array) -> Array:
        flat = [math.nan if math.isnan(v) else function(v) for v in x.astype(np.float64).ravel().tolist()]
        return np.array(flat, np.float64).reshape(x.shape).astype(x.dtype)

    return run


def _erfcx_of(x: float) -> float:
    """A continued fraction where x is large."""
    if x < 2:
        coarse = round(max(x, -30) * 64) / 64
        square = math.exp(min(coarse * coarse, 709)) * math.exp(min((x - coarse) * (x + coarse), 709))
        return math.inf if x < -26.7 else square * math.erfc(x) if x > -2 else 2 * square - _erfcx_of(-x)
    fraction = x
    for k in range(200, 0, -1):
        fraction = x + k / 2 / fraction
    return 1 / (ROOT_PI * fraction)


def _erfinv_of(x: float) -> float:
    if abs(x) >= 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if x == 0:
        return x
    y = -NormalDist().inv_cdf((1 - abs(x)) / 2) / math.sqrt(2)
    for _ in range(3):
        error = math.erf(y) - abs(x) if abs(x) < 0.5 else (1 - abs(x)) - math.erfc(y)
        y -= error * ROOT_PI / 2 * math.exp(y * y)
    return math.copysign(y, x)


def _lgamma_of(x: float) -> float:
    return math.inf if x > 1e306 or x == -math.inf or (x <= 0 and x == math.floor(x)) else math.lgamma(x)


def _digamma_of(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, -x)
    if math.isinf(x):
        return x if x > 0 else math.nan
    if x < 0:
        return math.nan if x == math.floor(x) else _digamma_of(1 - x) - math.pi / math.tan(math.pi * (x - round(x)))
    terms = []
    while x < 20:
        terms.append(-1 / x)
        x += 1
    terms += [math.log(x), -0.5 / x, *(-c * (1 / x) ** (2 * k) for k, c in enumerate(tables.DIGAMMA, 1))]
    return math.fsum(terms)


def _far_bessel(order: int, x: float) -> float:
    terms = [1.0]
    for k in range(1, 6):
        terms.append(-terms[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k) / x)
    return math.fsum(terms) / (math.sqrt(2 * math.pi) * math.sqrt(x))


def _scaled_bessel(order: int) -> Callable[[float], float]:
    """exp(-|x|) I(x): the power series, whose terms are all positive, the integral over a period, or the asymptotic series."""
    angles = (np.arange(4096) + 0.5) * (math.pi / 4096)

    def run(x: float) -> float:
        a = abs(x)
        if a < 12:
            series = math.fsum((a / 2) ** (2 * k + order) / (math.factorial(k) * math.factorial(k + order)) for k in range(60))
            return math.copysign(series * math.exp(-a), x) if order else series * math.exp(-a)
        narrow = a < 10000
        value = float(np.mean(np.exp(a * (np.cos(angles) - 1)) * np.cos(order * angles))) if narrow else _far_bessel(order, a)
        return math.copysign(value, x) if order else value

    return run


def _bessel_of(order: int) -> Callable[[float], float]:
    scaled = _scaled_bessel(order)

    def run(x: float) -> float:
        if math.isinf(x):
            return x if order else abs(x)
        half = math.exp(min(abs(x) / 2, 700))
        return scaled(x) * half * half

    return run


def _xlogy(a: Array, b: Array) -> Array:
    return np.where((a == 0) & ~np.isnan(b), 0, a * np.log(b)).astype(a.dtype)


def special_row(
    name: str, doc: str, reference: Callable[..., Array], lower: Callable[..., Expr], count: int = 1, flops: int = 40
) -> Row:
    operands = ("data",) if count == 1 else ("lhs", "rhs")
    traits = Trait.COMMUTATIVE if name in ("hypot", "logaddexp") else Trait.NONE
    return Row(name, doc, reference, lower, operands, "float", accuracy=Accuracy.ROUNDING, traits=traits, flops=flops)


register_rows(__name__, [
    special_row("exp2", "2 ** data", np.exp2, lambda x: te.call("exp2", x), flops=10),
    special_row("cbrt", "the cube root of data", np.cbrt, in_float64(cbrt)),
    special_row("hypot", "sqrt(lhs^2 + rhs^2) without overflow; infinite where one is", np.hypot, in_float64(hypot), 2),
    special_row("logaddexp", "ln(exp(lhs) + exp(rhs))", np.logaddexp, in_float64(logaddexp), 2),
    special_row("xlogy", "lhs * ln(rhs); 0 where lhs is 0 and rhs no NaN", _xlogy, in_float64(xlogy), 2),
    special_row("erfc", "1 - erf(data), accurate where that is small", each(math.erfc), in_float64(erfc)),
    special_row("erfcx", "exp(data^2) * erfc(data)", each(_erfcx_of), in_float64(erfcx), flops=60),
    special_row("erfinv", "the inverse of erf", each(_erfinv_of), in_float64(erfinv), flops=120),
    special_row("lgamma", "ln(|gamma(data)|); infinite at 0 and the negative integers", each(_lgamma_of),
                in_float64(lgamma), flops=80),
    special_row("digamma", "the derivative of ln(gamma(data)); NaN at the negative integers", each(_digamma_of),
                in_float64(digamma), flops=80),
    special_row("i0", "the modified Bessel function of order 0", each(_bessel_of(0)), in_float64(_unscaled(i0e)), flops=80),
    special_row("i0e", "exp(-|data|) * i0(data)", each(_scaled_bessel(0)), in_float64(i0e), flops=60),
    special_row("i1", "the modified Bessel function of order 1", each(_bessel_of(1)), in_float64(_unscaled(i1e)), flops=80),
    special_row("i1e", "exp(-|data|) * i1(data)", each(_scaled_bessel(1)), in_float64(i1e), flops=60),
])
