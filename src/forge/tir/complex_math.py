"""Functions of complex numbers in real loop IR: each takes and gives pairs (real, imaginary) of float64 expressions.

Special values and branch cuts are those of C99's Annex G, which NumPy follows. Formulas keep clear of overflow and of
cancellation, so that errors stay a few units in the last place of the modulus.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from forge.tir import expr as tir
from forge.tir.expr import Expr, ExprLike

Pair = tuple[Expr, Expr]

_SIGN_BIT = -(1 << 63)
_STEP = 700.0
"""exp of a larger number is exp(number - _STEP) * exp(_STEP), which may stay finite when it is multiplied by a small one."""

_TINY, _HUGE = 2.0**-28, 1e150
"""Below, inverse functions of z are z; above, they are logarithms."""


def _absolute(x: Expr) -> Expr:
    return tir.call("abs", x)


def _sign_of(magnitude: Expr, sign: Expr) -> Expr:
    """A magnitude of at least 0 with the sign of ``sign``."""
    bits = (tir.call("reinterpret", part, dtype="int64") for part in (magnitude, sign))
    size, other = bits
    return tir.call("reinterpret", (size & ~_SIGN_BIT) | (other & _SIGN_BIT), dtype="float64")


def _constant(x: Expr, value: float) -> Expr:
    return tir.const(value, x.dtype, x.lanes)


def _is_nan(x: Expr) -> Expr:
    return tir.call("isnan", x)


def _infinite(x: Expr) -> Expr:
    return _absolute(x).eq(math.inf)


def _finite(x: Expr) -> Expr:
    return _absolute(x) < math.inf


def _both(a: Expr, b: Expr) -> Expr:
    return tir.logical_and(a, b)


def _either(a: Expr, b: Expr) -> Expr:
    return tir.binary("or", a, b)


def _choose(condition: Expr, a: ExprLike, b: Expr) -> Expr:
    return tir.select(condition, a if isinstance(a, Expr) else _constant(b, a), b)


def _ordered(x: Expr, y: Expr) -> Pair:
    """The larger and the smaller of |x| and |y|; NaN where one is NaN."""
    a, b = _absolute(x), _absolute(y)
    return tir.binary("max", a, b), tir.binary("min", a, b)


def _ratio(large: Expr, small: Expr) -> Expr:
    """small / large, and 0 where large is 0."""
    return _choose(large.eq(0.0), 0.0, small / large)


def modulus(z: Pair) -> Expr:
    """|z| without overflow on the way; infinite where a part is, even next to NaN."""
    large, small = _ordered(*z)
    ratio = _ratio(large, small)
    size = _choose(small.eq(0.0), large, large * tir.call("sqrt", ratio * ratio + 1.0))
    return _choose(_either(_infinite(z[0]), _infinite(z[1])), math.inf, size)


def angle(z: Pair) -> Expr:
    return tir.call("atan2", z[1], z[0])


def multiply(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def divide(a: Pair, b: Pair) -> Pair:
    """Smith's division, as NumPy's, of numbers scaled into the middle of the range: by 0, each part is divided by 0."""
    size = tir.binary("max", _absolute(b[0]), _absolute(b[1]))
    shift = _choose(size > 1e290, 2.0**-54, _choose(size < 1e-290, 2.0**54, _constant(size, 1.0)))
    return _smith((a[0] * shift, a[1] * shift), (b[0] * shift, b[1] * shift))


def _smith(a: Pair, b: Pair) -> Pair:
    swapped = _absolute(b[0]) < _absolute(b[1])
    large, small = tir.select(swapped, b[1], b[0]), tir.select(swapped, b[0], b[1])
    zero = _both(b[0].eq(0.0), b[1].eq(0.0))
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    (a_real, a_imag), by_zero = a, _absolute(b[0])
    real = tir.select(swapped, a_real * ratio + a_imag, a_real + a_imag * ratio) * scale
    imag = tir.select(swapped, a_imag * ratio - a_real, a_imag - a_real * ratio) * scale
    return tir.select(zero, a_real / by_zero, real), tir.select(zero, a_imag / by_zero, imag)


def reciprocal(z: Pair) -> Pair:
    return divide((_constant(z[0], 1.0), _constant(z[0], 0.0)), z)


def exp(z: Pair) -> Pair:
    x, y = z
    above = _choose(x > _STEP, _STEP, _constant(x, 0.0))
    size, rest = tir.call("exp", x - above), _choose(x > _STEP, math.exp(_STEP), _constant(x, 1.0))
    real, imag = size * tir.call("cos", y) * rest, size * tir.call("sin", y) * rest
    wild = tir.logical_not(_finite(y))
    vanishing, growing = _both(wild, x.eq(-math.inf)), _both(wild, x.eq(math.inf))
    real = _choose(vanishing, 0.0, _choose(growing, math.inf, real))
    return real, tir.select(y.eq(0.0), y, _choose(vanishing, 0.0, imag))


def expm1(z: Pair) -> Pair:
    """e**x cos y - 1 = expm1(x) cos y - 2 sin(y / 2)**2."""
    x, y = z
    half = tir.call("sin", y * 0.5)
    real, imag = exp(z)
    near = tir.call("expm1", x) * tir.call("cos", y) - half * half * 2.0
    return tir.select(_absolute(x) < 1.0, near, real - 1.0), imag


def _log_modulus(z: Pair) -> Expr:
    large, small = _ordered(*z)
    ratio = _ratio(large, small)
    size = tir.call("log", large) + tir.call("log1p", ratio * ratio) * 0.5
    size = _choose(_both(_finite(z[0]), _finite(z[1])), size, large + small)
    return _choose(_either(_infinite(z[0]), _infinite(z[1])), math.inf, size)


def log(z: Pair) -> Pair:
    return _log_modulus(z), angle(z)


def log1p(z: Pair) -> Pair:
    """Near 0 by |1 + z|**2 - 1 = x (2 + x) + y**2."""
    x, y = z
    near = tir.call("log1p", x * (x + 2.0) + y * y) * 0.5
    small = _both(_absolute(x) < 0.5, _absolute(y) < 0.5)
    moved = (x + 1.0, y)
    return tir.select(small, near, _log_modulus(moved)), angle(moved)


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
    scale = _choose(huge, 2.0**-4, _choose(tiny, 2.0**108, _constant(x, 1.0)))
    back = _choose(huge, 2.0**2, _choose(tiny, 2.0**-54, _constant(x, 1.0)))
    u, v = x * scale, y * scale
    root = tir.call("sqrt", (_absolute(u) + modulus((u, v))) * 0.5)
    other = _choose(large.eq(0.0), 0.0, _absolute(v) / (root * 2.0))
    right = x >= 0.0
    real, imag = tir.select(right, root, other) * back, tir.select(right, other, root) * back
    return _sqrt_of_infinity(z, (real, _sign_of(imag, y)))


def _sqrt_of_infinity(z: Pair, finite: Pair) -> Pair:
    (x, y), (real, imag) = z, finite
    zero = tir.select(_is_nan(y), y, _constant(x, 0.0))
    real = _choose(x.eq(math.inf), math.inf, tir.select(x.eq(-math.inf), zero, real))
    imag = tir.select(x.eq(math.inf), _sign_of(zero, y), _choose(x.eq(-math.inf), _sign_of(_constant(x, math.inf), y), imag))
    return _choose(_infinite(y), math.inf, real), tir.select(_infinite(y), y, imag)


def rsqrt(z: Pair) -> Pair:
    return reciprocal(sqrt(z))


def sigmoid(z: Pair) -> Pair:
    real, imag = exp((-z[0], -z[1]))
    return reciprocal((real + 1.0, imag))


def sign(z: Pair) -> Pair:
    """z / |z|; 0 for 0; along an infinite part its unit."""
    size = modulus(z)
    real, imag = (_choose(size.eq(0.0), 0.0, part / size) for part in z)
    infinite = [_infinite(part) for part in z]
    units = [_choose(flag, _sign_of(_constant(part, 1.0), part), _constant(part, 0.0)) for flag, part in zip(infinite, z)]
    some = _either(*infinite)
    unknown = _either(_both(*infinite), _both(tir.logical_not(some), _either(_is_nan(z[0]), _is_nan(z[1]))))
    return (_choose(unknown, math.nan, tir.select(some, units[0], real)),
            _choose(unknown, math.nan, tir.select(some, units[1], imag)))


def _hyperbolic(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(s, c, f) with sinh(x) = s f and cosh(x) = c f, where f is 1 unless x is large."""
    size = _absolute(x)
    large = size > _STEP
    grown = tir.call("exp", size - _STEP) * 0.5
    sine = tir.select(large, _sign_of(grown, x), tir.call("sinh", x))
    return sine, tir.select(large, grown, tir.call("cosh", x)), _choose(large, math.exp(_STEP), _constant(x, 1.0))


