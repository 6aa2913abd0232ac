"""Arithmetic, comparisons, logic, rounding and elementary functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from forge import dtypes
from forge.exporters.onnx.emitter import Emitter, Ref, element_of
from forge.exporters.onnx.registry import add_row, exports
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.cast import Cast
from forge.ops.elementwise.select import Clip

_SAME = {
    "subtract": "Sub", "multiply": "Mul", "maximum": "Max", "minimum": "Min", "abs": "Abs", "sign": "Sign",
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "erf": "Erf", "sigmoid": "Sigmoid", "tanh": "Tanh", "sin": "Sin", "cos": "Cos",
    "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh",
    "acosh": "Acosh", "atanh": "Atanh", "where": "Where", "copy": "Identity",
}  # fmt: skip
_TO_BOOL = {
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
    "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not", "isnan": "IsNaN", "isinf": "IsInf",
    "string.equal": "Equal",
}  # fmt: skip
_ROUNDINGS = {"ceil": "Ceil", "floor": "Floor", "round": "Round"}
_BITWISE = {"bitwise_and": ("BitwiseAnd", "And"), "bitwise_or": ("BitwiseOr", "Or"), "bitwise_xor": ("BitwiseXor", "Xor"),
            "bitwise_not": ("BitwiseNot", "Not")}


def _same(op: str) -> Callable[..., Ref]:
    def export(g: Emitter, node: Node, *x: Ref) -> Ref:
        return g.op(op, *x, dtype=element_of(node.result.type))

    return export


def _rounding(op: str) -> Callable[..., Ref]:
    def export(g: Emitter, node: Node, x: Ref) -> Ref:
        return g.op(op, x) if dtypes.is_float(x.dtype) else x

    return export


def _bitwise(of_integers: str, of_bools: str) -> Callable[..., Ref]:
    def export(g: Emitter, node: Node, *x: Ref) -> Ref:
        return g.op(of_bools if x[0].dtype == "bool" else of_integers, *x)

    return export


for _name, _op in {**_SAME, **_TO_BOOL}.items():
    add_row(_name, _same(_op))
for _name, _op in _ROUNDINGS.items():
    add_row(_name, _rounding(_op))
for _name, _ops in _BITWISE.items():
    add_row(_name, _bitwise(*_ops))


@exports("not_equal", "string.not_equal")
def not_equal(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    return g.op("Not", g.op("Equal", a, b, dtype="bool"))


@exports("isfinite")
def is_finite(g: Emitter, node: Node, x: Ref) -> Ref:
    return g.op("Not", g.op("Or", g.op("IsNaN", x, dtype="bool"), g.op("IsInf", x, dtype="bool")))


@exports("negative")
def negative(g: Emitter, node: Node, x: Ref) -> Ref:
    return g.op("Sub", g.like(0, x), x) if dtypes.is_unsigned(x.dtype) else g.op("Neg", x)


@exports("reciprocal")
def reciprocal(g: Emitter, node: Node, x: Ref) -> Ref:
    return g.op("Reciprocal", x) if dtypes.is_float(x.dtype) else truncated_quotient(g, g.like(1, x), x, None)


@exports("trunc")
def trunc(g: Emitter, node: Node, x: Ref) -> Ref:
    return truncated(g, x)


def truncated(g: Emitter, x: Ref) -> Ref:
    """``x`` without its fraction."""
    if not dtypes.is_float(x.dtype):
        return x
    negative_ = g.op("Less", x, g.like(0, x), dtype="bool")
    return g.op("Where", negative_, g.op("Ceil", x), g.op("Floor", x), dtype=x.dtype)


@exports("round_away")
def round_away(g: Emitter, node: Node, x: Ref) -> Ref:
    """Beside the whole part the fraction is exact, so that a comparison with 1/2 decides."""
    size = g.op("Abs", x)
    whole = g.op("Floor", size)
    up = g.op("GreaterOrEqual", g.op("Sub", size, whole), g.like(0.5, x), dtype="bool")
    rounded = g.op("Where", up, g.op("Add", whole, g.like(1, x)), whole, dtype=x.dtype)
    signed = with_sign(g, rounded, x)
    unusual = g.op("Or", g.op("IsNaN", x, dtype="bool"), g.op("IsInf", x, dtype="bool"))
    return g.op("Where", unusual, x, signed, dtype=x.dtype)


def sign_bit(g: Emitter, x: Ref) -> Ref:
    """Whether the sign bit of a float is set; before opset 26, which can read bits, that of NaN counts as not set."""
    if g.has("BitCast"):
        integer = f"int{dtypes.bits(x.dtype)}"
        return g.op("Less", bit_cast(g, x, integer), g.const(0, integer), dtype="bool")
    zero = g.like(0, x)
    below = g.op("Less", g.op("Reciprocal", x), zero, dtype="bool")
    is_zero = g.op("Equal", x, zero, dtype="bool")
    return g.op("Or", g.op("Less", x, zero, dtype="bool"), g.op("And", is_zero, below))


def bit_cast(g: Emitter, x: Ref, dtype: str) -> Ref:
    """The bits of ``x`` as another element type of the same width."""
    from forge.exporters.onnx.emitter import tensor_code

    return g.op("BitCast", x, dtype=dtype, to=tensor_code(dtype))


def with_sign(g: Emitter, size: Ref, sign: Ref) -> Ref:
    """``size``, which is not negative, with the sign of ``sign``."""
    return g.op("Where", sign_bit(g, sign), g.op("Neg", size), size, dtype=size.dtype)


@exports("signbit")
def signbit(g: Emitter, node: Node, x: Ref) -> Ref:
    return sign_bit(g, x)


@exports("copysign")
def copysign(g: Emitter, node: Node, size: Ref, sign: Ref) -> Ref:
    return with_sign(g, g.op("Abs", size), sign)


@exports("reinterpret")
def reinterpret(g: Emitter, node: Node, x: Ref) -> Ref:
    dtype = node.result.dtype
    return x if dtype == x.dtype else bit_cast(g, x, dtype)


@exports("fmax", "fmin")
def fmax(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    extreme = g.op("Max" if node.op == "fmax" else "Min", a, b)
    if not dtypes.is_float(a.dtype):
        return extreme
    without_b = g.op("Where", g.op("IsNaN", b, dtype="bool"), a, extreme, dtype=a.dtype)
    return g.op("Where", g.op("IsNaN", a, dtype="bool"), b, without_b, dtype=a.dtype)


def contents(value: Value | None) -> np.ndarray | None:
    """The contents of an operand, where they are known."""
    return None if value is None else value.constant


def is_safe_divisor(known: np.ndarray | None, dtype: str) -> bool:
    """Whether no quotient of integers by these numbers is 0 / 0, x / 0 or the least number / -1."""
    return known is not None and bool(np.all(known != 0)) and (dtypes.is_unsigned(dtype) or bool(np.all(known != -1)))


def truncated_quotient(g: Emitter, a: Ref, b: Ref, divisor: np.ndarray | None) -> Ref:
    """Integers: 0 where ``b`` is 0, and -a, which wraps, where it is -1."""
    if is_safe_divisor(divisor, b.dtype):
        return g.op("Div", a, b)
    zero, one = g.like(0, a), g.like(1, a)
    undefined = g.op("Equal", b, zero, dtype="bool")
    if dtypes.is_unsigned(a.dtype):
        quotient = g.op("Div", a, g.op("Where", undefined, one, b, dtype=a.dtype))
        return g.op("Where", undefined, zero, quotient, dtype=a.dtype)
    inverts = g.op("Equal", b, g.like(-1, a), dtype="bool")
    harmless = g.op("Where", g.op("Or", undefined, inverts), one, b, dtype=a.dtype)
    inverted = g.op("Where", inverts, g.op("Sub", zero, a), g.op("Div", a, harmless), dtype=a.dtype)
    return g.op("Where", undefined, zero, inverted, dtype=a.dtype)


@exports("divide")
def divide(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    return truncated_quotient(g, a, b, contents(node.operands[1])) if dtypes.is_integer(a.dtype) else g.op("Div", a, b)


@exports("trunc_divide")
def trunc_divide(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    if dtypes.is_integer(a.dtype):
        return truncated_quotient(g, a, b, contents(node.operands[1]))
    return truncated(g, g.op("Div", a, b))


def _against(g: Emitter, rest: Ref, b: Ref) -> Ref:
    """Whether a remainder with the sign of the dividend is not 0 and has another sign than ``b``."""
    zero = g.like(0, b)
    signs = (g.op("Less", v, zero, dtype="bool") for v in (rest, b))
    return g.op("And", g.op("Not", g.op("Equal", rest, zero, dtype="bool")), g.op("Xor", *signs))


def remainder(g: Emitter, a: Ref, b: Ref, divisor: np.ndarray | None, floor: bool) -> Ref:
    """Integers: the remainder with the sign of ``b`` (``floor``) or of ``a``; 0 where ``b`` is 0 or -1."""
    fmod = 0 if floor else 1
    if is_safe_divisor(divisor, b.dtype):
        return g.op("Mod", a, b, fmod=fmod)
    one = g.like(1, b)
    undefined = g.op("Equal", b, g.like(0, b), dtype="bool")
    if not dtypes.is_unsigned(b.dtype):
        undefined = g.op("Or", undefined, g.op("Equal", b, g.like(-1, b), dtype="bool"))
    return g.op("Mod", a, g.op("Where", undefined, one, b, dtype=b.dtype), fmod=fmod)


@exports("mod")
def mod(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    if dtypes.is_integer(a.dtype):
        return remainder(g, a, b, contents(node.operands[1]), floor=False)
    return g.op("Mod", a, b, fmod=1)


@exports("floor_mod")
def floor_mod(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    if dtypes.is_integer(a.dtype):
        return remainder(g, a, b, contents(node.operands[1]), floor=True)
    rest = g.op("Mod", a, b, fmod=1)
    return g.op("Where", _against(g, rest, b), g.op("Add", rest, b), rest, dtype=a.dtype)


@exports("floor_divide")
def floor_divide(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    if dtypes.is_integer(a.dtype):
        if dtypes.is_unsigned(a.dtype):
            return truncated_quotient(g, a, b, contents(node.operands[1]))
        rest = remainder(g, a, b, contents(node.operands[1]), floor=True)
        return truncated_quotient(g, g.op("Sub", a, rest), b, contents(node.operands[1]))
    rest = g.op("Mod", a, b, fmod=1)
    quotient = g.op("Round", g.op("Div", g.op("Sub", a, rest), b))
    lower = g.op("Where", _against(g, rest, b), g.op("Sub", quotient, g.like(1, a)), quotient, dtype=a.dtype)
    return g.op("Where", g.op("Equal", b, g.like(0, b), dtype="bool"), g.op("Div", a, b), lower, dtype=a.dtype)


@exports("power")
def power(g: Emitter, node: Node, a: Ref, b: Ref) -> Any:
    """Integers by squaring, where the exponent is known: ONNX does not say how powers of integers are rounded."""
    if not dtypes.is_integer(a.dtype):
        return g.op("Pow", a, b)
    known = None if node.operands[1] is None else node.operands[1].constant
    if known is None or known.size != 1 or known.item() < 1 or known.ndim > node.result.rank:
        return NotImplemented
    exponent, square = known.item(), a
    result: Ref | None = None
    while exponent:
        if exponent & 1:
            result = square if result is None else g.op("Mul", result, square)
        exponent >>= 1
        square = g.op("Mul", square, square) if exponent else square
    return result


@exports("left_shift", "right_shift", "logical_right_shift")
def shift(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    return shifted(g, a, b, node.op == "left_shift", node.op == "right_shift" and dtypes.is_signed(a.dtype))


def shifted(g: Emitter, a: Ref, b: Ref, left: bool, keeps_sign: bool) -> Ref:
    """ONNX shifts unsigned numbers, by less than their width. ``keeps_sign``: to the right, with the sign shifted in."""
    dtype, unsigned = a.dtype, a.dtype if dtypes.is_unsigned(a.dtype) else f"u{a.dtype}"
    width = dtypes.bits(dtype)
    count = g.cast(b, unsigned)
    below = g.op("Less", a, g.like(0, a), dtype="bool") if keeps_sign and not left else None
    bits = a if below is None else g.op("Where", below, g.op("BitwiseNot", a), a, dtype=dtype)
    inside = g.op("Less", count, g.const(width, unsigned), dtype="bool")
    fitting = g.op("Min", count, g.const(width - 1, unsigned))
    moved = g.op("BitShift", g.cast(bits, unsigned), fitting, direction="LEFT" if left else "RIGHT")
    moved = g.cast(g.op("Where", inside, moved, g.const(0, unsigned), dtype=unsigned), dtype)
    return moved if below is None else g.op("Where", below, g.op("BitwiseNot", moved), moved, dtype=dtype)


@exports("expm1")
def expm1(g: Emitter, node: Node, x: Ref) -> Ref:
    return exponential_less_one(g, x)


def exponential_less_one(g: Emitter, x: Ref) -> Ref:
    """tanh(x / 2) * (exp(x) + 1), which does not cancel."""
    half = g.op("Tanh", g.op("Mul", x, g.like(0.5, x)))
    return g.op("Mul", half, g.op("Add", g.op("Exp", x), g.like(1, x)))


@exports("log1p")
def log1p(g: Emitter, node: Node, x: Ref) -> Ref:
    return logarithm_of_one_and(g, x)


def logarithm_of_one_and(g: Emitter, x: Ref) -> Ref:
    """log(1 + x): log(u) * x / (u - 1) with u = 1 + x as it is rounded (Kahan)."""
    one = g.like(1, x)
    u = g.op("Add", one, x)
    scaled = g.op("Mul", g.op("Log", u), g.op("Div", x, g.op("Sub", u, one)))
    near = g.op("Where", g.op("Equal", u, one, dtype="bool"), x, scaled, dtype=x.dtype)
    return g.op("Where", g.op("IsInf", u, dtype="bool"), u, near, dtype=x.dtype)


@exports("log2", "log10")
def log2(g: Emitter, node: Node, x: Ref) -> Ref:
    base = 2.0 if node.op == "log2" else 10.0
    return g.op("Div", g.op("Log", x), g.like(math.log(base), x))


@exports("exp2")
def exp2(g: Emitter, node: Node, x: Ref) -> Ref:
    return g.op("Pow", g.like(2.0, x), x)


@exports("rsqrt")
def rsqrt(g: Emitter, node: Node, x: Ref) -> Ref:
    return g.op("Reciprocal", g.op("Sqrt", x))


@exports("cbrt")
def cbrt(g: Emitter, node: Node, x: Ref) -> Ref:
    """A power, and one step of Newton's method, as 1/3 is rounded."""
    size = g.op("Abs", x)
    root = g.op("Pow", size, g.like(1 / 3, x))
    error = g.op("Sub", root, g.op("Div", size, g.op("Mul", root, root)))
    better = g.op("Sub", root, g.op("Div", error, g.like(3.0, x)))
    unusual = g.op("Or", g.op("Equal", x, g.like(0, x), dtype="bool"), g.op("IsInf", x, dtype="bool"))
    return g.op("Where", unusual, x, with_sign(g, better, x), dtype=x.dtype)


