"""Functions that are composed: special ones, computed in float64, polynomials, divisors, parts of floating-point numbers."""

from __future__ import annotations

from forge.compose import elementwise, special
from forge.compose.polynomials import POLYNOMIALS
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

_WORK = "float64"


@converts("special_zeta.default", "special_zeta.other_scalar", "special_zeta.self_scalar")
def zeta(g: Context, self: Operand, other: Operand) -> Value:
    return g.cast(special.zeta(g, g.tensor(self, _WORK), g.tensor(other, _WORK)), g.dtype)


@converts("polygamma.default", "special_polygamma.default")
def polygamma(g: Context, self: Value, *, n: int) -> Value:
    if n == 0:
        return g.call("digamma", g.cast(self, g.dtype))
    return g.cast(special.polygamma(g, n, g.cast(self, _WORK)), g.dtype)


@converts("special_ndtri.default")
def ndtri(g: Context, self: Value) -> Value:
    return g.cast(special.ndtri(g, g.cast(self, _WORK)), g.dtype)


def _polynomial(name: str, prefix: str = "") -> None:
    family, _, kind = name.partition("_")

    @converts(*(f"special_{prefix}{family}_polynomial_{kind}.{overload}" for overload in ("default", "n_scalar", "x_scalar")))
    def convert(g: Context, x: Operand, n: Operand) -> Value:
        place = Term(g, g.tensor(x, _WORK))
        if prefix:
            place = place * 2 - 1
        return g.cast(POLYNOMIALS[name](g, place.value, g.tensor(n, _WORK)), g.dtype)


for _name in POLYNOMIALS:
    _polynomial(_name)
    if _name.startswith("chebyshev"):
        _polynomial(_name, "shifted_")


@converts("ldexp.Tensor")
def ldexp(g: Context, self: Value, other: Value) -> Value:
    power = g.call("power", g.constant(2, g.dtype), g.cast(other, g.dtype))
    return g.call("multiply", g.cast(self, g.dtype), power)


@converts("frexp.Tensor")
def frexp(g: Context, self: Value) -> list[Value]:
    mantissa, exponent = elementwise.frexp(g, g.cast(self, _WORK))
    return [g.cast(mantissa, self.dtype), g.cast(exponent, "int32")]
