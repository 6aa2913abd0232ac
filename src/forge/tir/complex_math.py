"""Functions of complex numbers in real loop IR: each takes and gives pairs (real, imaginary) of float64 expressions.

Special values and branch cuts are those of C99's Annex G, which NumPy follows. Formulas keep clear of overflow and of
cancellation, so that errors stay a few units in the last place of the modulus.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from forge.tir import expr as tir
from forge.tir.expr import Expr, logical_and, select
from forge.tir.floats import absolute, constant, copy_sign, is_nan

Pair = tuple[Expr, Expr]

_STEP = 700.0
"""exp of a larger number is exp(number - _STEP) * exp(_STEP), which may stay finite when it is multiplied by a small one."""

_TINY, _HUGE = 2.0**-28, 1e150
"""Below, inverse functions of z are z; above, they are logarithms."""


def select_pair(condition: Expr, a: Pair, b: Pair) -> Pair:
    return select(condition, a[0], b[0]), select(condition, a[1], b[1])


def _infinite(x: Expr) -> Expr:
    return absolute(x).eq(math.inf)


def _finite(x: Expr) -> Expr:
    return absolute(x) < math.inf


def _ordered(x: Expr, y: Expr) -> Pair:
    """The larger and the smaller of |x| and |y|; NaN where one is NaN."""
    a, b = absolute(x), absolute(y)
    return tir.binary("max", a, b), tir.binary("min", a, b)


def _ratio(large: Expr, small: Expr) -> Expr:
    """small / large, and 0 where large is 0."""
    return select(large.eq(0.0), 0.0, small / large)


def modulus(z: Pair) -> Expr:
    """|z| without overflow on the way; infinite where a part is, even next to NaN."""
    large, small = _ordered(*z)
    ratio = _ratio(large, small)
    size = select(small.eq(0.0), large, large * tir.call("sqrt", ratio * ratio + 1.0))
    return select(_infinite(z[0]) | _infinite(z[1]), math.inf, size)


def angle(z: Pair) -> Expr:
    return tir.call("atan2", z[1], z[0])


def multiply(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def divide(a: Pair, b: Pair) -> Pair:
    """Smith's division, as NumPy's, of numbers scaled into the middle of the range: by 0, each part is divided by 0."""
    size = tir.binary("max", absolute(b[0]), absolute(b[1]))
    shift = select(size > 1e290, 2.0**-54, select(size < 1e-290, 2.0**54, constant(size, 1.0)))
    return _smith((a[0] * shift, a[1] * shift), (b[0] * shift, b[1] * shift))


def _smith(a: Pair, b: Pair) -> Pair:
    swapped = absolute(b[0]) < absolute(b[1])
    large, small = select_pair(swapped, (b[1], b[0]), b)
    zero = logical_and(b[0].eq(0.0), b[1].eq(0.0))
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    (a_real, a_imag), by_zero = a, absolute(b[0])
    real = select(swapped, a_real * ratio + a_imag, a_real + a_imag * ratio) * scale
    imag = select(swapped, a_imag * ratio - a_real, a_imag - a_real * ratio) * scale
    return select_pair(zero, (a_real / by_zero, a_imag / by_zero), (real, imag))


def reciprocal(z: Pair) -> Pair:
    return divide((constant(z[0], 1.0), constant(z[0], 0.0)), z)


def exp(z: Pair) -> Pair:
    x, y = z
    above = select(x > _STEP, _STEP, constant(x, 0.0))
    size, rest = tir.call("exp", x - above), select(x > _STEP, math.exp(_STEP), constant(x, 1.0))
    real, imag = size * tir.call("cos", y) * rest, size * tir.call("sin", y) * rest
    wild = tir.logical_not(_finite(y))
    vanishing, growing = logical_and(wild, x.eq(-math.inf)), logical_and(wild, x.eq(math.inf))
    real = select(vanishing, 0.0, select(growing, math.inf, real))
    return real, select(y.eq(0.0), y, select(vanishing, 0.0, imag))


def expm1(z: Pair) -> Pair:
    """e**x cos y - 1 = expm1(x) cos y - 2 sin(y / 2)**2."""
    x, y = z
    half = tir.call("sin", y * 0.5)
    real, imag = exp(z)
    near = tir.call("expm1", x) * tir.call("cos", y) - half * half * 2.0
    return select(absolute(x) < 1.0, near, real - 1.0), imag


def _log_modulus(z: Pair) -> Expr:
    large, small = _ordered(*z)
    ratio = _ratio(large, small)
    size = tir.call("log", large) + tir.call("log1p", ratio * ratio) * 0.5
    size = select(logical_and(_finite(z[0]), _finite(z[1])), size, large + small)
    return select(_infinite(z[0]) | _infinite(z[1]), math.inf, size)


def log(z: Pair) -> Pair:
    return _log_modulus(z), angle(z)


def log1p(z: Pair) -> Pair:
    """Near 0 by |1 + z|**2 - 1 = x (2 + x) + y**2."""
    x, y = z
    near = tir.call("log1p", x * (x + 2.0) + y * y) * 0.5
    small = logical_and(absolute(x) < 0.5, absolute(y) < 0.5)
    moved = (x + 1.0, y)
    return select(small, near, _log_modulus(moved)), angle(moved)


def _scaled_log(factor: float) -> Callable[[Pair], Pair]:
    def scaled(z: Pair) -> Pair:
        real, imag = log(z)
        return real * factor, imag * factor

    return scaled


def sqrt(z: Pair) -> Pair:
    """The root with a real part of at least 0, by way of sqrt((|x| + |z|) / 2)."""
    x, y = z
    large, _ = _ordered(x, y)
    huge, tiny = large > 1e300, large < 1e-290
    scale = select(huge, 2.0**-4, select(tiny, 2.0**108, constant(x, 1.0)))
    back = select(huge, 2.0**2, select(tiny, 2.0**-54, constant(x, 1.0)))
    u, v = x * scale, y * scale
    root = tir.call("sqrt", (absolute(u) + modulus((u, v))) * 0.5)
    other = select(large.eq(0.0), 0.0, absolute(v) / (root * 2.0))
    right = x >= 0.0
    real, imag = select_pair(right, (root, other), (other, root))
    return _sqrt_of_infinity(z, (real * back, copy_sign(imag * back, y)))


def _sqrt_of_infinity(z: Pair, finite: Pair) -> Pair:
    (x, y), (real, imag) = z, finite
    zero = select(is_nan(y), y, constant(x, 0.0))
    real = select(x.eq(math.inf), math.inf, select(x.eq(-math.inf), zero, real))
    imag = select(x.eq(math.inf), copy_sign(zero, y), select(x.eq(-math.inf), copy_sign(constant(x, math.inf), y), imag))
    return select(_infinite(y), math.inf, real), select(_infinite(y), y, imag)


def rsqrt(z: Pair) -> Pair:
    return reciprocal(sqrt(z))


def sigmoid(z: Pair) -> Pair:
    real, imag = exp((-z[0], -z[1]))
    return reciprocal((real + 1.0, imag))


def sign(z: Pair) -> Pair:
    """z / |z|; 0 for 0; along an infinite part its unit."""
    size = modulus(z)
    real, imag = (select(size.eq(0.0), 0.0, part / size) for part in z)
    infinite = [_infinite(part) for part in z]
    units = [select(flag, copy_sign(constant(part, 1.0), part), constant(part, 0.0)) for flag, part in zip(infinite, z)]
    some = infinite[0] | infinite[1]
    unknown = logical_and(*infinite) | logical_and(tir.logical_not(some), is_nan(z[0]) | is_nan(z[1]))
    nan = constant(size, math.nan)
    return select_pair(unknown, (nan, nan), select_pair(some, (units[0], units[1]), (real, imag)))


def _hyperbolic(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(s, c, f) with sinh(x) = s f and cosh(x) = c f, where f is 1 unless x is large."""
    size = absolute(x)
    large = size > _STEP
    grown = tir.call("exp", size - _STEP) * 0.5
    sine = select(large, copy_sign(grown, x), tir.call("sinh", x))
    return sine, select(large, grown, tir.call("cosh", x)), select(large, math.exp(_STEP), constant(x, 1.0))


