"""Activation functions in loop IR: sigmoid, silu, gelu, mish and softplus, accurate where they are small too.

Most need exp(-|x|), down to where the result underflows. It is held as ``scaled``, 2^k times too large, so that it never
is subnormal, and 0 where the result is: then x * scaled is right for every x, also -0 for large negative ones and NaN for
-infinity. The product is divided by 2^k at the end, in one rounding.

gelu is max(x, 0) - a exp(-a^2/2) W(a) for a = |x|, with W(a) = erfc(a / sqrt(2)) exp(a^2/2) / 2, which falls from 1/2 to
0.4 / a: a rational fit in float32, in float64 a polynomial in (a - 4) / (a + 4) over 1 + 2a. Squares and cubes in exponents are
carried with their rounding errors, as exponents reach -100 (-740), where an ulp of the exponent is 50 of the result. Fits are
minimax in the relative error, by ``scripts/minimax.py``; those of float32 were then moved by single ulps where that helped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from forge.codegen import exponential
from forge.tir import expr as tir
from forge.tir import floats
from forge.tir.expr import Expr, select
from forge.tir.floats import absolute, constant, fma, format_of, polynomial, polynomial_by_halves, single

_EXTRA = {"float32": 32, "float64": 64}
"""k: how many binades the smallest results are below the smallest normal number, and a few."""

# log1p(e) / e for 0 <= e <= 1
_SOFTPLUS_P = (1.0, 1.0662187337875366, 0.23815761506557465, 0.0034172823652625084)
_SOFTPLUS_Q = (1.0, 1.566218614578247, 0.6879364848136902, 0.07528732717037201)

# a W(a) = (a / 2 + a^2/2 P) / Q for 0 <= a <= 14.6, over 1, a, a^2/2, a a^2/2, (a^2/2)^2 ...
_TAIL_P = (0.8769906759262085, 0.36676734685897827, 0.1627333015203476, 0.016495002433657646)
_TAIL_Q = (1.0, 1.6748756170272827, 2.4062399864196777, 0.9397255182266235, 0.4079374074935913, 0.041346367448568344)

# W(a) (1 + 2a) in (a - 4) / (a + 4) for 0 <= a <= 39
_TAIL = (
    0.8496957717177204, -0.02300923310459547, -0.09637998589040186, 0.1289081354447609, -0.09526047896307088,
    0.04436429044386384, -0.010512319244661108, -0.0012100600810087756, 0.0015769783389750795,
    -0.00014330536621656755, -0.0002043537838810555, 3.7867483361438936e-05, 3.1553394012317064e-05,
    -6.032374518823217e-06, -5.876670698910526e-06, 5.996530689820811e-07, 1.1793548274756774e-06,
    5.6358079825703536e-08, -2.106095712110616e-07, -4.784629046021211e-08, 2.2133587986303013e-08,
    9.81326628404549e-09, 6.469329491270549e-10)

# 2 sqrt(2/pi) and 0.044715 times that, each as a sum; the sum of the first ones, times a square, is exact but for its last bit
_GELU_TANH = {
    "float32": (1.595768928527832, 1.930778986805098e-07, 0.07135481387376785, 2.3988323959931355e-09),
    "float64": (1.5957691216057341, -3.430362161966579e-15, 0.07135481627260025, -6.175149918155315e-19),
}
_GELU_TANH_END = {"float32": 10.9151477976749, "float64": 21.5989181033884}


@dataclass(frozen=True)
class Decay:
    """exp of something negative: ``power * (1 + rest)``, 2^k times too large, ``power`` a power of two or 0."""

    power: Expr
    rest: Expr

    @property
    def scaled(self) -> Expr:
        return fma(self.power, self.rest, self.power)

    @property
    def value(self) -> Expr:
        """exp itself; subnormal numbers may be inexact."""
        return self.scaled * _down(self.power)

    def times(self, more: Expr) -> Expr:
        """``scaled * (1 + more)``, in one rounding but for small parts."""
        return fma(self.power, fma(self.rest, more, self.rest + more), self.power)


def _down(x: Expr) -> float:
    return 2.0 ** -_EXTRA[x.dtype]


def _lowest(x: Expr) -> float:
    """The exponent of two whose ``power`` is 0."""
    return float(-(format_of(x).bias + _EXTRA[x.dtype]))


def _reduced(x: Expr, low: Expr | None, offset: float) -> tuple[Expr, Expr]:
    """(b, rest) with exp(x + low) = 2^n (1 + rest), and n + ``offset`` in the exponent's place of the bits b."""
    shifter = format_of(x).shifter + offset
    t = fma(x, 1 / math.log(2), shifter)
    n = t - shifter
    high_part, low_part = exponential.LN2[x.dtype]
    r = fma(n, -high_part, x)
    r = fma(n, -low_part, r) if low is None else r + fma(n, -low_part, low)
    rest = exponential.expm1_near(r)
    return tir.binary("shl", floats.bits_of(t), format_of(x).mantissa), rest


