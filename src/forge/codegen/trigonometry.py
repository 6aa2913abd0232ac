"""sin, cos, tan and their inverses in loop IR.

Angles are reduced by multiples of pi/2: up to ``_NEAR`` by subtracting pi/2 in parts, beyond with as many bits of 2/pi as
it takes (Payne and Hanek), so that every finite argument is accurate. float32 is reduced in float64. Polynomials are
minimax fits made for this file.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from forge.tir import expr as tir
from forge.tir import floats
from forge.tir.expr import Buffer, Expr, select
from forge.tir.floats import absolute, constant, fma, is_nan, polynomial, polynomial_by_halves, single

_NEAR = 1e6

# pi/2 in parts of 33, 33 and 53 bits; and as two doubles
_HALF_PI_PARTS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)

# 2/pi in 32-bit words, after 64 bits of its integer part
_TWO_OVER_PI_WORDS = (
    0x00000000, 0x00000000,
    0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561,
    0xB7246E3A, 0x424DD2E0, 0x06492EEA, 0x09D1921C, 0xFE1DEB1C, 0xB129A73E, 0xE88235F5, 0x2EBB4484,
    0xE99C7026, 0xB45F7E41, 0x3991D639, 0x835339F4, 0x9C845F8B, 0xBDF9283B, 0x1FF897FF, 0xDE05980F,
    0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF, 0x27CB09B7, 0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B,
    0x3D0739F7, 0x8A5292EA, 0x6BFB5FB1, 0x1F8D5D08, 0x56033046, 0xFC7B6BAB,
)
TWO_OVER_PI = Buffer("two_over_pi", "uint32", (tir.const(len(_TWO_OVER_PI_WORDS)),), scope="constant", writable=False)
TABLES: dict[Buffer, tuple[int, ...]] = {TWO_OVER_PI: _TWO_OVER_PI_WORDS}
"""Contents of the constant buffers that these functions read."""

# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 in r^2 for |r| <= pi/4
_SIN = {
    "float32": (-0.16666653752326965, 0.008332133293151855, -0.00019511458231136203),
    "float64": (-0.16666666666666627, 0.008333333333321442, -0.0001984126982902894, 2.7557313421098133e-06,
                -2.5050715565292675e-08, 1.5894318787167728e-10),
}
_COS = {
    "float32": (0.04166664555668831, -0.0013887278037145734, 2.442878576403018e-05),
    "float64": (0.04166666666666659, -0.001388888888887209, 2.4801587288234468e-05, -2.7557313997312553e-07,
                2.0875675636987364e-09, -1.1357208681335761e-11),
}

# (tan(r) - r) / r^3 in r^2 for |r| <= pi/4
_TAN = (0.33333349227905273, 0.1333267241716385, 0.0540594607591629, 0.021282609552145004, 0.010838315822184086,
        8.286417869385332e-05, 0.0043809544295072556)

# (asin(x) - x) / x^3 in x^2 for |x| <= 1/2
_ASIN = {
    "float32": (0.16666659712791443, 0.07500505447387695, 0.044516708701848984, 0.031809911131858826, 0.01442983653396368,
                0.03752938657999039),
    "float64": (0.1666666666666676, 0.07499999999970634, 0.044642857174778915, 0.030381942699382478, 0.02237221523460156,
                0.017351607403523834, 0.013980877799637071, 0.011398428181541563, 0.010783050379110341,
                0.0036955312875369896, 0.021734648753093305, -0.02103857477831968, 0.032653956888062156),
}

# (atan(x) - x) / x^3 in x^2 for |x| <= tan(pi/8)
_ATAN = {
    "float32": (-0.33333316445350647, 0.19998465478420258, -0.142434224486351, 0.10592946410179138, -0.06075916811823845),
    "float64": (-0.3333333333333319, 0.1999999999995282, -0.14285714280121276, 0.1111111077979651, -0.09090897655014078,
                0.07692058429165126, -0.0666308415599612, 0.058477470696695934, -0.050386734908498425, 0.038048735940703834,
                -0.01789008231979433),
}


class Angle(NamedTuple):
    """``x = quadrant * pi/2 + r + tail``, the quadrant an integer whose lowest two bits count."""

    quadrant: Expr
    r: Expr
    tail: Expr


def is_far(x: Expr) -> Expr:
    """Lanes whose reduction takes many bits of 2/pi; false for infinity and NaN."""
    a = absolute(x)
    return tir.logical_and(a > _NEAR, a < math.inf)


def _near(x: Expr) -> Angle:
    """Reduction of float64 up to ``_NEAR``."""
    t = floats.shifted(x, 2 / math.pi)
    n = floats.unshifted(t)
    first, second, third = _HALF_PI_PARTS
    a = fma(n, -first, x)
    w = n * second
    r = a - w
    back = a - r
    tail = (a - (r + back)) + (back - w) - n * third
    return Angle(floats.shifted_integer(t), r + tail, (r - (r + tail)) + tail)


def _far(x: Expr) -> Angle:
    """Reduction of finite float64 from ``_NEAR`` on, by 192 bits of 2/pi."""
    bits = floats.bits_of(absolute(x))
    exponent = tir.binary("shr", bits, 52) - 1075
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    word = tir.binary("shr", exponent + 62, 5)
    first = tir.binary("max", tir.binary("min", word, len(_TWO_OVER_PI_WORDS) - 6), 0)
    shift = exponent - tir.binary("shl", first - 1, 5) + 30
    words = [tir.load(TWO_OVER_PI, first + j).astype("uint64") for j in range(6)]
    limbs = _product(mantissa.astype("uint64"), words)
    high, low = _aligned(limbs, shift.astype("uint64"))
    fraction = tir.binary("shl", high, 2) | tir.binary("shr", low, 62)
    quadrant = (tir.binary("shr", high, 62) + tir.binary("shr", fraction, 63)).astype("int64")
    angle = _scaled_fraction(fraction.astype("int64"), tir.binary("shl", low, 2))
    negative = x < 0.0
    return Angle(*(select(negative, -part, part) for part in (quadrant, angle.r, angle.tail)))


def _product(m: Expr, words: list[Expr]) -> list[Expr]:
    """The seven lowest 32-bit limbs of m * (words as one number, most significant first)."""
    mask = (1 << 32) - 1
    parts = (m & mask, tir.binary("shr", m, 32))
    columns: list[list[Expr]] = [[] for _ in range(9)]
    for i, part in enumerate(parts):
        for j, word in enumerate(reversed(words)):
            p = part * word
            columns[i + j].append(p & mask)
            columns[i + j + 1].append(tir.binary("shr", p, 32))
    limbs: list[Expr] = []
    carry: Expr = tir.const(0, "uint64", m.lanes)
    for column in columns[:7]:
        total = carry
        for term in column:
            total = total + term
        limbs.append(total & mask)
        carry = tir.binary("shr", total, 32)
    return limbs


def _aligned(limbs: list[Expr], shift: Expr) -> tuple[Expr, Expr]:
    """The upper 128 of the lower 192 bits after a left shift by ``shift`` (0 to 31), as two numbers of 64 bits."""
    def limb(c: int) -> Expr:
        pair = tir.binary("shl", limbs[c], 32) | limbs[c - 1]
        return tir.binary("shr", tir.binary("shl", pair, shift), 32)

    return tir.binary("shl", limb(5), 32) | limb(4), tir.binary("shl", limb(3), 32) | limb(2)


def _scaled_fraction(high: Expr, low: Expr) -> Angle:
    """pi/2 times the fixed-point fraction high 2^-64 + low 2^-128."""
    upper = tir.binary("shr", high, 32).astype("float64") * 2.0**-32
    lower = (high & ((1 << 32) - 1)).astype("float64") * 2.0**-64 + low.astype("float64") * 2.0**-128
    f = upper + lower
    rest = (upper - f) + lower
    r = f * _HALF_PI[0]
    tail = tir.call("product_error", f, constant(f, _HALF_PI[0])) + fma(f, _HALF_PI[1], rest * _HALF_PI[0])
    return Angle(tir.const(0, "int64", high.lanes), r, tail)


def _reduce(x: Expr, far: bool) -> Angle:
    wide = x.astype("float64")
    near = _near(wide)
    if far:
        beyond, chosen = _far(wide), is_far(wide)
        near = Angle(*(select(chosen, a, b) for a, b in zip(beyond, near)))
    if single(x):
        return Angle(near.quadrant.astype("int32"), near.r.astype("float32"), constant(x, 0.0))
    return near


def _sin_cos(angle: Angle) -> tuple[Expr, Expr]:
    r, u = angle.r, angle.r * angle.r
    sine_poly, cosine_poly = polynomial(u, _SIN[r.dtype]), polynomial(u, _COS[r.dtype])
    half = u * 0.5
    whole = 1.0 - half
    if single(r):
        return fma(r * u, sine_poly, r), fma(u * u, cosine_poly, whole)
    sine = r + fma(r * u, sine_poly, angle.tail * whole)
    return sine, whole + (((1.0 - whole) - half) + fma(u * u, cosine_poly, -(r * angle.tail)))


def _odd(quadrant: Expr) -> Expr:
    return (quadrant & 1).ne(0)


def _finite(x: Expr, result: Expr) -> Expr:
    return select(absolute(x) < math.inf, result, constant(x, math.nan))


def sin(x: Expr, far: bool = False) -> Expr:
    angle = _reduce(x, far)
    sine, cosine = _sin_cos(angle)
    result = select(_odd(angle.quadrant), cosine, sine)
    result = select((angle.quadrant & 2).ne(0), -result, result)
    return _finite(x, select(x.eq(0.0), x, result))


def cos(x: Expr, far: bool = False) -> Expr:
    angle = _reduce(x, far)
    sine, cosine = _sin_cos(angle)
    result = select(_odd(angle.quadrant), sine, cosine)
    return _finite(x, select(((angle.quadrant + 1) & 2).ne(0), -result, result))


def tan(x: Expr, far: bool = False) -> Expr:
    angle = _reduce(x, far)
    top, bottom = _tan_parts(angle)
    odd = _odd(angle.quadrant)
    result = select(odd, -bottom, top) / select(odd, top, bottom)
    return _finite(x, select(x.eq(0.0), x, result))


def _tan_parts(angle: Angle) -> tuple[Expr, Expr]:
    """The tangent of the reduced angle, as a quotient."""
    if not single(angle.r):
        return _sin_cos(angle)
    r, u = angle.r, angle.r * angle.r
    return fma(r * u, polynomial_by_halves(u, u * u, _TAN), r), constant(r, 1.0)


def _asin_core(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(small, y, root) with asin(|x|) = y for small x, and else acos(|x|) = 2 y; root is the argument of the polynomial."""
    a = absolute(x)
    small = a < 0.5
    u = select(small, a * a, (1.0 - a) * 0.5)
    root = select(small, a, tir.call("sqrt", u))
    return small, fma(root * u, polynomial(u, _ASIN[x.dtype]), root), root


