"""Rounding to integers, and division of floats with quotient and remainder, in loop IR."""

from __future__ import annotations

import math

from forge.tir import expr as tir
from forge.tir import floats, stmt
from forge.tir.expr import Buffer, Expr, Var, select
from forge.tir.floats import absolute, constant, format_of, is_nan


def round_half_even(x: Expr) -> Expr:
    """Adding and subtracting 2^mantissa rounds what is smaller; for processors without a rounding instruction."""
    limit = 2.0 ** format_of(x).mantissa
    a = absolute(x)
    return select(a < limit, floats.copy_sign((a + limit) - limit, x), x)


def trunc(x: Expr) -> Expr:
    a = absolute(x)
    near = round_half_even(a)
    return floats.copy_sign(select(near > a, near - 1.0, near), x)


def floor(x: Expr) -> Expr:
    near = round_half_even(x)
    return floats.copy_sign(select(near > x, near - 1.0, near), x)


def ceil(x: Expr) -> Expr:
    near = round_half_even(x)
    return floats.copy_sign(select(near < x, near + 1.0, near), x)


_STEP = 11
_MASK = (1 << 52) - 1


def fmod_loop(x: Expr, y: Expr) -> tuple[stmt.Stmt, Expr]:
    """x - trunc(x / y) y for float64 scalars, exactly: long division of the mantissas, 11 bits at a time."""
    x_bits, y_bits = floats.bits_of(absolute(x)), floats.bits_of(absolute(y))
    x_exponent, y_exponent = (tir.binary("max", tir.binary("shr", b, 52), 1) for b in (x_bits, y_bits))
    x_mantissa, y_mantissa = (_mantissa(b) for b in (x_bits, y_bits))
    steps = tir.binary("max", x_exponent - y_exponent, 0)
    rest = Buffer("rest", "int64", (tir.const(1),), scope="local")
    counter = Var(tir.INDEX, 1, "step")
    body = stmt.seq(
        stmt.Allocate(rest),
        stmt.store(rest, 0, tir.binary("truncmod", x_mantissa, y_mantissa)),
        stmt.loop(counter, steps // _STEP,
                  stmt.store(rest, 0, _shifted_rest(rest, _STEP, y_mantissa))),
        stmt.store(rest, 0, _shifted_rest(rest, steps % _STEP, y_mantissa)))
    return body, _fmod_result(x, y, tir.load(rest, 0), y_exponent - 1075)


def _mantissa(bits: Expr) -> Expr:
    return (bits & _MASK) | select(bits > _MASK, tir.const(1 << 52), 0)


def _shifted_rest(rest: Buffer, count: Expr | int, divisor: Expr) -> Expr:
    shifted = tir.binary("shl", tir.load(rest, 0), count)
    return tir.binary("truncmod", shifted.astype("uint64"), divisor.astype("uint64")).astype("int64")


def _fmod_result(x: Expr, y: Expr, rest: Expr, exponent: Expr) -> Expr:
    f = format_of(x)
    half = tir.binary("shr", exponent, 1)
    size = rest.astype("float64") * floats.power_of_two(half, f) * floats.power_of_two(exponent - half, f)
    result = select(absolute(x) < absolute(y), x, floats.copy_sign(size, x))
    undefined = tir.binary("or", y.eq(0.0), absolute(x).eq(math.inf))
    result = select(undefined, constant(x, math.nan), result)
    return select(is_nan(x) | is_nan(y), x + y, result)


def fmod_single(x: Expr, y: Expr) -> Expr:
    """float32, by way of float64, in which the result is exact."""
    return tir.call("fmod", x.astype("float64"), y.astype("float64")).astype("float32")


def truncdiv(x: Expr, y: Expr) -> Expr:
    return tir.call("trunc", x / y)


def floormod(x: Expr, y: Expr) -> Expr:
    """The remainder with the sign of ``y``."""
    rest = tir.call("fmod", x, y)
    opposite = tir.logical_and(rest.ne(0.0), (rest < 0.0).ne(y < 0.0))
    return select(rest.eq(0.0), floats.copy_sign(rest, y), select(opposite, rest + y, rest))


def floordiv(x: Expr, y: Expr) -> Expr:
    """(x - floormod(x, y)) / y, an integer but for rounding; x / y where y is 0."""
    rest = tir.call("fmod", x, y)
    opposite = tir.logical_and(rest.ne(0.0), (rest < 0.0).ne(y < 0.0))
    quotient = (x - rest) / y - select(opposite, constant(x, 1.0), 0.0)
    whole = tir.call("floor", quotient)
    whole = whole + select(quotient - whole > 0.5, constant(x, 1.0), 0.0)
    whole = select(quotient.eq(0.0), floats.copy_sign(constant(x, 0.0), x / y), whole)
    return select(y.eq(0.0), x / y, whole)
