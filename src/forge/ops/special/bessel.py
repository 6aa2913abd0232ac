"""Bessel functions of orders 0 and 1, and the Airy function. float32 and narrower types are computed in float64.

Errors in float64 against mpmath, relative to 1 (to the value, for K): 2e-15 below 100; beyond, that of the sine of the argument.
Of infinite arguments J, Y and Ai are NaN, as in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext

import numpy as np

from forge import te
from forge.ops.core.signatures import Expr
from forge.ops.elementwise.rows import register_rows
from forge.ops.special import bessel_tables as tables
from forge.ops.special.functions import INFINITY, each, in_float64, is_equal, magnitude, number, polynomial, special_row

# What separates the rational functions of Cephes.
NEAR = 5.0
AIRY_NEAR = 2.09
# Centre of 1 to 2.09, and half that range.
MIDDLE, HALF_MIDDLE = 1.545, 0.545
# Squares of the first two positive zeros of J0 and of J1.
J_ZEROS = ((5.783185962946784, 30.471262343662087), (14.681970642123893, 49.21845632169460))
EULER = 0.57721566490153286
# Terms of power series in x^2 / 4 up to 1: the last one is below 1e-18.
SERIES = 13
# Terms of power series of Ai in x^3, up to 2.09^3.
AIRY_SERIES = 12
AIRY_AT_0 = "0.355028053887817239260063186004183176397979174199177"
AIRY_SLOPE_AT_0 = "0.258819403792806798405183560189203963479091138354935"


def _ratio(t: Expr, numerator: Sequence[float], denominator: Sequence[float]) -> Expr:
    return polynomial(t, numerator) / polynomial(t, denominator)


def _waves(order: int, a: Expr) -> tuple[Expr, Expr]:
    """J and Y of a >= 5: parts in phase with cosine and sine of a - pi / 4 (3 pi / 4 for order 1), and in quadrature.

    These are sums of cosine and sine of a itself, which is exact.
    """
    table = _TABLES[order]
    inverse = number(NEAR) / a
    square = inverse * inverse
    p = _ratio(square, table["PP"], table["PQ"])
    q = inverse * _ratio(square, table["QP"], table["QQ"])
    sine, cosine = te.call("sin", a), te.call("cos", a)
    sum_, difference = sine + cosine, sine - cosine
    # sqrt(2) times cosine and sine of the shifted argument
    c, s = (sum_, difference) if order == 0 else (difference, te.negate(sum_))
    scale = number(1 / math.sqrt(math.pi)) / te.call("sqrt", a)
    return (p * c - q * s) * scale, (p * s + q * c) * scale


_TABLES = tuple(
    {part: getattr(tables, f"J{order}_{part}") for part in ("RP", "RQ", "PP", "PQ", "QP", "QQ")} for order in (0, 1)
)


def _j_near(order: int, a: Expr) -> Expr:
    """J of a <= 5."""
    square = a * a
    first, second = J_ZEROS[order]
    value = (square - first) * (square - second) * _ratio(square, _TABLES[order]["RP"], _TABLES[order]["RQ"])
    return value * a if order else value


def _near(a: Expr) -> Expr:
    return te.binary("min", a, number(NEAR))


def _far(a: Expr) -> Expr:
    return te.binary("max", a, number(NEAR))


def _j(order: int) -> Callable[[Expr], Expr]:
    def lower(x: Expr) -> Expr:
        a = magnitude(x)
        value = te.select(a < NEAR, _j_near(order, _near(a)), _waves(order, _far(a))[0])
        return te.select(x < 0.0, te.negate(value), value) if order else value

    return lower


def _y(order: int) -> Callable[[Expr], Expr]:
    def lower(x: Expr) -> Expr:
        near = _near(x)
        top, bottom = (tables.Y0_P, tables.Y0_Q) if order == 0 else (tables.Y1_P, tables.Y1_Q)
        regular = _ratio(near * near, top, bottom)
        logarithm = te.call("log", near) * _j_near(order, near)
        if order:
            inner = regular * near + (logarithm - number(1.0) / near) * (2 / math.pi)
        else:
            inner = regular + logarithm * (2 / math.pi)
        value = te.select(x < NEAR, inner, _waves(order, _far(x))[1])
        return te.select(is_equal(x, 0.0), number(-INFINITY), te.select(x < 0.0, number(math.nan), value))

    return lower


def _harmonic(n: int) -> float:
    return math.fsum(1 / k for k in range(1, n + 1))


def _k_scaled_parts(order: int, x: Expr) -> tuple[Expr, Expr]:
    """K of x <= 2, by its power series, and exp(x) K of x >= 2."""
    near, far = te.binary("min", x, number(2.0)), te.binary("max", x, number(2.0))
    u = near * near * 0.25
    weights = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(SERIES)]
    psi = [_harmonic(k) - EULER for k in range(SERIES + 1)]
    tiny = near < 1e-300  # half of it may be 0
    logarithm = te.call("log", te.select(tiny, near, near * 0.5)) - te.select(tiny, number(math.log(2)), number(0.0))
    if order == 0:
        inner = polynomial(u, [w * p for w, p in zip(weights, psi)]) - logarithm * polynomial(u, weights)
    else:
        means = [w * (psi[k] + psi[k + 1]) / 2 for k, w in enumerate(weights)]
        half = near * 0.5
        inner = number(1.0) / near + half * (logarithm * polynomial(u, weights) - polynomial(u, means))
    large = tables.K0_LARGE if order == 0 else tables.K1_LARGE
    return inner, polynomial(number(4.0) / far - 1.0, large) / te.call("sqrt", far)


def _k(order: int, scaled: bool) -> Callable[[Expr], Expr]:
    def lower(x: Expr) -> Expr:
        inner, outer = _k_scaled_parts(order, x)
        if scaled:
            inner = inner * te.call("exp", te.binary("min", x, number(2.0)))
        else:
            half = te.call("exp", x * -0.5)
            outer = outer * half * half
        value = te.select(x < 2.0, inner, outer)
        return te.select(is_equal(x, 0.0), number(INFINITY), te.select(x < 0.0, number(math.nan), value))

    return lower


def spherical_j0(x: Expr) -> Expr:
    a = magnitude(x)
    near = te.binary("min", a, number(0.5))
    series = polynomial(near * near, [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)])
    value = te.select(a < 0.5, series, te.call("sin", a) / te.binary("max", a, number(0.5)))
    return te.select(is_equal(a, INFINITY), number(0.0), value)


def _airy_series() -> tuple[list[float], list[float]]:
    """Coefficients in x^3 of the two solutions that Ai consists of."""
    even, odd = [1.0], [1.0]
    for k in range(1, AIRY_SERIES):
        even.append(even[-1] / ((3 * k - 1) * 3 * k))
        odd.append(odd[-1] / (3 * k * (3 * k + 1)))
    return [float(AIRY_AT_0) * c for c in even], [float(AIRY_SLOPE_AT_0) * c for c in odd]


def airy(x: Expr) -> Expr:
    even, odd = _airy_series()
    near = te.binary("max", te.binary("min", x, number(AIRY_NEAR)), number(-AIRY_NEAR))
    cube = near * near * near
    # above 1 the difference would lose digits
    middle = polynomial((near - MIDDLE) * (1 / HALF_MIDDLE), tables.AIRY_MIDDLE)
    central = te.select(near > 1.0, middle, polynomial(cube, even) - near * polynomial(cube, odd))
    far = te.binary("max", magnitude(x), number(AIRY_NEAR))
    root = te.call("sqrt", far)
    w = far * root * (2 / 3)
    inverse = number(1.0) / w
    scale = number(1 / math.sqrt(math.pi)) / te.call("sqrt", root)
    half = te.call("exp", w * -0.5)
    above = _ratio(inverse, tables.AIRY_AN, tables.AIRY_AD) * scale * half * half * 0.5
    square = inverse * inverse
    p = square * _ratio(square, tables.AIRY_AFN, tables.AIRY_AFD) + 1.0
    q = inverse * _ratio(square, tables.AIRY_AGN, tables.AIRY_AGD)
    sine, cosine = te.call("sin", w), te.call("cos", w)
    below = ((sine + cosine) * p - (cosine - sine) * q) * scale * math.sqrt(0.5)
    value = te.select(x > 0.0, above, below)
    value = te.select(magnitude(x) < AIRY_NEAR, central, value)
    return te.select(is_equal(magnitude(x), INFINITY), number(math.nan), value)


# The NumPy meanings.

ANGLES = (np.arange(512) + 0.5) * (2 * math.pi / 512)
# From here on the asymptotic series is exact enough; below, the sum over 512 angles.
ASYMPTOTIC = 25.0


def _j_of(order: int, x: float) -> float:
    """The mean over a period of cos(order t - x sin t); the power series where x is small."""
    if abs(x) < 1:
        factors = ((-x * x / 4) ** k / (math.factorial(k) * math.factorial(k + order)) for k in range(16))
        return (x / 2) ** order * math.fsum(factors)
    return float(np.mean(np.cos(order * ANGLES - x * np.sin(ANGLES))))


def _hankel(order: int, x: float) -> tuple[float, float]:
    """J and Y of a large x by their asymptotic series."""
    terms = [1.0]
    for k in range(1, 24):
        terms.append(terms[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k) / x)
    p = math.fsum((-1) ** k * t for k, t in enumerate(terms[::2]))
    q = math.fsum((-1) ** k * t for k, t in enumerate(terms[1::2]))
    sum_, difference = math.sin(x) + math.cos(x), math.sin(x) - math.cos(x)
    c, s = (sum_, difference) if order == 0 else (difference, -sum_)
    scale = math.sqrt(math.pi) * math.sqrt(x)
    return (p * c - q * s) / scale, (p * s + q * c) / scale


def _bessel_j_of(order: int) -> Callable[[float], float]:
    def run(x: float) -> float:
        if math.isinf(x):
            return math.nan
        a = abs(x)
        value = _j_of(order, a) if a < ASYMPTOTIC else _hankel(order, a)[0]
        return math.copysign(1, x) * value if order else value

    return run


def _bessel_y_of(order: int) -> Callable[[float], float]:
    """Neumann's series in J; that of order 1 is its derivative."""

    def run(x: float) -> float:
        if x <= 0 or math.isinf(x):
            return -math.inf if x == 0 else math.nan
        if x >= ASYMPTOTIC:
            return _hankel(order, x)[1]
        logarithm = math.log(x) - math.log(2) + EULER
        if order == 0:
            rest = [-2 * (-1) ** k * _j_of(2 * k, x) / k for k in range(1, 60)]
            return 2 / math.pi * math.fsum([logarithm * _j_of(0, x), *rest])
        rest = [(-1) ** k * (_j_of(2 * k - 1, x) - _j_of(2 * k + 1, x)) / k for k in range(1, 60)]
        return 2 / math.pi * math.fsum([logarithm * _j_of(1, x), -_j_of(0, x) / x, *rest])

    return run


