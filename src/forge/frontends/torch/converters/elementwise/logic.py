"""Comparisons, logic, bits, and choices between elements."""

from __future__ import annotations

import math

from forge import dims, dtypes
from forge.compose import elementwise
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.converters.elementwise.functions import binary
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_OVERLOADS = ("Tensor", "Scalar")


def truth(g: Context, operand: Operand) -> Value:
    """Whether elements are not 0."""
    return g.cast(g.tensor(operand), "bool")


def _comparison(name: str, op: str) -> None:
    @converts(*(f"{op}.{overload}" for overload in _OVERLOADS))
    def convert(g: Context, self: Operand, other: Operand) -> Value:
        a, b = g.promoted(self, other)
        if a.dtype == "bool" and name not in ("equal", "not_equal"):
            a, b = g.cast(a, "uint8"), g.cast(b, "uint8")
        return g.call(name, a, b)


for _name, _ops in {
    "equal": ("eq",), "not_equal": ("ne", "not_equal"), "less": ("lt", "less"), "less_equal": ("le", "less_equal"),
    "greater": ("gt", "greater"), "greater_equal": ("ge", "greater_equal"),
}.items():
    for _op in _ops:
        _comparison(_name, _op)


def _logical(op: str) -> None:
    @converts(f"{op}.default")
    def convert(g: Context, self: Value, other: Value) -> Value:
        return g.call(op, truth(g, self), truth(g, other))


for _op in ("logical_and", "logical_or", "logical_xor"):
    _logical(_op)


@converts("logical_not.default")
def logical_not(g: Context, self: Value) -> Value:
    return g.call("logical_not", truth(g, self))


for _op in ("and", "or", "xor"):
    binary(f"bitwise_{_op}", *(f"bitwise_{_op}.{o}" for o in (*_OVERLOADS, "Scalar_Tensor")),
           *(f"__{_op}__.{o}" for o in _OVERLOADS))
for _name, _op in (("left_shift", "lshift"), ("right_shift", "rshift")):
    binary(_name, *(f"bitwise_{_name}.{o}" for o in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
           *(f"__{_op}__.{o}" for o in _OVERLOADS))


@converts("bitwise_not.default")
def bitwise_not(g: Context, self: Value) -> Value:
    return g.call("bitwise_not", self)


def _test(name: str, of_integers: bool) -> None:
    @converts(f"{name}.default")
    def convert(g: Context, self: Value) -> Value:
        if dtypes.is_float(self.dtype) or dtypes.is_complex(self.dtype):
            return g.call(name, self)
        return g.call("broadcast_to", g.constant(of_integers), shape=self.shape)


_test("isnan", False)
_test("isinf", False)
_test("isfinite", True)


def _is_infinity(op: str, infinity: float) -> None:
    @converts(f"{op}.default")
    def convert(g: Context, self: Value) -> Value:
        if not dtypes.is_float(self.dtype):
            return g.call("broadcast_to", g.constant(False), shape=self.shape)
        return g.call("equal", self, g.scalar(infinity, self))


_is_infinity("isposinf", math.inf)
_is_infinity("isneginf", -math.inf)


@converts("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(g: Context, condition: Value, self: Operand, other: Operand) -> Value:
    return g.call("where", truth(g, condition), g.tensor(self, g.dtype), g.tensor(other, g.dtype))


def extreme(g: Context, name: str, self: Operand, other: Operand) -> Value:
    """``name``, which is that of a maximum or minimum of two, in the element type of the result."""
    a, b = g.tensor(self, g.dtype), g.tensor(other, g.dtype)
    if g.dtype == "bool":
        return g.call("logical_or" if "max" in name else "logical_and", a, b)
    return g.call(name, a, b)


def _extreme(name: str, *ops: str) -> None:
    @converts(*ops)
    def convert(g: Context, self: Value, other: Value) -> Value:
        return extreme(g, name, self, other)


_extreme("maximum", "maximum.default", "max.other")
_extreme("minimum", "minimum.default", "min.other")
_extreme("fmax", "fmax.default")
_extreme("fmin", "fmin.default")


def _is_plain(bound: Operand | None) -> bool:
    return bound is None or not isinstance(bound, Value | dims.DimExpr | complex) and not math.isnan(bound)


@converts("clamp.default", "clamp.Tensor", "clip.default", "clip.Tensor")
def clamp(g: Context, self: Value, min: Operand | None = None, max: Operand | None = None) -> Value:  # noqa: A002
    if dtypes.is_float(g.dtype) and _is_plain(min) and _is_plain(max):
        least, most = (None if bound is None else float(bound) for bound in (min, max))  # type: ignore[arg-type]
        return g.call("clip", g.cast(self, g.dtype), a_min=least, a_max=most)
    result = self if min is None else extreme(g, "maximum", self, min)
    return result if max is None else extreme(g, "minimum", result, max)


@converts("clamp_min.default", "clamp_min.Tensor")
def clamp_min(g: Context, self: Value, min: Operand) -> Value:  # noqa: A002
    return clamp(g, self, min)


@converts("clamp_max.default", "clamp_max.Tensor")
def clamp_max(g: Context, self: Value, max: Operand) -> Value:  # noqa: A002
    return clamp(g, self, None, max)


@converts("nan_to_num.default")
def nan_to_num(g: Context, self: Value, *, nan: float | None = None, posinf: float | None = None,
               neginf: float | None = None) -> Value:
    return elementwise.nan_to_num(g, self, nan or 0.0, posinf, neginf)