def sinh(z: Pair) -> Pair:
    x, y = z
    sine, cosine, factor = _hyperbolic(x)
    wild = tir.logical_not(_finite(y))
    real = tir.select(_both(wild, x.eq(0.0)), x, sine * tir.call("cos", y) * factor)
    real = _choose(_both(wild, _infinite(x)), math.inf, real)
    return real, tir.select(y.eq(0.0), y, cosine * tir.call("sin", y) * factor)


def cosh(z: Pair) -> Pair:
    x, y = z
    sine, cosine, factor = _hyperbolic(x)
    wild = tir.logical_not(_finite(y))
    real = _choose(_both(wild, _infinite(x)), math.inf, cosine * tir.call("cos", y) * factor)
    imag = sine * tir.call("sin", y) * factor
    one = _constant(x, 1.0)
    imag = tir.select(_both(wild, x.eq(0.0)), x * _sign_of(one, y), imag)
    return real, tir.select(y.eq(0.0), y * _sign_of(one, x), imag)


def tanh(z: Pair) -> Pair:
    """Kahan's formula; for a large |x|, 1 and a product that vanishes."""
    x, y = z
    limit = 22.0
    sine = tir.call("sinh", tir.binary("max", tir.binary("min", x, limit), -limit))
    tangent = tir.call("tan", y)
    beta = tangent * tangent + 1.0
    denominator = beta * sine * sine + 1.0
    real = beta * tir.call("sqrt", sine * sine + 1.0) * sine / denominator
    large, wild = _absolute(x) > limit, tir.logical_not(_finite(y))
    turn = tir.call("sin", y) * tir.call("cos", y)
    far = turn * 4.0 * tir.call("exp", _absolute(x) * -2.0)
    far = tir.select(_either(wild, _infinite(x)), _sign_of(_constant(x, 0.0), tir.select(wild, y, turn)), far)
    unknown = _both(wild, _finite(x))
    real = _choose(unknown, math.nan, tir.select(large, _sign_of(_constant(x, 1.0), x), real))
    imag = _choose(unknown, math.nan, tir.select(large, far, tangent / denominator))
    real = tir.select(_both(wild, x.eq(0.0)), x, real)
    return real, tir.select(_both(y.eq(0.0), _is_nan(x)), y, imag)


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
    gap = tir.select(inside, s + (1.0 - x), s + (x - 1.0))
    over = r + (x + 1.0)
    squares = tir.select(inside, (y * y / over + gap) * left, left / over + left / gap)
    width = tir.call("sqrt", squares * 0.5)
    height = tir.select(inside, width, y * width)
    ratio = x / a
    direct = ratio <= 0.6417
    real_asin = tir.select(direct, tir.call("asin", ratio), tir.call("atan2", x, height))
    real_acos = tir.select(direct, tir.call("acos", ratio), tir.call("atan2", height, x))
    imag = _arc_height(x, y, a, over, gap, inside)
    return _arc_edges(x, y, real_asin, real_acos, imag)


