"""Special functions that Forge composes, computed in float64; divisors; parts of floating-point numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from forge.compose.loops import repeat_while
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

_WORK = "float64"
# (2k)! / B(2k) for k = 1 to 12, of the Euler-Maclaurin formula; from Cephes, as torch's.
_EULER_MACLAURIN = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12,
    1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18,
)
_DIRECT = 9
"""How many terms are summed one by one, and how large the next one's base must be."""


def _power(a: Term, b: Term) -> Term:
    return Term(a.g, a.g.call("power", a.value, b.value))


def _any(g: Composer, condition: Value) -> Value:
    return g.call("any", condition, axis=None, keepdims=False)


def zeta(g: Composer, order: Term, start: Term) -> Term:
    """The sum of ``(start + k) ** -order`` over k >= 0, in float64.

    Infinite for order 1 and at the poles, 0, -1, -2 ..; NaN for orders below 1, and for those of negative ``start`` that are
    not whole.
    """
    shape = g.call("add", order.value, start.value).shape
    x, q = (Term(g, g.call("broadcast_to", v.value, shape=shape)) for v in (order, start))
    pole = (q <= 0).both(q.equals(q.floor()))
    undefined = (x < 1).either((q <= 0).both(x > x.floor()))
    base = pole.either(undefined).where(1, q)
    total = _power(base, x * -1)
    for _ in range(_DIRECT):
        base = base + 1
        total = total + _power(base, x * -1)

    def small(at: Composer, values: Sequence[Value]) -> Value:
        return _any(at, (Term(at, values[0]) <= _DIRECT).value)

    def add(at: Composer, values: Sequence[Value]) -> Sequence[Value]:
        a, s, e = (Term(at, v) for v in values)
        more = a <= _DIRECT
        following = more.where(a + 1, a)
        return [following.value, more.where(s + _power(following, e * -1), s).value, e.value]

    last, sum_, _ = repeat_while(g, [base.value, total.value, x.value], small, add)
    w, total = Term(g, last), Term(g, sum_)
    term = _power(w, x * -1)
    total = total + term * w / (x - 1) - term * 0.5
    factor = Term(g, g.scalar(1.0, total.value))
    for k, divisor in enumerate(_EULER_MACLAURIN):
        factor = factor * (x + 2 * k)
        term = term / w
        total = total + factor * term / divisor
        factor = factor * (x + 2 * k + 1)
        term = term / w
    total = undefined.where(math.nan, total)
    return pole.either(x.equals(1)).both(x >= 1).where(math.inf, total)


@converts("special_zeta.default", "special_zeta.other_scalar", "special_zeta.self_scalar")
def special_zeta(g: Context, self: Operand, other: Operand) -> Value:
    order, start = (Term(g, g.tensor(x, _WORK)) for x in (self, other))
    return zeta(g, order, start).cast(g.dtype).value


@converts("polygamma.default", "special_polygamma.default")
def polygamma(g: Context, self: Value, *, n: int) -> Value:
    if n == 0:
        return g.call("digamma", g.cast(self, g.dtype))
    x = Term(g, g.cast(self, _WORK))
    sign = 1 if n % 2 else -1
    return (zeta(g, Term(g, g.constant(n + 1.0, _WORK)), x) * (sign * math.factorial(n))).cast(g.dtype).value


@converts("special_ndtri.default")
def ndtri(g: Context, self: Value) -> Value:
    """The inverse of the normal distribution: a rational approximation (Hastings), and two steps of Halley's method."""
    p = Term(g, g.cast(self, _WORK))
    tail = p.minimum(1 - p)
    t = Term(g, g.call("sqrt", (Term(g, g.call("log", tail.value)) * -2).value))
    top = (t * 0.010328 + 0.802853) * t + 2.515517
    bottom = ((t * 0.001308 + 0.189269) * t + 1.432788) * t + 1
    y = top / bottom - t
    for _ in range(2):
        area = Term(g, g.call("erfc", (y * -math.sqrt(0.5)).value)) * 0.5
        density = Term(g, g.call("exp", (y * y * -0.5).value)) * (1 / math.sqrt(2 * math.pi))
        step = (area - tail) / density
        y = y - step / (y * step * 0.5 + 1)
    y = tail.equals(0).where(-math.inf, y)
    return (p > 0.5).where(y * -1, y).cast(g.dtype).value


def _gcd(g: Context, a: Value, b: Value) -> Term:
    """Euclid's algorithm on all elements at once."""
    shape = g.call("add", a, b).shape

    def left(at: Composer, values: Sequence[Value]) -> Value:
        return _any(at, at.call("not_equal", values[1], at.scalar(0, values[1])))

    def step(at: Composer, values: Sequence[Value]) -> Sequence[Value]:
        x, y = values
        done = at.call("equal", y, at.scalar(0, y))
        return [at.call("where", done, x, y), at.call("where", done, y, at.call("mod", x, y))]

    first = [g.call("broadcast_to", g.call("abs", v), shape=shape) for v in (a, b)]
    return Term(g, repeat_while(g, first, left, step)[0])


@converts("gcd.default")
def gcd(g: Context, self: Value, other: Value) -> Value:
    return _gcd(g, g.cast(self, g.dtype), g.cast(other, g.dtype)).value


@converts("lcm.default")
def lcm(g: Context, self: Value, other: Value) -> Value:
    a, b = g.cast(self, g.dtype), g.cast(other, g.dtype)
    return g.call("abs", (Term(g, a).floor_divide(_gcd(g, a, b)) * Term(g, b)).value)


@converts("ldexp.Tensor")
def ldexp(g: Context, self: Value, other: Value) -> Value:
    power = g.call("power", g.constant(2, g.dtype), g.cast(other, g.dtype))
    return g.call("multiply", g.cast(self, g.dtype), power)


@converts("frexp.Tensor")
def frexp(g: Context, self: Value) -> list[Value]:
    """By the bits of float64; subnormal numbers are made normal first."""
    x = Term(g, g.cast(self, _WORK))
    tiny = abs(x) < 2.0**-1022
    normal = tiny.where(x * 2.0**54, x)
    bits = Term(g, g.call("reinterpret", normal.value, dtype="int64"))
    exponent = Term(g, g.call("bitwise_and", bits.value, g.constant(0x7FF << 52, "int64")))
    exponent = exponent.floor_divide(1 << 52) - 1022
    exponent = tiny.where(exponent - 54, exponent)
    kept = g.call("bitwise_and", bits.value, g.constant(~(0x7FF << 52), "int64"))
    mantissa = Term(g, g.call("reinterpret", g.call("bitwise_or", kept, g.constant(1022 << 52, "int64")), dtype=_WORK))
    same = x.equals(0).either(Term(g, g.call("logical_not", g.call("isfinite", x.value))))
    return [same.where(x, mantissa).cast(self.dtype).value, same.where(0, exponent).cast("int32").value]