def _bessel_k_of(order: int, scaled: bool) -> Callable[[float], float]:
    """The integral of exp(-x cosh t) cosh(order t) over t >= 0, by sums whose step suits the width of the integrand."""

    def run(x: float) -> float:
        if x <= 0 or math.isinf(x):
            return math.inf if x == 0 else math.nan if x < 0 else 0.0
        if order and x < 1e-9:
            return 1 / x if x > 1e-308 else math.inf
        t = np.arange(0, math.asinh(20 / math.sqrt(x)) * 2, 0.05 / max(1.0, math.sqrt(x)))
        values = np.exp(-2 * (math.sqrt(x) * np.sinh(t / 2)) ** 2) * np.cosh(order * t)
        value = (math.fsum(values.tolist()) - values[0] / 2) * (t[1] - t[0])
        half = 1.0 if scaled else math.exp(-x / 2)
        return float(value * half * half)

    return run


def _spherical_of(x: float) -> float:
    return 0.0 if math.isinf(x) else math.sin(x) / x if x else 1.0


def _airy_of(x: float) -> float:
    """The power series with 60 digits, or asymptotic series."""
    if math.isinf(x):
        return math.nan
    if -15 < x < 12:
        with localcontext() as context:
            context.prec = 60
            z, even, odd = Decimal(x), Decimal(AIRY_AT_0), Decimal(AIRY_SLOPE_AT_0) * Decimal(x)
            total = even - odd
            for k in range(1, 120):
                even *= z**3 / ((3 * k - 1) * 3 * k)
                odd *= z**3 / (3 * k * (3 * k + 1))
                total += even - odd
            return float(total)
    w = abs(x) * math.sqrt(abs(x)) * (2 / 3)
    if math.isinf(w):
        return 0.0 if x > 0 else math.nan
    terms = [1.0]
    for k in range(1, 24):
        terms.append(terms[-1] * (6 * k - 5) * (6 * k - 1) / (72 * k) / w)
    scale = math.sqrt(math.pi) * math.sqrt(math.sqrt(abs(x)))
    if x > 0:
        return math.exp(-w) / (2 * scale) * math.fsum((-1) ** k * t for k, t in enumerate(terms))
    p = math.fsum((-1) ** k * t for k, t in enumerate(terms[::2]))
    q = math.fsum((-1) ** k * t for k, t in enumerate(terms[1::2]))
    return ((math.sin(w) + math.cos(w)) * p - (math.cos(w) - math.sin(w)) * q) / (scale * math.sqrt(2))


