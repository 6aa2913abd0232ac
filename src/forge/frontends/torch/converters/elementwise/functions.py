"""Functions of one number, and special functions of two."""

from __future__ import annotations

import math

from forge import dtypes
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


@converts("square.default")
def square(g: Context, self: Value) -> Value:
    x = g.cast(self, g.dtype)
    return g.call("multiply", x, x)


@converts("frac.default")
def frac(g: Context, self: Value) -> Value:
    return g.call("subtract", self, g.call("trunc", self))


@converts("round.decimals")
def round_to(g: Context, self: Value, *, decimals: int) -> Value:
    if dtypes.is_integer(self.dtype) and decimals >= 0:
        return self
    power = 10.0 ** abs(decimals)
    scaled = Term(g, self) * power if decimals > 0 else Term(g, self) / power
    rounded = Term(g, g.call("round", scaled.value))
    return (rounded / power if decimals > 0 else rounded * power).value


@converts("logit.default", "special_logit.default")
def logit(g: Context, self: Value, *, eps: float | None = None) -> Value:
    x = Term(g, g.cast(self, g.dtype))
    if eps is not None:
        x = x.maximum(eps).minimum(1 - eps)
    return g.call("log", (x / (1 - x)).value)


@converts("sinc.default", "special_sinc.default")
def sinc(g: Context, self: Value) -> Value:
    x = Term(g, g.cast(self, g.dtype))
    turned = x * math.pi
    return x.equals(0).where(1, Term(g, g.call("sin", turned.value)) / turned).value


@converts("deg2rad.default")
def deg2rad(g: Context, self: Value) -> Value:
    return (Term(g, g.cast(self, g.dtype)) * (math.pi / 180)).value


@converts("rad2deg.default")
def rad2deg(g: Context, self: Value) -> Value:
    return (Term(g, g.cast(self, g.dtype)) * (180 / math.pi)).value


@converts("special_entr.default")
def entr(g: Context, self: Value) -> Value:
    x = Term(g, g.cast(self, g.dtype))
    inner = x * Term(g, g.call("log", x.value)) * -1
    return (x > 0).where(inner, x.equals(0).where(x * 0, (x < 0).where(-math.inf, x))).value


@converts("special_ndtr.default")
def ndtr(g: Context, self: Value) -> Value:
    x = Term(g, g.cast(self, g.dtype))
    return ((Term(g, g.call("erf", (x * math.sqrt(0.5)).value)) + 1) * 0.5).value


@converts("special_log_ndtr.default")
def log_ndtr(g: Context, self: Value) -> Value:
    """On the left by the scaled complement, which does not underflow."""
    x = Term(g, g.cast(self, g.dtype))
    t = x * math.sqrt(0.5)
    left = Term(g, g.call("log", (Term(g, g.call("erfcx", (t * -1).value)) * 0.5).value)) - t * t
    right = Term(g, g.call("log1p", (Term(g, g.call("erfc", t.value)) * -0.5).value))
    return (x < -1).where(left, right).value


def _binary(name: str, *ops: str) -> None:
    @converts(*ops)
    def convert(g: Context, self: Operand, other: Operand) -> Value:
        return g.call(name, g.tensor(self, g.dtype), g.tensor(other, g.dtype))


for _name, _ops in {
    "igamma": ("igamma.default", "special_gammainc.default"), "igammac": ("igammac.default", "special_gammaincc.default"),
    "atan2": ("atan2.default", "arctan2.default"),
    "hypot": ("hypot.default",),
    "nextafter": ("nextafter.default",),
    "copysign": ("copysign.Tensor", "copysign.Scalar"),
    "xlogy": ("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self", "special_xlogy.default", "special_xlogy.other_scalar",
              "special_xlogy.self_scalar"),
}.items():
    _binary(_name, *_ops)


@converts("logaddexp.default")
def logaddexp(g: Context, self: Value, other: Value) -> Value:
    """Of complex numbers relative to the one with the larger real part."""
    a, b = (Term(g, g.cast(x, g.dtype)) for x in (self, other))
    if not dtypes.is_complex(g.dtype):
        return g.call("logaddexp", a.value, b.value)
    is_larger = Term(g, g.call("less", *(g.call("complex.real", x.value) for x in (b, a))))
    high, low = is_larger.where(a, b), is_larger.where(b, a)
    total = high + Term(g, g.call("log1p", g.call("exp", (low - high).value)))
    return high.equals(low).where(high + math.log(2), total).value


@converts("logaddexp2.default")
def logaddexp2(g: Context, self: Value, other: Value) -> Value:
    a, b = (Term(g, g.cast(x, g.dtype)) * math.log(2) for x in (self, other))
    return (Term(g, g.call("logaddexp", a.value, b.value)) / math.log(2)).value


@converts("special_xlog1py.default", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar")
def xlog1py(g: Context, self: Operand, other: Operand) -> Value:
    x, y = (Term(g, g.tensor(v, g.dtype)) for v in (self, other))
    product = x * Term(g, g.call("log1p", y.value))
    none = x.equals(0).both(Term(g, g.call("logical_not", g.call("isnan", y.value))))
    return none.where(0, product).value


@converts("heaviside.default")
def heaviside(g: Context, self: Value, values: Value) -> Value:
    if g.dtype == "bool":
        return g.call("logical_or", self, values)
    x = Term(g, self)
    return x.equals(0).where(Term(g, values), (x > 0).cast(g.dtype)).value
