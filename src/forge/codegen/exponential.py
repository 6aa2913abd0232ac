"""exp, log, hyperbolic functions and erf in loop IR.

Coefficients are minimax fits of the relative error over the reduced range, made for this file by ``scripts/minimax.py``. Errors
are in ``docs/reference/accuracy.md``: measured over every float32, at most 4 units in the last place.
"""

from __future__ import annotations

import math

from forge.tir import expr as tir
from forge.tir import floats
from forge.tir.expr import Expr, select
from forge.tir.floats import absolute, constant, fma, format_of, polynomial, polynomial_by_halves, single

# ln 2 as a sum; the first part has few bits, so that its product with an exponent is exact
LN2 = {"float32": (0.693359375, -2.1219444005469057e-4), "float64": (0.6931471803691238, 1.9082149292705877e-10)}

# (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2
_EXP = {
    "float32": (0.4999999403953552, 0.1666651964187622, 0.041668400168418884, 0.00836885068565607, 0.0013814319390803576),
    "float64": (0.5000000000000011, 0.16666666666666408, 0.0416666666665281, 0.008333333333496928, 0.0013888888944249271,
                0.00019841269502732164, 2.48014923881995e-05, 2.755758842944199e-06, 2.76305235015491e-07,
                2.4999855601070923e-08),
}

# (2^r - 1) / r for |r| <= 1/2
EXP2 = {
    "float32": (0.6931471824645996, 0.24022650718688965, 0.055504102259874344, 0.00961803738027811, 0.0013333938550204039,
                0.00015467008051928133, 1.5195931155176368e-05),
    "float64": (0.6931471805599453, 0.24022650695910072, 0.05550410866482169, 0.009618129107628326, 0.001333355814639212,
                0.00015403530393644888, 1.5252733854919684e-05, 1.3215486592558636e-06, 1.0178051670371899e-07,
                7.054974983488307e-09, 4.456614451070105e-10, 2.5625206251028828e-11),
}

# (log(1 + f) - f + f^2/2) / f^3 for 1 + f in [sqrt(1/2), sqrt(2)]
_LOG_SINGLE = (0.3333331346511841, -0.25000008940696716, 0.2000211924314499, -0.1666799634695053, 0.14219552278518677,
               -0.1240558847784996, 0.11888162046670914, -0.11675652116537094, 0.06746642291545868)

# (2 atanh(s) - 2 s) / s^3 in z = s^2 for s = f / (2 + f)
_LOG_DOUBLE = (0.6666666666666735, 0.3999999999941107, 0.2857142874331041, 0.22222198466900414, 0.18183570421168918,
               0.15313880678034128, 0.14797782867773593)

# log(erfc(x)) / x for 0 <= x <= 4: a constant, and what is beyond
_ERFC_LOG_FIRST = -1.128379225730896
_ERFC_LOG = (5.41147215926685e-08, -0.6366193890571594, -0.1027776300907135, 0.019152071326971054, 0.00016244825383182615,
             -0.0016691769706085324, 0.0006340327090583742, -0.00011797693878179416, 9.293532457377296e-06)

# erf(x) / x in x^2 for |x| <= 1; erfc(x) exp(x^2) in 1 / (1 + x/2) - 0.45 for 1 <= x <= 6
_ERF_SMALL = (1.1283791670955126, -0.3761263890318352, 0.11283791670944185, -0.02686617064311147, 0.005223977606118474,
              -0.00085483259293145, 0.00012055293576900567, -1.4924712302006396e-05, 1.6447131571229833e-06,
              -1.6206313758134365e-07, 1.3710980396615756e-08, -7.779468486498512e-10)
_ERF_LARGE = (0.21501513724964796, 0.762410386694198, 0.873028372110804, 0.6144481467412233, 0.11313139108341201,
              -0.201204849437453, -0.0964640198920888, 0.11290460658303932, 0.053199217089430505, -0.0944607442202498,
              -0.010234421384230296, 0.08557446409770834, -0.05179024019093683)

_EXP_RANGE = {"float32": (-104.0, 89.0), "float64": (-746.0, 710.0)}
_EXP2_RANGE = {"float32": (-151.0, 129.0), "float64": (-1076.0, 1025.0)}
_NEAR_OVERFLOW = {"float32": 88.0, "float64": 709.0}
_SQUARE_OVERFLOWS = {"float32": 1e10, "float64": 1e18}
_EXPM1_RANGE = {"float32": (-17.5, 89.0), "float64": (-38.0, 710.0)}