def asin(x: Expr) -> Expr:
    small, y, _ = _asin_core(x)
    high, low = _half_pi(x)
    return floats.copy_sign(select(small, y, high - fma(y, 2.0, -low)), x)


def acos(x: Expr) -> Expr:
    small, y, _ = _asin_core(x)
    high, low = _half_pi(x)
    signed = select(x < 0.0, -y, y)
    double = y * 2.0
    far_side = select(x < 0.0, high * 2.0 - (double - low * 2.0), double)
    return select(small, high - (signed - low), far_side)


def _half_pi(x: Expr) -> tuple[Expr, Expr]:
    high, low = (1.5707963705062866, -4.371138828673793e-08) if single(x) else _HALF_PI
    return constant(x, high), constant(x, low)


def _atan_ratio(numerator: Expr, denominator: Expr) -> Expr:
    """atan(numerator / denominator) for 0 <= numerator <= denominator, by atan(x) = pi/4 + atan((x - 1) / (x + 1))."""
    large = numerator > denominator * math.tan(math.pi / 8)
    top = select(large, numerator - denominator, numerator)
    x = top / select(large, numerator + denominator, denominator)
    y = fma(x * x * x, polynomial(x * x, _ATAN[x.dtype]), x)
    high, low = _half_pi(x)
    return select(large, high * 0.5 + fma(low, 0.5, y), y)


