"""Functions of elements that are not operators, with NumPy's names."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes

from forge import dtypes
from forge.compose.axes import broadcast_arrays
from forge.compose.loops import repeat_while
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def angle(g: Composer, x: Value) -> Value:
    """The angle of complex numbers; of floats pi below 0, else 0, and NaN of NaN."""
    if dtypes.is_complex(x.dtype):
        return g.call("complex.angle", x)
    t = Term(g, x)
    return Term(g, g.call("isnan", x)).where(t, (t < 0).where(Term(g, g.scalar(math.pi, x)), 0)).value


def round_to(g: Composer, x: Value, decimals: int) -> Value:
    """``x`` rounded to ``decimals`` digits after the point; negative ones count before it."""
    power = 10.0 ** abs(decimals)
    scaled = Term(g, x) * power if decimals > 0 else Term(g, x) / power
    rounded = Term(g, g.call("round", scaled.value))
    return (rounded / power if decimals > 0 else rounded * power).value


def heaviside(g: Composer, x: Value, at_zero: Value) -> Value:
    """0 below 0, 1 above, ``at_zero`` at 0."""
    t = Term(g, x)
    return t.equals(0).where(Term(g, at_zero), (t > 0).cast(x.dtype)).value


def lerp(g: Composer, start: Value, end: Value, weight: Value) -> Value:
    """``start + weight * (end - start)``, from the nearer end, so that weights 0 and 1 give the ends themselves."""
    a, b, share = (Term(g, v) for v in (start, end, weight))
    near = abs(share) < 0.5
    return near.where(a + share * (b - a), b - (b - a) * (1 - share)).value


def nan_to_num(g: Composer, x: Value, nan: float, posinf: float | None, neginf: float | None) -> Value:
    """``x`` with numbers in the place of NaN and infinities: those of None are the largest and least ones of the type.

    Of complex numbers both parts, on their own; integers stay.
    """
    if dtypes.is_complex(x.dtype):
        parts = (nan_to_num(g, g.call(f"complex.{part}", x), nan, posinf, neginf) for part in ("real", "imag"))
        return g.call("complex.make", *parts)
    if not dtypes.is_float(x.dtype):
        return x
    info = ml_dtypes.finfo(dtypes.numpy_dtype(x.dtype))  # type: ignore[no-untyped-call]
    t = Term(g, x)
    t = t.equals(math.inf).where(float(info.max) if posinf is None else posinf, t)
    t = t.equals(-math.inf).where(float(info.min) if neginf is None else neginf, t)
    return Term(g, g.call("isnan", t.value)).where(nan, t).value


def gcd(g: Composer, a: Value, b: Value) -> Value:
    """The greatest common divisor of integers, by Euclid's algorithm on all elements at once."""

    def left(at: Composer, values: Sequence[Value]) -> Value:
        return at.call("any", at.call("not_equal", values[1], at.scalar(0, values[1])), axis=None, keepdims=False)

    def step(at: Composer, values: Sequence[Value]) -> Sequence[Value]:
        x, y = values
        done = at.call("equal", y, at.scalar(0, y))
        return [at.call("where", done, x, y), at.call("where", done, y, at.call("mod", x, y))]

    return repeat_while(g, broadcast_arrays(g, *(g.call("abs", v) for v in (a, b))), left, step)[0]


def lcm(g: Composer, a: Value, b: Value) -> Value:
    """The least common multiple of integers."""
    return g.call("abs", (Term(g, a).floor_divide(Term(g, gcd(g, a, b))) * Term(g, b)).value)


def frexp(g: Composer, x: Value) -> tuple[Value, Value]:
    """Mantissas of sizes 0.5 to 1, as float64, and exponents, as int64, with ``x = mantissa * 2 ** exponent``, of float64.

    They are read from the bits; subnormal numbers are made normal first.
    """
    t = Term(g, x)
    tiny = abs(t) < 2.0**-1022
    normal = tiny.where(t * 2.0**54, t)
    bits = Term(g, g.call("reinterpret", normal.value, dtype="int64"))
    exponent = Term(g, g.call("bitwise_and", bits.value, g.constant(0x7FF << 52, "int64")))
    exponent = exponent.floor_divide(1 << 52) - 1022
    exponent = tiny.where(exponent - 54, exponent)
    kept = g.call("bitwise_and", bits.value, g.constant(~(0x7FF << 52), "int64"))
    mantissa = Term(g, g.call("reinterpret", g.call("bitwise_or", kept, g.constant(1022 << 52, "int64")), dtype="float64"))
    same = t.equals(0).either(Term(g, g.call("logical_not", g.call("isfinite", x))))
    return same.where(t, mantissa).value, same.where(0, exponent).value