@exports("hypot")
def hypot(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    sides = (g.op("Abs", a), g.op("Abs", b))
    longer, shorter = g.op("Max", *sides), g.op("Min", *sides)
    zero, one = g.like(0, a), g.like(1, a)
    ratio = g.op("Div", shorter, g.op("Where", g.op("Equal", longer, zero, dtype="bool"), one, longer, dtype=a.dtype))
    length = g.op("Mul", longer, g.op("Sqrt", g.op("Add", one, g.op("Mul", ratio, ratio))))
    infinite = g.op("Or", *(g.op("IsInf", v, dtype="bool") for v in (a, b)))
    return g.op("Where", infinite, g.like(math.inf, a), length, dtype=a.dtype)


@exports("logaddexp")
def logaddexp(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    equal = g.op("Equal", a, b, dtype="bool")
    gap = g.op("Where", equal, g.like(0, a), g.op("Neg", g.op("Abs", g.op("Sub", a, b))), dtype=a.dtype)
    return g.op("Add", g.op("Max", a, b), logarithm_of_one_and(g, g.op("Exp", gap)))


@exports("xlogy")
def xlogy(g: Emitter, node: Node, x: Ref, y: Ref) -> Ref:
    zero = g.like(0, x)
    product = g.op("Mul", x, g.op("Log", y))
    nothing = g.op("And", g.op("Equal", x, zero, dtype="bool"), g.op("Not", g.op("IsNaN", y, dtype="bool")))
    return g.op("Where", nothing, zero, product, dtype=x.dtype)


@exports("atan2")
def atan2(g: Emitter, node: Node, y: Ref, x: Ref) -> Ref:
    return angle(g, y, x)


def angle(g: Emitter, y: Ref, x: Ref) -> Ref:
    """The arc tangent of the smaller over the larger side, moved to the octant."""
    zero, one = g.like(0, x), g.like(1, x)
    width, height = g.op("Abs", x), g.op("Abs", y)
    longer, shorter = g.op("Max", width, height), g.op("Min", width, height)
    diagonal = g.op("Equal", width, height, dtype="bool")
    nothing = g.op("Equal", longer, zero, dtype="bool")
    even = g.op("Where", nothing, zero, one, dtype=x.dtype)
    harmless = g.op("Where", nothing, one, longer, dtype=x.dtype)
    ratio = g.op("Where", diagonal, even, g.op("Div", shorter, harmless), dtype=x.dtype)
    turned = g.op("Atan", ratio)
    steep = g.op("Greater", height, width, dtype="bool")
    turned = g.op("Where", steep, g.op("Sub", g.like(math.pi / 2, x), turned), turned, dtype=x.dtype)
    turned = g.op("Where", sign_bit(g, x), g.op("Sub", g.like(math.pi, x), turned), turned, dtype=x.dtype)
    return with_sign(g, turned, y)


@exports(Cast)
def cast(g: Emitter, op: Cast, x: Ref) -> Ref:
    """ONNX leaves open what becomes of floats beyond the range of integers: they are cut before, where floats can express it."""
    dtype = op.result.dtype
    if dtypes.is_float(x.dtype) and dtypes.is_integer(dtype) and dtypes.bits(dtype) <= 16:
        low, high = dtypes.integer_range(dtype)
        if not _lies_within(op.node.operands[0], low, high):
            wide = x if dtypes.represents(x.dtype, dtype) else g.cast(x, "float32")
            x = g.op("Clip", wide, g.like(low, wide), g.like(high, wide))
    elif dtypes.is_float(x.dtype) and dtypes.is_unsigned(dtype) and contents(op.node.operands[0]) is None:
        x = g.op("Max", x, g.like(0, x))
    return g.cast(x, dtype, op.attrs.saturate)


def _lies_within(value: Value | None, low: int, high: int) -> bool:
    """Whether ``value`` is a constant, or was clipped to numbers, between two bounds."""
    if value is None or value.producer is None:
        return False
    if value.constant is not None:
        return bool(np.all((value.constant >= low) & (value.constant <= high)))
    bounds: Any = value.producer.attrs
    if value.producer.op != "clip" or bounds.a_min is None or bounds.a_max is None:
        return False
    return bool(bounds.a_min >= low and bounds.a_max <= high)


@exports("cast_like")
def cast_like(g: Emitter, node: Node, x: Ref, like: Ref) -> Ref:
    return g.cast(x, like.dtype)


@exports(Clip)
def clip(g: Emitter, op: Clip, x: Ref, low: Ref | None = None, high: Ref | None = None) -> Ref:
    """ONNX takes the least or greatest finite number for a bound that is missing."""
    bounds = [_bound(g, x, a, r) for a, r in ((op.attrs.a_min, low), (op.attrs.a_max, high))]
    if bounds == [None, None]:
        return x
    if None in bounds:
        return g.op("Min" if bounds[0] is None else "Max", x, bounds[bounds[0] is None])
    return g.op("Clip", x, *bounds)


def _bound(g: Emitter, x: Ref, value: float | None, operand: Ref | None) -> Ref | None:
    if operand is not None:
        return g.scalar(operand)
    if value is None:
        return None
    if dtypes.is_integer(x.dtype):
        least, greatest = dtypes.integer_range(x.dtype)
        return g.like(int(min(max(value, least), greatest)), x)
    return g.like(value, x)
