"""Orthogonal polynomials of a degree for each element, by their recurrences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge.compose.loops import repeat_while
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

First = Callable[[Term], Term]
Next = Callable[[Term, Term, Term, Term], Term]
"""Of x, the degree k and the polynomials of degrees k and k - 1: that of degree k + 1."""


def _chebyshev(x: Term, k: Term, now: Term, before: Term) -> Term:
    return x * 2 * now - before


_POLYNOMIALS: dict[str, tuple[First, Next]] = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": (lambda x: x * 2, _chebyshev),
    "chebyshev_polynomial_v": (lambda x: x * 2 - 1, _chebyshev),
    "chebyshev_polynomial_w": (lambda x: x * 2 + 1, _chebyshev),
    "hermite_polynomial_h": (lambda x: x * 2, lambda x, k, now, before: x * 2 * now - k * 2 * before),
    "hermite_polynomial_he": (lambda x: x, lambda x, k, now, before: x * now - k * before),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda x, k, now, before: ((k * 2 + 1 - x) * now - k * before) / (k + 1)),
    "legendre_polynomial_p": (lambda x: x, lambda x, k, now, before: ((k * 2 + 1) * x * now - k * before) / (k + 1)),
}


def _polynomial(op: str, first: First, following: Next, is_shifted: bool) -> None:
    def goes_on(at: Composer, values: Sequence[Value]) -> Value:
        _, degree, k, *_ = (Term(at, v) for v in values)
        return at.call("any", (k < degree).value, axis=None, keepdims=False)

    def step(at: Composer, values: Sequence[Value]) -> Sequence[Value]:
        x, degree, k, now, before = (Term(at, v) for v in values)
        more = k < degree
        after = more.where(following(x, k, now, before), now)
        return [x.value, degree.value, (k + 1).value, after.value, more.where(now, before).value]

    @converts(*(f"special_{op}.{overload}" for overload in ("default", "n_scalar", "x_scalar")))
    def convert(g: Context, x: Operand, n: Operand) -> Value:
        shape = g.shape
        given, degree = (Term(g, g.call("broadcast_to", g.tensor(v, "float64"), shape=shape)) for v in (x, n))
        place = given * 2 - 1 if is_shifted else given
        whole = Term(g, g.call("trunc", degree.value))
        one = g.call("broadcast_to", g.constant(1.0, "float64"), shape=shape)
        start = [place.value, whole.value, g.constant(1.0, "float64"), first(place).value, one]
        found = Term(g, repeat_while(g, start, goes_on, step)[3])
        return (whole < 0).where(0, (whole < 1).where(1, found)).cast(g.dtype).value


for _op, (_first, _next) in _POLYNOMIALS.items():
    _polynomial(_op, _first, _next, False)
    if _op.startswith("chebyshev"):
        _polynomial(f"shifted_{_op}", _first, _next, True)