def atan(x: Expr) -> Expr:
    a = absolute(x)
    steep = a > 1.0
    y = _atan_ratio(select(steep, constant(x, 1.0), a), select(steep, a, constant(x, 1.0)))
    high, low = _half_pi(x)
    return floats.copy_sign(select(steep, high - (y - low), y), x)


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y), with IEEE's results for zeros and infinities."""
    a, b = absolute(y), absolute(x)
    diagonal = tir.logical_and(a.eq(math.inf), b.eq(math.inf))
    a, b = select(diagonal, constant(x, 1.0), a), select(diagonal, constant(x, 1.0), b)
    steep = a > b
    small, large = select(steep, b, a), select(steep, a, b)
    huge = large > 2.0 ** (floats.format_of(x).bias - 2)
    small, large = select(huge, small * 0.25, small), select(huge, large * 0.25, large)
    ratio = select(large.eq(0.0), constant(x, 0.0), _atan_ratio(small, select(large.eq(0.0), constant(x, 1.0), large)))
    high, low = _half_pi(x)
    angle = select(steep, high - (ratio - low), ratio)
    behind = floats.copy_sign(constant(x, 1.0), x) < 0.0
    angle = select(behind, high * 2.0 - (angle - low * 2.0), angle)
    missing = is_nan(x) | is_nan(y)
    return select(missing, x + y, floats.copy_sign(angle, y))