def _reduce_exp(x: Expr) -> tuple[Expr, Expr]:
    """(t, r) with x = n ln 2 + r for the integer n that ``t`` holds."""
    t = floats.shifted(x, 1 / math.log(2))
    n = floats.unshifted(t)
    high, low = LN2[x.dtype]
    return t, fma(n, -low, fma(n, -high, x))


def expm1_near(r: Expr) -> Expr:
    """exp(r) - 1 for |r| <= ln(2) / 2 and a little more."""
    square = r * r
    return fma(square, polynomial_by_halves(r, square, _EXP[r.dtype]), r)


def exp(x: Expr) -> Expr:
    t, r = _reduce_exp(floats.clamp(x, *_EXP_RANGE[x.dtype]))
    return floats.scale(expm1_near(r) + 1.0, t)


def exp2(x: Expr) -> Expr:
    x = floats.clamp(x, *_EXP2_RANGE[x.dtype])
    t = floats.shifted(x, 1.0)
    r = x - floats.unshifted(t)
    return floats.scale(fma(r, polynomial(r, EXP2[x.dtype]), 1.0), t)


def expm1(x: Expr) -> Expr:
    """2^n (exp(r) - 1) + (2^n - 1), with half of 2^n, which is finite for every n."""
    clamped = floats.clamp(x, *_EXPM1_RANGE[x.dtype])
    t, r = _reduce_exp(clamped)
    small = expm1_near(r)
    half = floats.power_of_two(floats.shifted_integer(t) - 1, format_of(x))
    result = fma(small, half, half - 0.5) * 2.0
    return select(x.eq(0.0), x, result)


def split(x: Expr) -> tuple[Expr, Expr]:
    """(e, m) with x = m 2^e and m in [sqrt(1/2), sqrt(2)), for positive finite ``x``, also subnormal; ``e`` is a float."""
    f = format_of(x)
    tiny = x < f.smallest_normal
    x = select(tiny, x * 2.0**f.mantissa, x)
    root = _bits(math.sqrt(0.5), f)
    offset = floats.bits_of(x) - root
    exponent = tir.binary("shr", offset, f.mantissa)
    mantissa = floats.from_bits(floats.bits_of(x) - tir.binary("shl", exponent, f.mantissa), x.dtype)
    return exponent.astype(x.dtype) - select(tiny, constant(x, f.mantissa), 0.0), mantissa


def _bits(value: float, f: floats.FloatFormat) -> int:
    """The bit pattern of a positive normal number, its mantissa rounded down."""
    mantissa, exponent = math.frexp(value)
    return ((exponent - 1 + f.bias) << f.mantissa) + int((mantissa * 2 - 1) * 2**f.mantissa)


def _log_parts(f: Expr) -> tuple[Expr, Expr]:
    """(h, r) with log(1 + f) = f - (h - r), for 1 + f near 1: h = f^2/2 and r what is beyond."""
    half = f * f * 0.5
    if single(f):
        return half, f * f * f * polynomial(f, _LOG_SINGLE)
    s = f / (f + 2.0)
    z = s * s
    return half, s * (half + z * polynomial(z, _LOG_DOUBLE))


def _log_with_base(x: Expr, correction: Expr | None, high: float, low: float, unit: float) -> Expr:
    """log(x) * unit with exponents weighted by high + low; ``correction`` is added to log(m)."""
    e, m = split(x)
    f = m - 1.0
    half, rest = _log_parts(f)
    if correction is not None:
        rest = rest + correction
    if unit == 1.0:
        return fma(e, high, f - (half - fma(e, low, rest)))
    return fma(e, high, fma(f - (half - rest), unit, e * low))


def _log_specials(x: Expr, result: Expr, zero: float) -> Expr:
    """NaN below ``zero``, -inf at it, infinity and NaN kept."""
    result = select(x < math.inf, result, x)
    result = select(x.eq(zero), constant(x, -math.inf), result)
    return select(x < zero, constant(x, math.nan), result)


def log(x: Expr) -> Expr:
    return _log_specials(x, _log_with_base(x, None, *LN2[x.dtype], 1.0), 0.0)


def log2(x: Expr) -> Expr:
    return _log_specials(x, _log_with_base(x, None, 1.0, 0.0, 1 / math.log(2)), 0.0)


