"""Special functions."""

from __future__ import annotations

from collections.abc import Callable

from forge.compose import special
from forge.frontends.converter import forwarding
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts, refuse
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

for _name, _op in {
    "BesselI0": "i0", "BesselI0e": "i0e", "BesselI1": "i1", "BesselI1e": "i1e", "BesselJ0": "bessel_j0", "BesselJ1": "bessel_j1",
    "BesselK0": "bessel_k0", "BesselK0e": "bessel_k0e", "BesselK1": "bessel_k1", "BesselK1e": "bessel_k1e",
    "BesselY0": "bessel_y0", "BesselY1": "bessel_y1", "Digamma": "digamma", "Erfinv": "erfinv", "Lgamma": "lgamma",
}.items():
    converts(_name)(forwarding(_op))
for _name, _op in {"Igamma": "igamma", "Igammac": "igammac"}.items():
    converts(_name)(forwarding(_op, 2))
for _name in ("Betainc", "Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence", "IgammaGradA", "RandomGammaGrad"):
    refuse(_name, "a special function that Forge does not have")


def _in_doubles(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function that is given numbers of float64."""

    def convert(g: Composer, *operands: Value) -> Value:
        return g.cast(function(g, *(g.cast(v, "float64") for v in operands)), operands[0].dtype)

    return convert


converts("Ndtri")(forwarding(_in_doubles(special.ndtri)))
converts("Zeta")(forwarding(_in_doubles(special.zeta), 2))


@converts("Polygamma")
def polygamma(g: Context, order: Value, x: Value) -> Value:
    """Derivative ``order`` of the digamma function, NaN where ``order`` is negative or not an integer."""
    n, at = (Term(g, g.cast(v, "float64")) for v in (order, x))
    is_first = n.equals(0)
    following = is_first.where(1, n) + 1
    factorial = Term(g, g.call("exp", g.call("lgamma", following.value)))
    sign = 1 - following.floor_mod(2) * 2
    found = sign * factorial * Term(g, special.zeta(g, following.value, at.value))
    found = is_first.where(Term(g, g.call("digamma", at.value)), found)
    is_order = (n >= 0).both(n.equals(n.floor()))
    return is_order.where(found, float("nan")).cast(x.dtype).value
