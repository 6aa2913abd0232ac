"""The operators and functions of tensor expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.elementwise import arithmetic as e
from forge.exporters.onnx.operators.elementwise.bits import leading_zeros, ones

_DIRECT = {"add": "Add", "sub": "Sub", "mul": "Mul", "min": "Min", "max": "Max"}
_BITS = {"and": ("BitwiseAnd", "And"), "or": ("BitwiseOr", "Or"), "xor": ("BitwiseXor", "Xor")}


def binary(g: Emitter, op: str, a: Ref, b: Ref, divisor: Any = None) -> Ref:
    """``Binary`` of the tensor expressions; ``divisor`` is the number that ``b`` is, where that is known."""
    known = None if divisor is None else np.asarray(divisor)
    if op in _DIRECT:
        return g.op(_DIRECT[op], a, b)
    if op in _BITS:
        return g.op(_BITS[op][a.dtype == "bool"], a, b)
    if op in ("shl", "shr"):
        return e.shifted(g, a, b, left=op == "shl", keeps_sign=dtypes.is_signed(a.dtype))
    if op == "div":
        return g.op("Div", a, b) if dtypes.is_float(a.dtype) else e.truncated_quotient(g, a, b, known)
    if op in ("truncmod", "floormod"):
        return e.remainder(g, a, b, known, floor=op == "floormod")
    if op == "truncdiv" or dtypes.is_unsigned(a.dtype):
        return e.truncated_quotient(g, a, b, known)
    return e.truncated_quotient(g, g.op("Sub", a, e.remainder(g, a, b, known, floor=True)), b, known)


def _same(op: str) -> Callable[..., Ref]:
    return lambda g, *x: g.op(op, *x)


def _to_bool(op: str) -> Callable[..., Ref]:
    return lambda g, x: g.op(op, x, dtype="bool")


def _gelu(g: Emitter, x: Ref) -> Ref:
    inner = g.op("Erf", g.op("Mul", x, g.like(math.sqrt(0.5), x)))
    return g.op("Mul", g.op("Mul", x, g.like(0.5, x)), g.op("Add", inner, g.like(1, x)))


def _gelu_tanh(g: Emitter, x: Ref) -> Ref:
    cube = g.op("Mul", g.op("Mul", x, x), x)
    polynomial = g.op("Add", x, g.op("Mul", cube, g.like(0.044715, x)))
    inner = g.op("Tanh", g.op("Mul", polynomial, g.like(math.sqrt(2 / math.pi), x)))
    return g.op("Mul", g.op("Mul", x, g.like(0.5, x)), g.op("Add", inner, g.like(1, x)))


FUNCTIONS: dict[str, Callable[..., Ref]] = {
    **{name: _same(op) for name, op in {
        "abs": "Abs", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sqrt": "Sqrt", "exp": "Exp", "log": "Log",
        "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
        "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "pow": "Pow", "sigmoid": "Sigmoid",
        "mish": "Mish", "softplus": "Softplus", "sign": "Sign",
    }.items()},
    "isnan": _to_bool("IsNaN"), "isinf": _to_bool("IsInf"), "trunc": e.truncated, "expm1": e.exponential_less_one,
    "log1p": e.logarithm_of_one_and, "atan2": e.angle, "popcount": ones, "clz": leading_zeros, "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "rsqrt": lambda g, x: g.op("Reciprocal", g.op("Sqrt", x)),
    "exp2": lambda g, x: g.op("Pow", g.like(2.0, x), x),
    "log2": lambda g, x: g.op("Div", g.op("Log", x), g.like(math.log(2.0), x)),
    "log10": lambda g, x: g.op("Div", g.op("Log", x), g.like(math.log(10.0), x)),
    "fma": lambda g, a, b, c: g.op("Add", g.op("Mul", a, b), c),
    "fmod": lambda g, a, b: g.op("Mod", a, b, fmod=1),
    "silu": lambda g, x: g.op("Mul", x, g.op("Sigmoid", x)),
}  # fmt: skip


def call(g: Emitter, name: str, x: Sequence[Ref], dtype: str) -> Ref:
    """``Call`` of the tensor expressions."""
    if name == "reinterpret":
        return x[0] if x[0].dtype == dtype else e.bit_cast(g, x[0], dtype)
    if name not in FUNCTIONS:
        raise g.unsupported(f"ONNX has no function {name}")
    return FUNCTIONS[name](g, *x)
