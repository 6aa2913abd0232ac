"""Special functions that are not operators, with the names of SciPy's ``scipy.special``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from forge import dtypes
from forge.compose.axes import broadcast_arrays
from forge.compose.loops import repeat_while
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

# (2k)! / B(2k) for k = 1 to 12, of the Euler-Maclaurin formula; from Cephes.
_EULER_MACLAURIN = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12,
    1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18,
)
_DIRECT = 9
"""How many terms are summed one by one, and how large the next one's base must be."""


def zeta(g: Composer, x: Value, q: Value) -> Value:
    """Hurwitz's zeta function, the sum of ``(q + k) ** -x`` over k >= 0, of float64; Euler-Maclaurin formula, as in Cephes.

    Infinite for ``x`` 1 and at the poles, ``q`` = 0, -1, -2 ..; NaN for ``x`` below 1, and where ``x`` is not whole for negative
    ``q``.
    """
    order, start = (Term(g, v) for v in broadcast_arrays(g, x, q))
    pole = (start <= 0).both(start.equals(start.floor()))
    undefined = (order < 1).either((start <= 0).both(order > order.floor()))
    base = pole.either(undefined).where(1, start)
    total = _power(base, order * -1)
    for _ in range(_DIRECT):
        base = base + 1
        total = total + _power(base, order * -1)

    def small(at: Composer, values: Sequence[Value]) -> Value:
        return at.call("any", (Term(at, values[0]) <= _DIRECT).value, axis=None, keepdims=False)

    def add(at: Composer, values: Sequence[Value]) -> Sequence[Value]:
        a, s, e = (Term(at, v) for v in values)
        more = a <= _DIRECT
        following = more.where(a + 1, a)
        return [following.value, more.where(s + _power(following, e * -1), s).value, e.value]

    last, sum_, _ = repeat_while(g, [base.value, total.value, order.value], small, add)
    total = undefined.where(math.nan, _with_rest(g, Term(g, sum_), order, Term(g, last)))
    return pole.either(order.equals(1)).both(order >= 1).where(math.inf, total).value


def _with_rest(g: Composer, total: Term, order: Term, last: Term) -> Term:
    """The infinite sum, of which ``total`` is the part up to the term of base ``last``."""
    term = _power(last, order * -1)
    total = total + term * last / (order - 1) - term * 0.5
    factor = Term(g, g.scalar(1.0, total.value))
    for k, divisor in enumerate(_EULER_MACLAURIN):
        factor = factor * (order + 2 * k)
        term = term / last
        total = total + factor * term / divisor
        factor = factor * (order + 2 * k + 1)
        term = term / last
    return total


def _power(a: Term, b: Term) -> Term:
    return Term(a.g, a.g.call("power", a.value, b.value))


def polygamma(g: Composer, n: int, x: Value) -> Value:
    """Derivative ``n`` of the digamma function, n >= 1, of float64."""
    sign = 1 if n % 2 else -1
    return (Term(g, zeta(g, g.constant(n + 1.0, x.dtype), x)) * (sign * math.factorial(n))).value


def ndtr(g: Composer, x: Value) -> Value:
    """The cumulative distribution function of the normal distribution."""
    return ((Term(g, g.call("erf", (Term(g, x) * math.sqrt(0.5)).value)) + 1) * 0.5).value


def log_ndtr(g: Composer, x: Value) -> Value:
    """The logarithm of `ndtr`; on the left by the scaled complementary error function, which does not underflow."""
    t = Term(g, x) * math.sqrt(0.5)
    left = Term(g, g.call("log", (Term(g, g.call("erfcx", (t * -1).value)) * 0.5).value)) - t * t
    right = Term(g, g.call("log1p", (Term(g, g.call("erfc", t.value)) * -0.5).value))
    return (Term(g, x) < -1).where(left, right).value


def ndtri(g: Composer, p: Value) -> Value:
    """The inverse of `ndtr`, of float64: Hastings' rational approximation, and two steps of Halley's method."""
    area = Term(g, p)
    tail = area.minimum(1 - area)
    t = Term(g, g.call("sqrt", (Term(g, g.call("log", tail.value)) * -2).value))
    top = (t * 0.010328 + 0.802853) * t + 2.515517
    bottom = ((t * 0.001308 + 0.189269) * t + 1.432788) * t + 1
    y = top / bottom - t
    for _ in range(2):
        found = Term(g, g.call("erfc", (y * -math.sqrt(0.5)).value)) * 0.5
        density = Term(g, g.call("exp", (y * y * -0.5).value)) * (1 / math.sqrt(2 * math.pi))
        step = (found - tail) / density
        y = y - step / (y * step * 0.5 + 1)
    y = tail.equals(0).where(-math.inf, y)
    return (area > 0.5).where(y * -1, y).value


def entr(g: Composer, x: Value) -> Value:
    """``-x * log(x)``; 0 at 0, and negative infinity below."""
    t = Term(g, x)
    inner = t * Term(g, g.call("log", x)) * -1
    return (t > 0).where(inner, t.equals(0).where(t * 0, (t < 0).where(-math.inf, t))).value


def logit(g: Composer, x: Value) -> Value:
    """``log(x / (1 - x))``."""
    t = Term(g, x)
    return g.call("log", (t / (1 - t)).value)


def sinc(g: Composer, x: Value) -> Value:
    """``sin(pi * x) / (pi * x)``, 1 at 0."""
    t = Term(g, x)
    angle = t * math.pi
    return t.equals(0).where(1, Term(g, g.call("sin", angle.value)) / angle).value


def xlog1py(g: Composer, x: Value, y: Value) -> Value:
    """``x * log1p(y)``; 0 where ``x`` is 0, unless ``y`` is NaN."""
    t = Term(g, x)
    product = t * Term(g, g.call("log1p", y))
    nothing = t.equals(0).both(Term(g, g.call("logical_not", g.call("isnan", y))))
    return nothing.where(0, product).value


def logaddexp(g: Composer, a: Value, b: Value) -> Value:
    """``log(exp(a) + exp(b))``; of complex numbers relative to the one with the larger real part."""
    if not dtypes.is_complex(a.dtype):
        return g.call("logaddexp", a, b)
    is_larger = Term(g, g.call("less", *(g.call("complex.real", x) for x in (b, a))))
    first, second = Term(g, a), Term(g, b)
    high, low = is_larger.where(first, second), is_larger.where(second, first)
    total = high + Term(g, g.call("log1p", g.call("exp", (low - high).value)))
    return high.equals(low).where(high + math.log(2), total).value


def logaddexp2(g: Composer, a: Value, b: Value) -> Value:
    """``log2(2 ** a + 2 ** b)``."""
    first, second = (Term(g, x) * math.log(2) for x in (a, b))
    return (Term(g, g.call("logaddexp", first.value, second.value)) / math.log(2)).value
