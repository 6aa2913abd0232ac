"""Operations of ``keras.ops`` on each element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from forge import dtypes
from forge.compose import elementwise, special
from forge.frontends.keras.context import Context
from forge.frontends.keras.promotion import FLOAT, real, together, value
from forge.frontends.keras.registry import OPS, converts
from forge.ir.nodes import Value

_OF_REALS = {
    "Arccos": "acos", "Arccosh": "acosh", "Arcsin": "asin", "Arcsinh": "asinh", "Arctan": "atan", "Arctanh": "atanh",
    "Cbrt": "cbrt", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Exp": "exp", "Exp2": "exp2", "Expm1": "expm1",
    "Floor": "floor", "Log": "log", "Log10": "log10", "Log1p": "log1p", "Log2": "log2", "Sin": "sin", "Sinh": "sinh",
    "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "I0": "i0", "Rsqrt": "rsqrt", "Erf": "erf", "Erfc": "erfc",
    "Erfinv": "erfinv", "Sigmoid": "sigmoid", "Reciprocal": "reciprocal"}
_OF_ANY = {"Absolute": "abs", "Abs": "abs", "Negative": "negative", "Sign": "sign", "Copy": "copy", "StopGradient": "copy"}
_TESTS = {"Isfinite": "isfinite", "Isinf": "isinf", "Isnan": "isnan", "Signbit": "signbit"}
_OF_TWO = {
    "Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Maximum": "maximum", "Minimum": "minimum", "Fmax": "fmax",
    "Fmin": "fmin", "Power": "power", "FloorDivide": "floor_divide", "Mod": "floor_mod", "Fmod": "mod"}
_OF_TWO_REALS = {"Arctan2": "atan2", "Hypot": "hypot", "Nextafter": "nextafter"}
_COMPARISONS = {
    "Equal": "equal", "NotEqual": "not_equal", "Less": "less", "LessEqual": "less_equal", "Greater": "greater",
    "GreaterEqual": "greater_equal"}
_LOGICAL = {"LogicalAnd": "logical_and", "LogicalOr": "logical_or", "LogicalXor": "logical_xor"}
_BITS = {
    "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "BitwiseLeftShift": "left_shift",
    "LeftShift": "left_shift", "BitwiseRightShift": "right_shift", "RightShift": "right_shift"}


def _unary(op: str, prepare: Callable[[Context, Any], Value]) -> Callable[..., Value]:
    return lambda g, x: g.call(op, prepare(g, x))


def _binary(op: str, is_real: bool = False) -> Callable[..., Value]:
    def convert(g: Context, x1: Any, x2: Any) -> Value:
        a, b = together(g, x1, x2)
        if is_real:
            a, b = real(g, a), real(g, b)
        if a.dtype == "bool" and op in ("add", "maximum", "multiply", "minimum"):
            return g.call("logical_or" if op in ("add", "maximum") else "logical_and", a, b)
        return g.call(op, a, b)

    return convert


def _bitwise(op: str) -> Callable[..., Value]:
    def convert(g: Context, x: Any, y: Any) -> Value:
        return g.call(op, *together(g, x, y))

    return convert


def _logical(op: str) -> Callable[..., Value]:
    def convert(g: Context, x1: Any, x2: Any) -> Value:
        return g.call(op, g.cast(value(g, x1), "bool"), g.cast(value(g, x2), "bool"))

    return convert


for _table, _make in (
    (_OF_REALS, lambda op: _unary(op, real)), (_OF_ANY, lambda op: _unary(op, value)), (_TESTS, lambda op: _unary(op, real)),
    (_OF_TWO, _binary), (_OF_TWO_REALS, lambda op: _binary(op, True)), (_COMPARISONS, _binary), (_LOGICAL, _logical),
    (_BITS, _bitwise)):
    for _name, _op in _table.items():
        converts(_name, domain=OPS)(_make(_op))


@converts("Divide", "TrueDivide", domain=OPS)
def divide(g: Context, x1: Any, x2: Any) -> Value:
    a, b = together(g, x1, x2)
    return g.call("divide", real(g, a), real(g, b))


@converts("DivideNoNan", domain=OPS)
def divide_no_nan(g: Context, x1: Any, x2: Any) -> Value:
    a, b = (real(g, v) for v in together(g, x1, x2))
    zero = g.call("equal", b, g.scalar(0, b))
    found = g.call("divide", a, g.call("where", zero, g.call("ones_like", b), b))
    return g.call("where", zero, g.call("zeros_like", found), found)


@converts("Logaddexp", domain=OPS)
def logaddexp(g: Context, x1: Any, x2: Any) -> Value:
    return special.logaddexp(g, *(real(g, v) for v in together(g, x1, x2)))


@converts("Logaddexp2", domain=OPS)
def logaddexp2(g: Context, x1: Any, x2: Any) -> Value:
    return special.logaddexp2(g, *(real(g, v) for v in together(g, x1, x2)))


@converts("Heaviside", domain=OPS)
def heaviside(g: Context, x1: Any, x2: Any) -> Value:
    return elementwise.heaviside(g, *(real(g, v) for v in together(g, x1, x2)))


@converts("Gcd", domain=OPS)
def gcd(g: Context, x1: Any, x2: Any) -> Value:
    return elementwise.gcd(g, *together(g, x1, x2))


@converts("Lcm", domain=OPS)
def lcm(g: Context, x1: Any, x2: Any) -> Value:
    return elementwise.lcm(g, *together(g, x1, x2))


@converts("Ldexp", domain=OPS)
def ldexp(g: Context, x1: Any, x2: Any) -> Value:
    x = real(g, x1)
    return g.call("multiply", x, g.call("exp2", g.cast(value(g, x2), x.dtype)))


@converts("Sinc", domain=OPS)
def sinc(g: Context, x: Any) -> Value:
    return special.sinc(g, real(g, x))


@converts("Square", domain=OPS)
def square(g: Context, x: Any) -> Value:
    found = value(g, x)
    found = g.cast(found, "int32") if found.dtype == "bool" else found
    return g.call("multiply", found, found)


@converts("Fabs", domain=OPS)
def fabs(g: Context, x: Any) -> Value:
    return g.call("abs", real(g, x))


@converts("Trunc", domain=OPS)
def trunc(g: Context, x: Any) -> Value:
    found = value(g, x)
    return found if not dtypes.is_float(found.dtype) else g.call("trunc", found)


@converts("Round", domain=OPS)
def round_to(g: Context, x: Any, *, decimals: int = 0) -> Value:
    found = value(g, x)
    if not dtypes.is_float(found.dtype):
        return found
    return elementwise.round_to(g, found, decimals) if decimals else g.call("round", found)


@converts("Deg2rad", domain=OPS)
def deg2rad(g: Context, x: Any) -> Value:
    found = real(g, x)
    return g.call("multiply", found, g.scalar(math.pi / 180, found))


@converts("Rad2deg", domain=OPS)
def rad2deg(g: Context, x: Any) -> Value:
    found = real(g, x)
    return g.call("multiply", found, g.scalar(180 / math.pi, found))


@converts("LogicalNot", domain=OPS)
def logical_not(g: Context, x: Any) -> Value:
    return g.call("logical_not", g.cast(value(g, x), "bool"))


@converts("BitwiseInvert", "BitwiseNot", domain=OPS)
def bitwise_not(g: Context, x: Any) -> Value:
    return g.call("bitwise_not", value(g, x))


@converts("Isposinf", domain=OPS)
def isposinf(g: Context, x: Any) -> Value:
    found = real(g, x)
    return g.call("equal", found, g.scalar(math.inf, found))


@converts("Isneginf", domain=OPS)
def isneginf(g: Context, x: Any) -> Value:
    found = real(g, x)
    return g.call("equal", found, g.scalar(-math.inf, found))


@converts("Isclose", domain=OPS)
def isclose(g: Context, x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False) -> Value:
    a, b = (real(g, v) for v in together(g, x1, x2))
    rtol, atol = (1e-5 if rtol is None else rtol), (1e-8 if atol is None else atol)
    near = g.call("less_equal", g.call("abs", g.call("subtract", a, b)), g.call(
        "add", g.scalar(atol, b), g.call("multiply", g.scalar(rtol, b), g.call("abs", b))))
    finite = g.call("logical_and", g.call("isfinite", a), g.call("isfinite", b))
    found = g.call("logical_or", g.call("logical_and", near, finite), g.call("equal", a, b))
    return found if not equal_nan else g.call("logical_or", found, g.call("logical_and", g.call("isnan", a), g.call("isnan", b)))


@converts("Clip", domain=OPS)
def clip(g: Context, x: Any, *, x_min: Any, x_max: Any) -> Value:
    found = value(g, x)
    dtype = "int32" if found.dtype == "bool" else found.dtype
    found = g.cast(found, dtype)
    for op, bound in (("maximum", x_min), ("minimum", x_max)):
        if bound is not None:
            found = g.call(op, *together(g, found, np.asarray(bound) if isinstance(bound, tuple) else bound))
    return g.cast(found, dtype)


@converts("Where", domain=OPS)
def where(g: Context, condition: Any, x1: Any = None, x2: Any = None) -> Value:
    if x1 is None or x2 is None:
        raise g.unsupported("got no values to choose from: the sizes of the result are known at run time only")
    return g.call("where", g.cast(value(g, condition), "bool"), *together(g, x1, x2))


@converts("Select", domain=OPS)
def select(g: Context, condlist: Any, choicelist: Any, default: Any = 0) -> Value:
    *choices, found = together(g, *choicelist, 0 if default is None else default)
    for condition, choice in zip(reversed(condlist), reversed(choices)):
        found = g.call("where", value(g, condition), choice, found)
    return found


@converts("NanToNum", domain=OPS)
def nan_to_num(g: Context, x: Any, *, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Value:
    return elementwise.nan_to_num(g, value(g, x), nan, posinf, neginf)


@converts("Angle", domain=OPS)
def angle(g: Context, x: Any) -> Value:
    return elementwise.angle(g, real(g, x))


@converts("Real", "Conjugate", "Conj", domain=OPS)
def real_part(g: Context, x: Any) -> Value:
    found = value(g, x)
    if dtypes.is_complex(found.dtype):
        return g.call("complex.real" if g.layer.class_name == "Real" else "complex.conj", found)
    return found


@converts("Imag", domain=OPS)
def imaginary(g: Context, x: Any) -> Value:
    found = value(g, x)
    return g.call("complex.imag", found) if dtypes.is_complex(found.dtype) else g.call("zeros_like", found)


@converts("Cast", domain=OPS)
def cast(g: Context, x: Any, *, dtype: Any = None) -> Value:
    return converted(g, value(g, x), dtype)


@converts("SaturateCast", domain=OPS)
def saturate_cast(g: Context, x: Any, *, dtype: Any) -> Value:
    wanted = dtypes.canonical(dtype)
    found = value(g, x)
    return found if found.dtype == wanted else g.call("cast", found, dtype=wanted, saturate=True)


@converts("ConvertToTensor", "Array", domain=OPS)
def convert_to_tensor(g: Context, x: Any, *, dtype: Any = None, sparse: Any = None, ragged: Any = None) -> Value:
    return value(g, x) if dtype is None else converted(g, value(g, x), dtype)


def converted(g: Context, x: Value, dtype: Any) -> Value:
    """A cast to a type by Keras's name of it."""
    wanted = dtypes.canonical({"float": FLOAT, "int": "int32"}.get(dtype, dtype))
    return g.cast(x, wanted)


@converts("View", domain=OPS)
def view(g: Context, x: Any, *, dtype: Any = None) -> Value:
    found = value(g, x)
    return found if dtype is None else g.call("reinterpret", found, dtype=dtypes.canonical(dtype))
