"""Running sums, products and extremes."""

from __future__ import annotations

import math

from forge import dtypes
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


def _running(op: str) -> None:
    @converts(f"{op}.default")
    def convert(g: Context, self: Value, *, dim: int, dtype: str | None = None) -> Value:
        x = g.cast(self, g.dtype)
        return g.call(op, x, axis=g.axis(dim, x.rank, "dim")) if x.rank else x


for _op in ("cumsum", "cumprod"):
    _running(_op)


@converts("logcumsumexp.default", "_logcumsumexp.default")
def logcumsumexp(g: Context, self: Value, *, dim: int) -> Value:
    if not self.rank:
        return self
    axis = g.axis(dim, self.rank, "dim")
    return _complex_logcumsumexp(g, self, axis) if dtypes.is_complex(self.dtype) else g.call("logcumsumexp", self, axis=axis)


def _complex_logcumsumexp(g: Context, z: Value, axis: int) -> Value:
    """Real and imaginary part of the sums are differences of sums of positive numbers, of which the logarithms are known.

    The angle is the one that torch's recursion leads to: next to that of the element if this is larger than the sum before, else
    next to that of the sum before. It counts turns from the last element that was larger.
    """
    x, y = (Term(g, g.call(f"complex.{part}", z)) for part in ("real", "imag"))

    def signed(function: str) -> tuple[Term, Term]:
        """The sums of exp(x) * function(y) as a factor and the logarithm of a scale."""
        factor = Term(g, g.call(function, y.value))
        above, below = (
            Term(g, g.call("logcumsumexp", (x + Term(g, g.call("log", part.value))).value, axis=axis))
            for part in (factor.maximum(0), (factor * -1).maximum(0))
        )
        top = above.maximum(below)
        rise, fall = (Term(g, g.call("exp", (part - _finite(g, top)).value)) for part in (above, below))
        return rise - fall, top

    (a, scale_a), (b, scale_b) = signed("cos"), signed("sin")
    scale = scale_a.maximum(scale_b)
    a, b = (v * Term(g, g.call("exp", (s - _finite(g, scale)).value)) for v, s in ((a, scale_a), (b, scale_b)))
    logarithm = g.call("log", g.call("complex.make", a.value, b.value))
    length, angle = Term(g, g.call("complex.real", logarithm)) + scale, Term(g, g.call("complex.imag", logarithm))
    return g.call("complex.make", length.value, _continued(g, angle, x, y, length, axis).value)


def _finite(g: Context, x: Term) -> Term:
    """``x``, and 0 in the place of infinities."""
    return Term(g, g.call("isinf", x.value)).where(0, x)


def _continued(g: Context, angle: Term, x: Term, y: Term, length: Term, axis: int) -> Term:
    """``angle`` and as many turns as lie between it and the angles that it continues."""
    size = angle.value.shape[axis]

    def turns(v: Term) -> Term:
        return Term(g, g.call("round", (v / (2 * math.pi)).value))

    def before(v: Term) -> Term:
        """``v`` one place later; the first is its own."""
        parts = [g.call("strided_slice", v.value, begin=(0,), end=(end,), strides=(1,), axes=(axis,)) for end in (1, size - 1)]
        return Term(g, g.call("concatenate", *parts, axis=axis)) if size != 1 else v

    places = Term(g, g.reshape(g.count(g.tensor(size), size), [size if k == axis else 1 for k in range(angle.value.rank)]))
    starts = (x > before(length)).either(places.equals(0))
    last = g.multi("cummax", starts.where(places, 0).value, axis=axis)[0]
    steps = Term(g, g.call("cumsum", turns(angle - before(angle)).value, axis=axis))
    own = turns(y - angle) + steps
    from_last = Term(g, g.call("gather", own.value, last, axis=axis)) - steps
    return angle + from_last * (2 * math.pi)


def _extreme(op: str) -> None:
    @converts(f"{op}.default")
    def convert(g: Context, self: Value, *, dim: int) -> list[Value]:
        if not self.rank:
            return [self, g.constant(0, "int64")]
        if self.dtype == "bool":
            values, places = g.multi(op, g.cast(self, "uint8"), axis=g.axis(dim, self.rank, "dim"))
            return [g.cast(values, "bool"), places]
        return g.multi(op, self, axis=g.axis(dim, self.rank, "dim"))


_extreme("cummax")
_extreme("cummin")
