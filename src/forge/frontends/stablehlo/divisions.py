"""Divisions of integers that round down, which jax writes by those that round to zero: with them, sizes stay expressions."""

from __future__ import annotations

from forge import dtypes
from forge.frontends.stablehlo.context import Context
from forge.ir.nodes import Value


def rounded_down(g: Context, condition: Value, on_true: Value, on_false: Value) -> Value | None:
    """``floor(x / y)``, or ``x - floor(x / y) * y``, where the selection means that; None where it means anything else.

    The first is ``select(sign(x) != sign(y) and x rem y != 0, x / y - 1, x / y)``, the second
    ``select((r < 0) != (y < 0) and r != 0, r + y, r)`` for ``r = x rem y``.
    """
    if not dtypes.is_integer(on_false.dtype):
        return None
    quotient, remainder, both = _made_by("divide", on_false), _made_by("mod", on_false), _made_by("logical_and", condition)
    if both is None or quotient is None and remainder is None:
        return None
    if quotient is not None:
        signs, rest = (_made_by("not_equal", v) for v in both)
        less = _made_by("subtract", on_true)
        fits = (
            less is not None and less[0] is on_false and _is(g, less[1], 1)
            and signs is not None and all(_is_sign(g, s, v) for s, v in zip(signs, quotient))
            and rest is not None and _made_by("mod", rest[0]) == quotient and _is(g, rest[1], 0))
        return g.call("floor_divide", *quotient) if fits else None
    assert remainder is not None
    signs, rest = (_made_by("not_equal", v) for v in both)
    more = _made_by("add", on_true)
    fits = (
        more is not None and more[0] is on_false and _same(g, more[1], remainder[1])
        and signs is not None and _is_negative(g, signs[0], on_false) and _is_negative(g, signs[1], remainder[1])
        and rest is not None and rest[0] is on_false and _is(g, rest[1], 0))
    return g.call("floor_mod", *remainder) if fits else None


def _made_by(op: str, value: Value) -> list[Value] | None:
    """The operands of the operator that gives ``value``, if it is ``op``."""
    producer = value.producer
    if producer is None or producer.op != op:
        return None
    return [v for v in producer.operands if v is not None]


def _is(g: Context, value: Value, number: int) -> bool:
    array = g.array(value)
    return array is not None and array.size > 0 and bool((array == number).all())


def _same(g: Context, a: Value, b: Value) -> bool:
    one, other = g.array(a), g.array(b)
    return a is b or one is not None and other is not None and one.shape == other.shape and bool((one == other).all())


def _is_sign(g: Context, sign: Value, value: Value) -> bool:
    known = g.array(value)
    if known is not None:
        found = g.array(sign)
        return found is not None and bool((found == (known > 0) * 1 - (known < 0) * 1).all())
    return _made_by("sign", sign) == [value]


def _is_negative(g: Context, test: Value, value: Value) -> bool:
    known, found = g.array(value), g.array(test)
    if known is not None:
        return found is not None and bool((found == (known < 0)).all())
    compared = _made_by("less", test)
    return compared is not None and compared[0] is value and _is(g, compared[1], 0)