def _arc_height(x: Expr, y: Expr, a: Expr, over: Expr, gap: Expr, inside: Expr) -> Expr:
    """log(a + sqrt(a**2 - 1)), with a - 1 without cancellation where a is near 1."""
    near = _choose(y.eq(0.0), 0.0, y * (y / gap))
    above = (y * y / over + tir.select(inside, near, gap)) * 0.5
    close = tir.call("log1p", above + tir.call("sqrt", above * (a + 1.0)))
    return tir.select(a <= 1.5, close, tir.call("log", a + tir.call("sqrt", a * a - 1.0)))


def _arc_edges(x: Expr, y: Expr, real_asin: Expr, real_acos: Expr, imag: Expr) -> tuple[Expr, Expr, Expr]:
    """The parts where z is tiny, huge or infinite, and for 0 + NaN i."""
    largest, _ = _ordered(x, y)
    huge = _either(largest > _HUGE, _either(_infinite(x), _infinite(y)))
    tiny, straight = largest < _TINY, _both(x.eq(0.0), _is_nan(y))
    flat = _both(y.eq(0.0), x > 1.0)
    real_asin = _choose(flat, math.pi / 2, tir.select(_either(tiny, straight), x, real_asin))
    real_acos = _choose(flat, 0.0, _choose(straight, math.pi / 2, real_acos))
    imag = tir.select(tiny, y, imag)
    return (tir.select(huge, tir.call("atan2", x, y), real_asin), tir.select(huge, tir.call("atan2", y, x), real_acos),
            tir.select(huge, _log_modulus((x, y)) + math.log(2.0), imag))


def asinh(z: Pair) -> Pair:
    """i asin(-i z)."""
    x, y = z
    imag, _, real = _arc_parts(_absolute(y), _absolute(x))
    return _sign_of(real, x), _sign_of(imag, y)


