"""The operators and functions of tensor expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.elementwise import arithmetic, bits  # noqa: F401  # their formulas
from forge.exporters.onnx.registry import FORMULAS

_NAMES = {
    "sub": "subtract", "mul": "multiply", "min": "minimum", "max": "maximum", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "shl": "left_shift", "shr": "right_shift", "div": "divide", "truncdiv": "trunc_divide",
    "truncmod": "mod", "floordiv": "floor_divide", "floormod": "floor_mod", "fmod": "mod", "eq": "equal", "ne": "not_equal",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "clz": "count_leading_zeros",
}  # fmt: skip
"""What tensor expressions call otherwise than the graph IR."""


def gelu(g: Emitter, x: Ref) -> Ref:
    inner = g.op("Erf", g.op("Mul", x, g.like(math.sqrt(0.5), x)))
    return g.op("Mul", g.op("Mul", x, g.like(0.5, x)), g.op("Add", inner, g.like(1, x)))


def gelu_tanh(g: Emitter, x: Ref) -> Ref:
    cube = g.op("Mul", g.op("Mul", x, x), x)
    polynomial = g.op("Add", x, g.op("Mul", cube, g.like(0.044715, x)))
    inner = g.op("Tanh", g.op("Mul", polynomial, g.like(math.sqrt(2 / math.pi), x)))
    return g.op("Mul", g.op("Mul", x, g.like(0.5, x)), g.op("Add", inner, g.like(1, x)))


_OWN: dict[str, Callable[..., Ref]] = {
    "add": lambda g, a, b: g.op("Add", a, b), "pow": lambda g, a, b: g.op("Pow", a, b), "mish": lambda g, x: g.op("Mish", x),
    "softplus": lambda g, x: g.op("Softplus", x), "silu": lambda g, x: g.op("Mul", x, g.op("Sigmoid", x)),
    "fma": lambda g, a, b, c: g.op("Add", g.op("Mul", a, b), c), "gelu": gelu, "gelu_tanh": gelu_tanh,
}  # fmt: skip
"""Formulas that are not operators of the graph IR, and operators that need more than values."""


def call(g: Emitter, name: str, x: Sequence[Ref], dtype: str) -> Ref:
    """``Binary``, ``Compare`` or ``Call`` of the tensor expressions."""
    if name == "reinterpret":
        return x[0] if x[0].dtype == dtype else arithmetic.bit_cast(g, x[0], dtype)
    function = _OWN.get(name) or FORMULAS.get(_NAMES.get(name, name))
    if function is None:
        raise g.unsupported(f"ONNX has no function {name}")
    return function(g, *x)
