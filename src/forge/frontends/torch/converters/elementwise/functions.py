"""Functions of one number, and special functions of two."""

from __future__ import annotations

import math
from collections.abc import Callable

from forge import dtypes
from forge.compose import elementwise, special
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

_SAME_NAME = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "digamma", "erf", "erfc", "erfinv", "exp",
    "expm1", "floor", "i0", "lgamma", "log", "log10", "log1p", "log2", "reciprocal", "round", "rsqrt", "sigmoid", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
)
_RENAMED = {
    "neg": "negative", "relu": "nn.relu", "special_i0e": "i0e", "special_i1": "i1", "special_i1e": "i1e",
    "special_bessel_j0": "bessel_j0", "special_bessel_j1": "bessel_j1", "special_bessel_y0": "bessel_y0",
    "special_bessel_y1": "bessel_y1", "special_spherical_bessel_j0": "spherical_bessel_j0", "special_airy_ai": "airy_ai",
    "special_modified_bessel_k0": "bessel_k0", "special_scaled_modified_bessel_k0": "bessel_k0e",
    "special_modified_bessel_k1": "bessel_k1", "special_scaled_modified_bessel_k1": "bessel_k1e",
    "special_erfcx": "erfcx", "special_modified_bessel_i0": "i0", "special_modified_bessel_i1": "i1", "special_expit": "sigmoid",
    "special_gammaln": "lgamma", "special_psi": "digamma", "absolute": "abs", "arccos": "acos", "arccosh": "acosh",
    "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctanh": "atanh", "fix": "trunc", "negative": "negative",
    **{f"special_{name}": name for name in ("digamma", "erf", "erfc", "erfinv", "expm1", "i0", "log1p", "round")},
}


def _unary(name: str, op: str) -> None:
    @converts(f"{op}.default")
    def convert(g: Context, self: Value) -> Value:
        wide = dtypes.complex_of(g.dtype) if dtypes.is_complex(self.dtype) and not dtypes.is_complex(g.dtype) else g.dtype
        return g.call(name, g.cast(self, wide))


for _op, _name in {**{name: name for name in _SAME_NAME}, **_RENAMED}.items():
    _unary(_name, _op)


@converts("sign.default", "sgn.default")
def sign(g: Context, self: Value) -> Value:
    """Of NaN 0, but for complex numbers."""
    if dtypes.is_float(self.dtype):
        return Term(g, g.call("isnan", self)).where(0, Term(g, g.call("sign", self))).value
    return self if self.dtype == "bool" else g.call("sign", self)


@converts("signbit.default")
def signbit(g: Context, self: Value) -> Value:
    if dtypes.is_float(self.dtype):
        return g.call("signbit", self)
    if self.dtype == "bool":
        return g.call("full_like", self, g.constant(False))
    return g.call("less", self, g.constant(0, self.dtype))


@converts("exp2.default", "special_exp2.default")
def exp2(g: Context, self: Value) -> Value:
    x = g.cast(self, g.dtype)
    return g.call("exp", (Term(g, x) * math.log(2)).value) if dtypes.is_complex(g.dtype) else g.call("exp2", x)


@converts("frac.default")
def frac(g: Context, self: Value) -> Value:
    return g.call("subtract", self, g.call("trunc", self))


@converts("round.decimals")
def round_to(g: Context, self: Value, *, decimals: int) -> Value:
    return self if dtypes.is_integer(self.dtype) and decimals >= 0 else elementwise.round_to(g, self, decimals)


@converts("logit.default", "special_logit.default")
def logit(g: Context, self: Value, *, eps: float | None = None) -> Value:
    x = g.cast(self, g.dtype)
    return special.logit(g, x if eps is None else Term(g, x).maximum(eps).minimum(1 - eps).value)


def _composed(function: Callable[[Context, Value], Value], *ops: str) -> None:
    @converts(*(f"{op}.default" for op in ops))
    def convert(g: Context, self: Value) -> Value:
        return function(g, g.cast(self, g.dtype))


_composed(lambda g, x: g.call("multiply", x, x), "square")
_composed(lambda g, x: (Term(g, x) * (math.pi / 180)).value, "deg2rad")
_composed(lambda g, x: (Term(g, x) * (180 / math.pi)).value, "rad2deg")
_composed(special.sinc, "sinc", "special_sinc")
_composed(special.entr, "special_entr")
_composed(special.ndtr, "special_ndtr")
_composed(special.log_ndtr, "special_log_ndtr")


def binary(what: str | Callable[[Context, Value, Value], Value], *ops: str, domain: str = "") -> None:
    """An operator of Forge, or a composition, of two operands in the element type of the result."""

    @converts(*ops, domain=domain)
    def convert(g: Context, self: Operand, other: Operand) -> Value:
        operands = g.tensor(self, g.dtype), g.tensor(other, g.dtype)
        return g.call(what, *operands) if isinstance(what, str) else what(g, *operands)


binary("igamma", "igamma.default", "special_gammainc.default")
binary("igammac", "igammac.default", "special_gammaincc.default")
binary("atan2", "atan2.default", "arctan2.default")
binary("hypot", "hypot.default")
binary("nextafter", "nextafter.default")
binary("copysign", "copysign.Tensor", "copysign.Scalar")
binary("xlogy", "xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self", "special_xlogy.default", "special_xlogy.other_scalar",
       "special_xlogy.self_scalar")
binary(special.logaddexp, "logaddexp.default")
binary(special.logaddexp2, "logaddexp2.default")
binary(special.xlog1py, "special_xlog1py.default", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar")
binary(elementwise.gcd, "gcd.default")
binary(elementwise.lcm, "lcm.default")


@converts("heaviside.default")
def heaviside(g: Context, self: Value, values: Value) -> Value:
    return g.call("logical_or", self, values) if g.dtype == "bool" else elementwise.heaviside(g, self, values)
