"""Running reductions that are not operators."""

from __future__ import annotations

import math

from forge import dtypes
from forge.compose.axes import along, part, places
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def offsets(g: Composer, lengths: Value) -> Value:
    """0 followed by the cumulative sums of ``lengths`` along the last axis, int64: the bounds of parts of these lengths."""
    last = lengths.rank - 1
    sums = g.call("cumsum", g.cast(lengths, "int64"), axis=last)
    zero = g.call("broadcast_to", g.constant(0, "int64"), shape=(*lengths.shape[:-1], 1))
    return g.call("concatenate", zero, sums, axis=last)


def extremes(g: Composer, op: str, x: Value, axis: int) -> list[Value]:
    """The running maximum ("cummax") or minimum ("cummin") along ``axis``, and its positions; bools are ordered, too."""
    if x.dtype != "bool":
        return g.multi(op, x, axis=axis)
    values, positions = g.multi(op, g.cast(x, "uint8"), axis=axis)
    return [g.cast(values, "bool"), positions]


def logcumsumexp(g: Composer, x: Value, axis: int) -> Value:
    """``log(cumsum(exp(x)))``.

    Of complex numbers, real and imaginary part of the sums are differences of sums of positive numbers, of which the logarithms
    are known. The angle is the one that PyTorch's recursion leads to: next to that of the element if this is larger than the sum
    before, else next to that of the sum before. It counts turns from the last element that was larger.
    """
    if not dtypes.is_complex(x.dtype):
        return g.call("logcumsumexp", x, axis=axis)
    re, im = (Term(g, g.call(f"complex.{name}", x)) for name in ("real", "imag"))
    (a, scale_a), (b, scale_b) = (_signed(g, re, Term(g, g.call(function, im.value)), axis) for function in ("cos", "sin"))
    scale = scale_a.maximum(scale_b)
    a, b = (v * _exp(g, s - _finite(g, scale)) for v, s in ((a, scale_a), (b, scale_b)))
    logarithm = g.call("log", g.call("complex.make", a.value, b.value))
    length, angle = Term(g, g.call("complex.real", logarithm)) + scale, Term(g, g.call("complex.imag", logarithm))
    return g.call("complex.make", length.value, _continued(g, angle, re, im, length, axis).value)


def _signed(g: Composer, x: Term, factor: Term, axis: int) -> tuple[Term, Term]:
    """The sums of ``exp(x) * factor`` as a number, and the logarithm of what it is to be multiplied by."""
    above, below = (
        Term(g, g.call("logcumsumexp", (x + Term(g, g.call("log", side.value))).value, axis=axis))
        for side in (factor.maximum(0), (factor * -1).maximum(0))
    )
    top = above.maximum(below)
    rise, fall = (_exp(g, side - _finite(g, top)) for side in (above, below))
    return rise - fall, top


def _exp(g: Composer, x: Term) -> Term:
    return Term(g, g.call("exp", x.value))


def _finite(g: Composer, x: Term) -> Term:
    """``x``, and 0 in the place of infinities."""
    return Term(g, g.call("isinf", x.value)).where(0, x)


def _continued(g: Composer, angle: Term, x: Term, y: Term, length: Term, axis: int) -> Term:
    """``angle`` and as many turns as lie between it and the angles that it continues."""
    size = angle.value.shape[axis]

    def turns(v: Term) -> Term:
        return Term(g, g.call("round", (v / (2 * math.pi)).value))

    def before(v: Term) -> Term:
        """``v`` one place later; the first is its own."""
        parts = [part(g, v.value, axis, 0, end) for end in (1, size - 1)]
        return Term(g, g.call("concatenate", *parts, axis=axis)) if size != 1 else v

    place = Term(g, along(g, places(g, angle.value, axis), axis, angle.value.rank))
    starts = (x > before(length)).either(place.equals(0))
    last = g.multi("cummax", starts.where(place, 0).value, axis=axis)[0]
    steps = Term(g, g.call("cumsum", turns(angle - before(angle)).value, axis=axis))
    own = turns(y - angle) + steps
    from_last = Term(g, g.call("gather", own.value, last, axis=axis)) - steps
    return angle + from_last * (2 * math.pi)
