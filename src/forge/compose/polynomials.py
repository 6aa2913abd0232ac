"""Orthogonal polynomials of a degree for each element, by their recurrences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from forge.compose.axes import broadcast_arrays
from forge.compose.loops import repeat_while
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


@dataclass(frozen=True)
class Polynomial:
    """A family of polynomials, of which that of degree 0 is 1.

    Attributes:
        first: of x, that of degree 1.
        following: of x, the degree k and the polynomials of degrees k and k - 1: that of degree k + 1.
    """

    first: Callable[[Term], Term]
    following: Callable[[Term, Term, Term, Term], Term]

    def __call__(self, g: Composer, x: Value, n: Value) -> Value:
        """The polynomials of degrees ``n``, whose fractions do not count, at ``x``; of degrees below 0 they are 0."""
        place, degree = (Term(g, v) for v in broadcast_arrays(g, x, n))
        whole = Term(g, g.call("trunc", degree.value))
        one = g.call("broadcast_to", g.constant(1.0, "float64"), shape=place.value.shape)

        def goes_on(at: Composer, values: Sequence[Value]) -> Value:
            _, degree, k, *_ = (Term(at, v) for v in values)
            return at.call("any", (k < degree).value, axis=None, keepdims=False)

        def step(at: Composer, values: Sequence[Value]) -> Sequence[Value]:
            x, degree, k, now, before = (Term(at, v) for v in values)
            more = k < degree
            after = more.where(self.following(x, k, now, before), now)
            return [x.value, degree.value, (k + 1).value, after.value, more.where(now, before).value]

        start = [place.value, whole.value, g.constant(1.0, "float64"), self.first(place).value, one]
        found = Term(g, repeat_while(g, start, goes_on, step)[3])
        return (whole < 0).where(0, (whole < 1).where(1, found)).value


def _chebyshev(x: Term, k: Term, now: Term, before: Term) -> Term:
    return x * 2 * now - before


POLYNOMIALS: Mapping[str, Polynomial] = MappingProxyType({
    "chebyshev_t": Polynomial(lambda x: x, _chebyshev),
    "chebyshev_u": Polynomial(lambda x: x * 2, _chebyshev),
    "chebyshev_v": Polynomial(lambda x: x * 2 - 1, _chebyshev),
    "chebyshev_w": Polynomial(lambda x: x * 2 + 1, _chebyshev),
    "hermite_h": Polynomial(lambda x: x * 2, lambda x, k, now, before: x * 2 * now - k * 2 * before),
    "hermite_he": Polynomial(lambda x: x, lambda x, k, now, before: x * now - k * before),
    "laguerre_l": Polynomial(lambda x: 1 - x, lambda x, k, now, before: ((k * 2 + 1 - x) * now - k * before) / (k + 1)),
    "legendre_p": Polynomial(lambda x: x, lambda x, k, now, before: ((k * 2 + 1) * x * now - k * before) / (k + 1)),
})
"""By name and kind. The shifted ones are those of ``2 * x - 1``."""