def sinh(z: Pair) -> Pair:
    x, y = z
    sine, cosine, factor = _hyperbolic(x)
    wild = tir.logical_not(_finite(y))
    real = select(logical_and(wild, x.eq(0.0)), x, sine * tir.call("cos", y) * factor)
    real = select(logical_and(wild, _infinite(x)), math.inf, real)
    return real, select(y.eq(0.0), y, cosine * tir.call("sin", y) * factor)


def cosh(z: Pair) -> Pair:
    x, y = z
    sine, cosine, factor = _hyperbolic(x)
    wild = tir.logical_not(_finite(y))
    real = select(logical_and(wild, _infinite(x)), math.inf, cosine * tir.call("cos", y) * factor)
    imag = sine * tir.call("sin", y) * factor
    one = constant(x, 1.0)
    imag = select(logical_and(wild, x.eq(0.0)), x * copy_sign(one, y), imag)
    return real, select(y.eq(0.0), y * copy_sign(one, x), imag)


def tanh(z: Pair) -> Pair:
    """Kahan's formula; for a large |x|, 1 and a product that vanishes."""
    x, y = z
    limit = 22.0
    sine = tir.call("sinh", tir.binary("max", tir.binary("min", x, limit), -limit))
    tangent = tir.call("tan", y)
    beta = tangent * tangent + 1.0
    denominator = beta * sine * sine + 1.0
    real = beta * tir.call("sqrt", sine * sine + 1.0) * sine / denominator
    large, wild = absolute(x) > limit, tir.logical_not(_finite(y))
    turn = tir.call("sin", y) * tir.call("cos", y)
    far = turn * 4.0 * tir.call("exp", absolute(x) * -2.0)
    far = select(wild | _infinite(x), copy_sign(constant(x, 0.0), select(wild, y, turn)), far)
    unknown = logical_and(wild, _finite(x))
    real = select(unknown, math.nan, select(large, copy_sign(constant(x, 1.0), x), real))
    imag = select(unknown, math.nan, select(large, far, tangent / denominator))
    real = select(logical_and(wild, x.eq(0.0)), x, real)
    return real, select(logical_and(y.eq(0.0), is_nan(x)), y, imag)