def acos(z: Pair) -> Pair:
    x, y = z
    _, real, imag = _arc_parts(_absolute(x), _absolute(y))
    return tir.select(x < 0.0, math.pi - real, real), _sign_of(imag, -y)


def acosh(z: Pair) -> Pair:
    """i acos(z) or -i acos(z), whichever has a real part of at least 0."""
    real, imag = acos(z)
    return _absolute(imag), _sign_of(real, z[1])


def atanh(z: Pair) -> Pair:
    x, y = z
    a, b = _absolute(x), _absolute(y)
    left = 1.0 - a
    square = left * left + b * b
    real = tir.call("log1p", a * 4.0 / square) * 0.25
    pole = _both(left.eq(0.0), b < 1e-100)
    real = tir.select(pole, (math.log(2.0) - tir.call("log", b)) * 0.5, real)
    imag = tir.call("atan2", b * 2.0, left * (a + 1.0) - b * b) * 0.5
    return _atanh_edges(z, (real, imag))


def _atanh_edges(z: Pair, parts: Pair) -> Pair:
    (x, y), (real, imag) = z, parts
    largest, _ = _ordered(x, y)
    infinite = _either(_infinite(x), _infinite(y))
    size = modulus(z)
    far = _choose(infinite, 0.0, _absolute(x) / size / size)
    huge, straight = _either(largest > _HUGE, infinite), _both(x.eq(0.0), _is_nan(y))
    real = tir.select(huge, far, _choose(straight, 0.0, real))
    imag = tir.select(huge, tir.select(_is_nan(y), y, _constant(y, math.pi / 2)), imag)
    tiny = largest < _TINY
    return tir.select(tiny, x, _sign_of(real, x)), tir.select(tiny, y, tir.select(_is_nan(y), y, _sign_of(imag, y)))


_LARGEST_EXPONENT = 100
"""Whole exponents up to this one are powers by multiplication, as in NumPy."""


def power(a: Pair, b: Pair) -> Pair:
    """exp(b log(a)); small whole exponents by multiplication; a**0 is 1; 0 to a positive power is 0, to any other NaN."""
    one, zero = _constant(a[0], 1.0), _constant(a[0], 0.0)
    general = exp(multiply(b, log(a)))
    real_exponent = b[1].eq(0.0)
    whole = _both(real_exponent, _both(tir.call("trunc", b[0]).eq(b[0]), _absolute(b[0]) < float(_LARGEST_EXPONENT)))
    repeated = _whole_power(a, b[0])
    nothing = _both(a[0].eq(0.0), a[1].eq(0.0))
    vanishing = _both(nothing, _both(real_exponent, b[0] > 0.0))
    trivial = _both(real_exponent, b[0].eq(0.0))
    result = []
    for part, other, unit in zip(general, repeated, (one, zero)):
        value = _choose(nothing, math.nan, tir.select(whole, other, part))
        result.append(tir.select(trivial, unit, _choose(vanishing, 0.0, value)))
    return result[0], result[1]


def _whole_power(base: Pair, exponent: Expr) -> Pair:
    """base**exponent for a whole exponent below ``_LARGEST_EXPONENT``, by repeated squaring."""
    count = tir.cast(_absolute(exponent), "int64")
    result: Pair = (_constant(base[0], 1.0), _constant(base[0], 0.0))
    started: Expr = tir.const(False, "bool", base[0].lanes)
    for bit in range(_LARGEST_EXPONENT.bit_length()):
        used = (count & (1 << bit)).ne(0)
        product = multiply(result, base)
        product = tir.select(started, product[0], base[0]), tir.select(started, product[1], base[1])
        result = tir.select(used, product[0], result[0]), tir.select(used, product[1], result[1])
        started = _either(started, used)
        base = multiply(base, base)
    inverse = reciprocal(result)
    negative = exponent < 0.0
    return tir.select(negative, inverse[0], result[0]), tir.select(negative, inverse[1], result[1])


FUNCTIONS: dict[str, Callable[..., Pair]] = {
    "sqrt": sqrt, "rsqrt": rsqrt, "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "sigmoid": sigmoid, "sign": sign,
    "log2": _scaled_log(1 / math.log(2)), "log10": _scaled_log(1 / math.log(10)), "pow": power,
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": asinh, "acosh": acosh, "atanh": atanh,
    "sin": _turned(sinh), "cos": cos, "tan": _turned(tanh), "asin": _turned(asinh), "acos": acos, "atan": _turned(atanh),
}
"""Intrinsics of complex arguments."""