register_rows(__name__, [
    special_row("bessel_j0", "the Bessel function of the first kind of order 0", each(_bessel_j_of(0)),
                in_float64(_j(0)), flops=120),
    special_row("bessel_j1", "the Bessel function of the first kind of order 1", each(_bessel_j_of(1)),
                in_float64(_j(1)), flops=120),
    special_row("bessel_y0", "the Bessel function of the second kind of order 0; NaN below 0", each(_bessel_y_of(0)),
                in_float64(_y(0)), flops=160),
    special_row("bessel_y1", "the Bessel function of the second kind of order 1; NaN below 0", each(_bessel_y_of(1)),
                in_float64(_y(1)), flops=160),
    special_row("bessel_k0", "the modified Bessel function of the second kind of order 0; NaN below 0",
                each(_bessel_k_of(0, False)), in_float64(_k(0, False)), flops=120),
    special_row("bessel_k0e", "exp(data) * bessel_k0(data)", each(_bessel_k_of(0, True)), in_float64(_k(0, True)), flops=120),
    special_row("bessel_k1", "the modified Bessel function of the second kind of order 1; NaN below 0",
                each(_bessel_k_of(1, False)), in_float64(_k(1, False)), flops=120),
    special_row("bessel_k1e", "exp(data) * bessel_k1(data)", each(_bessel_k_of(1, True)), in_float64(_k(1, True)), flops=120),
    special_row("spherical_bessel_j0", "sin(data) / data; 1 at 0", each(_spherical_of), in_float64(spherical_j0), flops=60),
    special_row("airy_ai", "the Airy function Ai", each(_airy_of), in_float64(airy), flops=200),
])