def _turned(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """``-i function(i z)``: sin, tan, asin and atan of the hyperbolic function, which is odd and real on the real axis."""

    def turned(z: Pair) -> Pair:
        real, imag = function((z[1], z[0]))
        return imag, real

    return turned


def cos(z: Pair) -> Pair:
    return cosh((-z[1], z[0]))


def _arc_parts(x: Expr, y: Expr) -> tuple[Expr, Expr, Expr]:
    """For x, y >= 0: the real parts of asin and acos of x + i y, and the imaginary part of asin.

    After Hull, Fairgrieve and Tang, "Implementing the complex arcsine and arccosine functions using exception handling" (1997).
    """
    r, s = modulus((x + 1.0, y)), modulus((x - 1.0, y))
    a = (r + s) * 0.5
    left, inside = a + x, x <= 1.0
    gap = select(inside, s + (1.0 - x), s + (x - 1.0))
    over = r + (x + 1.0)
    squares = select(inside, (y * y / over + gap) * left, left / over + left / gap)
    width = tir.call("sqrt", squares * 0.5)
    height = select(inside, width, y * width)
    ratio = x / a
    direct = ratio <= 0.6417
    real_asin = select(direct, tir.call("asin", ratio), tir.call("atan2", x, height))
    real_acos = select(direct, tir.call("acos", ratio), tir.call("atan2", height, x))
    imag = _arc_height(x, y, a, over, gap, inside)
    return _arc_edges(x, y, real_asin, real_acos, imag)


def _arc_height(x: Expr, y: Expr, a: Expr, over: Expr, gap: Expr, inside: Expr) -> Expr:
    """log(a + sqrt(a**2 - 1)), with a - 1 without cancellation where a is near 1."""
    near = select(y.eq(0.0), 0.0, y * (y / gap))
    above = (y * y / over + select(inside, near, gap)) * 0.5
    close = tir.call("log1p", above + tir.call("sqrt", above * (a + 1.0)))
    return select(a <= 1.5, close, tir.call("log", a + tir.call("sqrt", a * a - 1.0)))


def _arc_edges(x: Expr, y: Expr, real_asin: Expr, real_acos: Expr, imag: Expr) -> tuple[Expr, Expr, Expr]:
    """The parts where z is tiny, huge or infinite, and for 0 + NaN i."""
    largest, _ = _ordered(x, y)
    huge = (largest > _HUGE) | (_infinite(x) | _infinite(y))
    tiny, straight = largest < _TINY, logical_and(x.eq(0.0), is_nan(y))
    flat = logical_and(y.eq(0.0), x > 1.0)
    real_asin = select(flat, math.pi / 2, select(tiny | straight, x, real_asin))
    real_acos = select(flat, 0.0, select(straight, math.pi / 2, real_acos))
    imag = select(tiny, y, imag)
    return (select(huge, tir.call("atan2", x, y), real_asin), select(huge, tir.call("atan2", y, x), real_acos),
            select(huge, _log_modulus((x, y)) + math.log(2.0), imag))


def asinh(z: Pair) -> Pair:
    """i asin(-i z)."""
    x, y = z
    imag, _, real = _arc_parts(absolute(y), absolute(x))
    return copy_sign(real, x), copy_sign(imag, y)


def acos(z: Pair) -> Pair:
    x, y = z
    _, real, imag = _arc_parts(absolute(x), absolute(y))
    return select(x < 0.0, math.pi - real, real), copy_sign(imag, -y)


def acosh(z: Pair) -> Pair:
    """i acos(z) or -i acos(z), whichever has a real part of at least 0."""
    real, imag = acos(z)
    return absolute(imag), copy_sign(real, z[1])


def atanh(z: Pair) -> Pair:
    x, y = z
    a, b = absolute(x), absolute(y)
    left = 1.0 - a
    square = left * left + b * b
    real = tir.call("log1p", a * 4.0 / square) * 0.25
    pole = logical_and(left.eq(0.0), b < 1e-100)
    real = select(pole, (math.log(2.0) - tir.call("log", b)) * 0.5, real)
    imag = tir.call("atan2", b * 2.0, left * (a + 1.0) - b * b) * 0.5
    return _atanh_edges(z, (real, imag))


def _atanh_edges(z: Pair, parts: Pair) -> Pair:
    (x, y), (real, imag) = z, parts
    largest, _ = _ordered(x, y)
    infinite = _infinite(x) | _infinite(y)
    size = modulus(z)
    far = select(infinite, 0.0, absolute(x) / size / size)
    huge, straight = (largest > _HUGE) | infinite, logical_and(x.eq(0.0), is_nan(y))
    real = select(huge, far, select(straight, 0.0, real))
    imag = select(huge, select(is_nan(y), y, constant(y, math.pi / 2)), imag)
    tiny = largest < _TINY
    return select(tiny, x, copy_sign(real, x)), select(tiny, y, select(is_nan(y), y, copy_sign(imag, y)))


_LARGEST_EXPONENT = 100
"""Whole exponents up to this one are powers by multiplication, as in NumPy."""


def power(a: Pair, b: Pair) -> Pair:
    """exp(b log(a)); small whole exponents by multiplication; a**0 is 1; 0 to a positive power is 0, to any other NaN."""
    general = exp(multiply(b, log(a)))
    real_exponent = b[1].eq(0.0)
    whole = logical_and(real_exponent, logical_and(tir.call("trunc", b[0]).eq(b[0]), absolute(b[0]) < float(_LARGEST_EXPONENT)))
    repeated = _whole_power(a, b[0])
    nothing = logical_and(a[0].eq(0.0), a[1].eq(0.0))
    vanishing = logical_and(nothing, logical_and(real_exponent, b[0] > 0.0))
    trivial = logical_and(real_exponent, b[0].eq(0.0))
    zero, one, unknown = constant(a[0], 0.0), constant(a[0], 1.0), constant(a[0], math.nan)
    value = select_pair(nothing, (unknown, unknown), select_pair(whole, repeated, general))
    return select_pair(trivial, (one, zero), select_pair(vanishing, (zero, zero), value))


def _whole_power(base: Pair, exponent: Expr) -> Pair:
    """base**exponent for a whole exponent below ``_LARGEST_EXPONENT``, by repeated squaring."""
    count = tir.cast(absolute(exponent), "int64")
    result: Pair = (constant(base[0], 1.0), constant(base[0], 0.0))
    started: Expr = tir.const(False, "bool", base[0].lanes)
    for bit in range(_LARGEST_EXPONENT.bit_length()):
        used = (count & (1 << bit)).ne(0)
        result = select_pair(used, select_pair(started, multiply(result, base), base), result)
        started = started | used
        base = multiply(base, base)
    return select_pair(exponent < 0.0, reciprocal(result), result)


FUNCTIONS: dict[str, Callable[..., Pair]] = {
    "sqrt": sqrt, "rsqrt": rsqrt, "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "sigmoid": sigmoid, "sign": sign,
    "log2": _scaled_log(1 / math.log(2)), "log10": _scaled_log(1 / math.log(10)), "pow": power,
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": asinh, "acosh": acosh, "atanh": atanh,
    "sin": _turned(sinh), "cos": cos, "tan": _turned(tanh), "asin": _turned(asinh), "acos": acos, "atan": _turned(atanh),
}
"""Intrinsics of complex arguments."""