_LOG10_2 = {"float32": (0.301025390625, 4.605038981195214e-06), "float64": (0.30102999566406652, -8.5323443170571066e-14)}


def log10(x: Expr) -> Expr:
    return _log_specials(x, _log_with_base(x, None, *_LOG10_2[x.dtype], 1 / math.log(10)), 0.0)


def log1p(x: Expr) -> Expr:
    """log of u = 1 + x rounded, plus what the rounding lost, relative to u."""
    u = x + 1.0
    lost = select(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    result = _log_with_base(u, lost / u, *LN2[x.dtype], 1.0)
    result = _log_specials(x, result, -1.0)
    return select(absolute(x) < format_of(x).smallest_normal, x, result)


def _expm1_inside(x: Expr, factor: float) -> Expr:
    """(exp(factor x) - 1) / factor for a power of two and results so far below overflow that ln 2 need not be a sum."""
    shifter = format_of(x).shifter + format_of(x).bias
    t = fma(x, factor / math.log(2), shifter)
    r = fma(t - shifter, -math.log(2) / factor, x)
    square = r * r
    series = [c * factor ** (k + 1) for k, c in enumerate(_EXP[x.dtype])]
    small = fma(square, polynomial_by_halves(r, square, series), r)
    power = floats.from_bits(tir.binary("shl", floats.bits_of(t), format_of(x).mantissa), x.dtype)
    return fma(small, power, fma(power, 1 / factor, -1 / factor))


def tanh(x: Expr) -> Expr:
    """e / (e + 1) for e = (exp(2|x|) - 1) / 2, where results are below 1."""
    e = _expm1_inside(tir.binary("min", absolute(x), 9.2 if single(x) else 20.0), 2.0)
    return floats.copy_sign(e / (e + 1.0), x)


def erf(x: Expr) -> Expr:
    """float32: 1 - exp(log(erfc(|x|))); float64: 1 - erfc(|x|), and a polynomial for small x."""
    if single(x):
        a = tir.binary("min", absolute(x), 4.0)
        log = fma(a, _ERFC_LOG_FIRST, a * polynomial_by_halves(a, a * a, _ERFC_LOG))
        return floats.copy_sign(_expm1_inside(log, 1.0), x)
    a = tir.binary("min", absolute(x), 6.0)
    t = 1.0 / fma(a, 0.5, 1.0) - 0.45
    large = 1.0 - exp(a * a * -1.0) * polynomial(t, _ERF_LARGE)
    return select(a < 1.0, x * polynomial(x * x, _ERF_SMALL), floats.copy_sign(large, x))


def sinh(x: Expr) -> Expr:
    """(t + t / (t + 1)) / 2 for t = exp(|x|) - 1; near overflow the square of exp(|x| / 2), halved first."""
    a = absolute(x)
    t = expm1(a)
    root = exp(a * 0.5)
    near = (t + t / (t + 1.0)) * 0.5
    return floats.copy_sign(select(a < _NEAR_OVERFLOW[x.dtype], near, root * 0.5 * root), x)


def cosh(x: Expr) -> Expr:
    a = absolute(x)
    e = exp(a)
    root = exp(a * 0.5)
    return select(a < _NEAR_OVERFLOW[x.dtype], fma(e, 0.5, 0.5 / e), root * 0.5 * root)


def asinh(x: Expr) -> Expr:
    """log1p(a + a^2 / (1 + sqrt(1 + a^2))); log(a) + ln 2 where the square would overflow."""
    a = absolute(x)
    huge = a > _SQUARE_OVERFLOWS[x.dtype]
    safe = select(huge, constant(x, 1.0), a)
    square = safe * safe
    near = log1p(safe + square / (tir.call("sqrt", square + 1.0) + 1.0))
    return floats.copy_sign(select(huge, log(a) + math.log(2), near), x)


def acosh(x: Expr) -> Expr:
    """log1p(t + sqrt(2 t + t^2)) for t = x - 1."""
    huge = x > _SQUARE_OVERFLOWS[x.dtype]
    t = select(huge, constant(x, 1.0), x - 1.0)
    near = log1p(t + tir.call("sqrt", fma(t, t, t * 2.0)))
    return select(x < 1.0, constant(x, math.nan), select(huge, log(x) + math.log(2), near))


def atanh(x: Expr) -> Expr:
    a = absolute(x)
    return floats.copy_sign(log1p(a * 2.0 / (1.0 - a)) * 0.5, x)