def _decay(x: Expr, low: Expr | None = None) -> Decay:
    """exp(x + low) for x between ``_lowest`` ln 2 and a few binades above 0; ``low`` is far below x."""
    power, rest = _reduced(x, low, -_lowest(x))
    return Decay(floats.from_bits(power, x.dtype), rest)


def _clamped(x: Expr) -> Expr:
    """x, but not below the logarithm of the smallest ``power``."""
    return tir.binary("max", x, _lowest(x) * math.log(2))


def _gated(x: Expr, decay: Decay) -> Expr:
    """x / (1 + 1 / decay) for negative x, x / (1 + decay) for others."""
    negative = x < 0.0
    top = select(negative, x * decay.scaled, x)
    return top / (decay.value + 1.0) * select(negative, constant(x, _down(x)), 1.0)


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x)); for negative x exp(x) / (1 + exp(x))."""
    decay = _decay(_clamped(-absolute(x)))
    negative = x < 0.0
    return select(negative, decay.scaled, constant(x, 1.0)) / (decay.value + 1.0) * select(negative, constant(x, _down(x)), 1.0)


def silu(x: Expr) -> Expr:
    """x / (1 + exp(-x))"""
    return _gated(x, _decay(_clamped(-absolute(x))))


def softplus(x: Expr) -> Expr:
    """max(x, 0) + log1p(exp(-|x|))"""
    decay = _decay(_clamped(-absolute(x)))
    positive = tir.binary("max", x, 0.0)
    if not single(x):
        small = exponential.log1p(decay.value)
        return select(x < -64.0, decay.scaled * _down(x), small + positive)
    e = decay.value
    top = fma(decay.scaled * e, polynomial(e, _SOFTPLUS_P[1:]), decay.scaled)
    return fma(top / polynomial(e, _SOFTPLUS_Q), _down(x), positive)


def mish(x: Expr) -> Expr:
    """x w / (w + 2) for w = e (e + 2), e = exp(x): the tanh of softplus without either."""
    high = 10.0 if single(x) else 20.0
    decay = _decay(tir.binary("min", _clamped(x), high))
    w = decay.times(decay.value * 0.5) * 2.0
    ratio = w / fma(w, _down(x), 2.0)
    negative = x < 0.0
    down = constant(x, _down(x))
    return ratio * select(negative, constant(x, 1.0), down) * x * select(negative, down, 1.0)


def gelu(x: Expr) -> Expr:
    """x (1 + erf(x / sqrt(2))) / 2; the quotient is 2^(2k) times too large, by the exponent of its denominator."""
    a = tir.binary("min", absolute(x), _gelu_end(x))
    half = a * 0.5
    square = half * a
    extra = 2 * _EXTRA[x.dtype]
    exponent, rest = _reduced(-square, -tir.call("product_error", half, a), extra)
    top, low, bottom = _tail(a, half, square)
    bottom = floats.from_bits(floats.bits_of(bottom) - exponent, x.dtype)
    return select(x >= 0.0, x, x * 0.0) - _quotient(top, low, rest, bottom) * 2.0**-extra


def _quotient(top: Expr, low: Expr, rest: Expr, bottom: Expr) -> Expr:
    """(top + low) (1 + rest) / bottom in one rounding; ``low`` is below an ulp of ``top``."""
    product = fma(top, rest, top)
    lost = fma(top, rest, top - product) + low
    reciprocal = 1.0 / bottom
    near = product * reciprocal
    return fma(tir.call("residual", near, bottom, product) + lost, reciprocal, near)


def _gelu_end(x: Expr) -> float:
    """Where exp(-a^2/2) is below the smallest number by far."""
    return math.sqrt(-2 * _lowest(x) * math.log(2))


def _tail(a: Expr, half: Expr, square: Expr) -> tuple[Expr, Expr, Expr]:
    """a W(a) as (top + low) / bottom, from a, a / 2 and a^2 / 2; ``low`` is the rounding error of ``top`` where a is large."""
    if single(a):
        series = polynomial_by_halves(a, square, _TAIL_P)
        top = fma(square, series, half)
        return top, fma(square, series, -top) + half, polynomial_by_halves(a, square, _TAIL_Q)
    return a * polynomial(fma(a / (a + 4.0), 2.0, -1.0), _TAIL), constant(a, 0.0), fma(a, 2.0, 1.0)


def gelu_tanh(x: Expr) -> Expr:
    """x / (1 + exp(-2 z)) for z = sqrt(2 / pi) (x + 0.044715 x^3): x (1 + tanh(z)) / 2"""
    a = tir.binary("min", absolute(x), _GELU_TANH_END[x.dtype])
    slope, slope_rest, cubic, cubic_rest = _GELU_TANH[x.dtype]
    square = a * a
    w = fma(square, cubic, slope)
    error = fma(square, cubic_rest, fma(tir.call("product_error", a, a), cubic, slope_rest))
    error = error + tir.call("residual", square, constant(x, -cubic), slope - w)
    exponent = a * w
    low = fma(a, error, tir.call("product_error", a, w))
    return _gated(x, _decay(-exponent, -low))
