"""Activation functions of bfloat16 in loop IR: computed in float32, with as few instructions as 8 bits of precision allow.

Before rounding errors are below 0.05 units of bfloat16, but for subnormal results and where those of tanh and erf round to 1
anyway: there below 0.4. That holds for every float32, as a fused kernel does not round between operators. Zeros, infinities and
NaN become what ``gates`` and ``exponential`` make of them. Fits are minimax, by ``scripts/minimax.py``.
"""

from __future__ import annotations

import math

from forge.tir import expr as tir
from forge.tir import floats
from forge.tir.expr import Expr, select
from forge.tir.floats import absolute, clamp, constant, fma, format_of, polynomial, polynomial_by_halves

_SCALE = 2.0**-16
"""Keeps powers of two normal whose reciprocals are subnormal, and the other way round."""

_INFINITE = 144
"""The exponent whose power of two, times ``_SCALE``, is infinite; ``1 - _INFINITE`` gives 0 where that is over ``_SCALE``."""

_ZERO = -111
"""The exponent whose power of two, times ``_SCALE``, is 0."""

_LN_2 = math.log(2)

# 2^r for |r| <= 1/2
_EXP2 = (0.9999280887512213, 0.693260894507003, 0.24261099641838937, 0.055172028199958104)

# log1p(e) / e for 0 <= e <= 1
_SOFTPLUS = (0.9999432606640068, -0.4969775539224537, 0.30630020005100755, -0.1574265741961548, 0.041347174687398985)

# the 32nd root of erfc(a / sqrt(2)) / 2 in a - 6.5 for 0 <= a <= 13; where it ends results are 0
_GELU_ROOT = (0.47328135875572697, -0.09831168584002258, 0.0029689925233672095, 0.0007825214436107202, -5.9531101267914e-05,
              -2.6891112380065866e-06, 4.1049026166306143e-07, -4.051733945791949e-09, -6.751559052090783e-10)
_GELU_END = 13.6

# 2 sqrt(2/pi) / ln 2 and 0.044715 times that; the arguments whose exponents are _INFINITE and _ZERO
_GELU_TANH = (2 * math.sqrt(2 / math.pi) / _LN_2, 0.044715 * 2 * math.sqrt(2 / math.pi) / _LN_2)
_GELU_TANH_RANGE = (-10.51805, 9.52869)

# tanh(a) / a and erf(a) / a to where results round to 1; a times that is larger beyond
_TANH = (0.9998369995865791, 0.0049701631713488965, -0.3555783108142601, 0.017163650785357303, 0.19332352120784124,
         -0.1333881431584676, 0.04138009078649375, -0.006389409483704946, 0.00039862930383690286)
_ERF = (1.1282521792249083, 0.0032514105287416556, -0.3874233690481031, -0.0009989405960440733, 0.16099591837876054,
        -0.0708417450989504, 0.009556563962854968)


def _power(x: Expr, slope: Expr | float, lowest: int) -> tuple[Expr, Expr]:
    """(p, q) with p q = 2^(x slope - ``lowest`` - 127); p is 0 for exponent ``lowest``, infinite for ``lowest`` + 255."""
    shifter = format_of(x).shifter - lowest
    t = fma(x, slope, shifter)
    rest = fma(x, slope, shifter - t)
    bits = tir.binary("shl", floats.bits_of(t), format_of(x).mantissa)
    return floats.from_bits(bits, x.dtype), polynomial(rest, _EXP2)


def _exp(x: Expr) -> Expr:
    """exp(x) from where that is subnormal to a few binades above 1."""
    low = 1 - _INFINITE
    power, factor = _power(tir.binary("max", x, low * _LN_2), 1 / _LN_2, low)
    return power * (factor * _SCALE)


def _gate(x: Expr, slope: Expr | float) -> Expr:
    """1 / (1 + 2^(x slope)) for exponents between ``_ZERO`` and ``_INFINITE``."""
    power, factor = _power(x, slope, _ZERO)
    return tir.call("near_reciprocal", fma(power, factor, _SCALE)) * _SCALE


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x))"""
    return _gate(clamp(x, -_INFINITE * _LN_2, -_ZERO * _LN_2), -1 / _LN_2)


def silu(x: Expr) -> Expr:
    """x sigmoid(x)"""
    return x * sigmoid(x)


def softplus(x: Expr) -> Expr:
    """max(x, 0) + log1p(exp(-|x|))"""
    decay = _exp(-absolute(x))
    return fma(decay, polynomial(decay, _SOFTPLUS), tir.binary("max", x, 0.0))


def mish(x: Expr) -> Expr:
    """x w / (w + 2) for w = e (e + 2), e = exp(x): the tanh of softplus."""
    decay = _exp(tir.binary("min", x, 10.0))
    w = decay * (decay + 2.0)
    return x * (w * tir.call("near_reciprocal", w + 2.0))


def gelu(x: Expr) -> Expr:
    """x (1 + erf(x / sqrt(2))) / 2"""
    a = absolute(x)
    b = a - 6.5
    tail = select(a < _GELU_END, polynomial_by_halves(b, b * b, _GELU_ROOT), constant(x, 0.0))
    for _ in range(5):
        tail = tail * tail
    return x * select(x >= 0.0, 1.0 - tail, tail)


def gelu_tanh(x: Expr) -> Expr:
    """x / (1 + exp(-2 z)) for z = sqrt(2 / pi) (x + 0.044715 x^3): x (1 + tanh(z)) / 2"""
    inner = clamp(x, *_GELU_TANH_RANGE)
    slope, cubic = _GELU_TANH
    return x * _gate(inner, fma(inner * inner, -cubic, -slope))


def tanh(x: Expr) -> Expr:
    return clamp(x * polynomial(absolute(x), _TANH), -1.0, 1.0)


def erf(x: Expr) -> Expr:
    return clamp(x * polynomial(absolute(x), _ERF), -1.0, 1.0)
