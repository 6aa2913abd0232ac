"""Arithmetic, comparisons, logic, rounding and elementary functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from forge import dtypes
from forge.exporters.onnx.emitter import Emitter, Ref, tensor_code
from forge.exporters.onnx.registry import computes, exports
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.cast import Cast
from forge.ops.elementwise.select import Clip

_SAME = {
    "subtract": "Sub", "multiply": "Mul", "maximum": "Max", "minimum": "Min", "abs": "Abs", "sign": "Sign",
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "erf": "Erf", "sigmoid": "Sigmoid", "tanh": "Tanh", "sin": "Sin", "cos": "Cos",
    "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh",
    "acosh": "Acosh", "atanh": "Atanh", "where": "Where", "copy": "Identity", "equal": "Equal", "less": "Less",
    "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual", "logical_and": "And",
    "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not", "isnan": "IsNaN", "isinf": "IsInf", "string.equal": "Equal",
    "string.concat": "StringConcat", "ndarray_size": "Size", "shape_of": "Shape",
    "sequence_construct": "SequenceConstruct", "sequence_insert": "SequenceInsert", "sequence_erase": "SequenceErase",
    "sequence_length": "SequenceLength", "linalg.determinant": "Det", "nn.dropout": "Identity", "check_size": "Identity",
}  # fmt: skip
_ROUNDINGS = {"ceil": "Ceil", "floor": "Floor", "round": "Round"}
_BITWISE = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor", "bitwise_not": "Not"}
_COMPOSED: dict[str, Callable[..., Ref]] = {
    "not_equal": lambda g, a, b: g.op("Not", g.op("Equal", a, b)),
    "string.not_equal": lambda g, a, b: g.op("Not", g.op("Equal", a, b)),
    "isfinite": lambda g, x: g.op("Not", _is_unusual(g, x)),
    "negative": lambda g, x: g.op("Sub", g.like(0, x), x) if dtypes.is_unsigned(x.dtype) else g.op("Neg", x),
    "exp2": lambda g, x: g.op("Pow", g.like(2.0, x), x),
    "log2": lambda g, x: g.op("Div", g.op("Log", x), g.like(math.log(2.0), x)),
    "log10": lambda g, x: g.op("Div", g.op("Log", x), g.like(math.log(10.0), x)),
    "rsqrt": lambda g, x: g.op("Reciprocal", g.op("Sqrt", x)),
    "fmax": lambda g, a, b: _without_nan(g, "Max", a, b),
    "fmin": lambda g, a, b: _without_nan(g, "Min", a, b),
    "left_shift": lambda g, a, b: _shifted(g, a, b, left=True),
    "right_shift": lambda g, a, b: _shifted(g, a, b, keeps_sign=dtypes.is_signed(a.dtype)),
    "logical_right_shift": lambda g, a, b: _shifted(g, a, b),
    "copysign": lambda g, size, sign: with_sign(g, g.op("Abs", size), sign),
    "cast_like": lambda g, x, like: g.cast(x, like.dtype),
    "string.to_number": lambda g, x: x,  # cast to the type of the result
    **dict.fromkeys(("check", "check_index", "check_divisor", "check_finite"), lambda g, x, *_: g.op("Identity", x)),
    "argwhere": lambda g, x, *_: g.transpose(g.op("NonZero", x), [1, 0]),
    "arange": lambda g, *limits: g.op("Range", *map(g.scalar, limits)),
}  # fmt: skip


def _same(op: str) -> Callable[..., Ref]:
    return lambda g, *x: g.op(op, *x)


def _rounding(op: str) -> Callable[..., Ref]:
    return lambda g, x: g.op(op, x) if dtypes.is_float(x.dtype) else x


def _bitwise(op: str) -> Callable[..., Ref]:
    return lambda g, *x: g.op(op if x[0].dtype == "bool" else f"Bitwise{op}", *x)


for _make, _names in ((_same, _SAME), (_rounding, _ROUNDINGS), (_bitwise, _BITWISE)):
    for _name, _op in _names.items():
        computes(_name)(_make(_op))
for _name, _formula in _COMPOSED.items():
    computes(_name)(_formula)


def _is_unusual(g: Emitter, x: Ref) -> Ref:
    """Whether ``x`` is NaN or infinite."""
    return g.op("Or", g.op("IsNaN", x), g.op("IsInf", x))


@computes("trunc")
def trunc(g: Emitter, x: Ref) -> Ref:
    """``x`` without its fraction."""
    if not dtypes.is_float(x.dtype):
        return x
    negative_ = g.op("Less", x, g.like(0, x))
    return g.op("Where", negative_, g.op("Ceil", x), g.op("Floor", x))


@computes("round_away")
def round_away(g: Emitter, x: Ref) -> Ref:
    """Next to the whole part the fraction is exact, so that a comparison with 1/2 decides."""
    size = g.op("Abs", x)
    whole = g.op("Floor", size)
    up = g.op("GreaterOrEqual", g.op("Sub", size, whole), g.like(0.5, x))
    rounded = g.op("Where", up, g.op("Add", whole, g.like(1, x)), whole)
    return g.op("Where", _is_unusual(g, x), x, with_sign(g, rounded, x))


@computes("signbit")
def sign_bit(g: Emitter, x: Ref) -> Ref:
    """Whether the sign bit of a float is set; before opset 26, which can read bits, that of NaN counts as not set."""
    if g.has("BitCast"):
        integer = f"int{dtypes.bits(x.dtype)}"
        return g.op("Less", bit_cast(g, x, integer), g.const(0, integer))
    zero = g.like(0, x)
    below = g.op("Less", g.op("Reciprocal", x), zero)
    is_zero = g.op("Equal", x, zero)
    return g.op("Or", g.op("Less", x, zero), g.op("And", is_zero, below))


def bit_cast(g: Emitter, x: Ref, dtype: str) -> Ref:
    """The bits of ``x`` as another element type of the same width."""
    return g.op("BitCast", x, dtype=dtype, to=tensor_code(dtype))


def with_sign(g: Emitter, size: Ref, sign: Ref) -> Ref:
    """``size``, which is not negative, with the sign of ``sign``."""
    return g.op("Where", sign_bit(g, sign), g.op("Neg", size), size)


@exports("reinterpret")
def reinterpret(g: Emitter, node: Node, x: Ref) -> Ref:
    dtype = node.result.dtype
    return x if dtype == x.dtype else bit_cast(g, x, dtype)


def _without_nan(g: Emitter, op: str, a: Ref, b: Ref) -> Ref:
    """The extreme of two values, the other one where one is NaN."""
    extreme = g.op(op, a, b)
    if not dtypes.is_float(a.dtype):
        return extreme
    return g.op("Where", g.op("IsNaN", a), b, g.op("Where", g.op("IsNaN", b), a, extreme))


def _is_safe_divisor(g: Emitter, b: Ref) -> bool:
    """Whether no quotient of integers by ``b`` is 0 / 0, x / 0 or the least number / -1."""
    known = g.known(b)
    return known is not None and bool(np.all(known != 0)) and (dtypes.is_unsigned(b.dtype) or bool(np.all(known != -1)))


@computes("divide")
def divide(g: Emitter, a: Ref, b: Ref) -> Ref:
    """Integers: the truncated quotient, 0 where ``b`` is 0, and -a, which wraps, where it is -1."""
    if not dtypes.is_integer(a.dtype) or _is_safe_divisor(g, b):
        return g.op("Div", a, b)
    zero, one = g.like(0, a), g.like(1, a)
    undefined = g.op("Equal", b, zero)
    if dtypes.is_unsigned(a.dtype):
        return g.op("Where", undefined, zero, g.op("Div", a, g.op("Where", undefined, one, b)))
    inverts = g.op("Equal", b, g.like(-1, a))
    harmless = g.op("Where", g.op("Or", undefined, inverts), one, b)
    inverted = g.op("Where", inverts, g.op("Sub", zero, a), g.op("Div", a, harmless))
    return g.op("Where", undefined, zero, inverted)


@computes("reciprocal")
def reciprocal(g: Emitter, x: Ref) -> Ref:
    return g.op("Reciprocal", x) if dtypes.is_float(x.dtype) else divide(g, g.like(1, x), x)


@computes("trunc_divide")
def trunc_divide(g: Emitter, a: Ref, b: Ref) -> Ref:
    return trunc(g, divide(g, a, b))


def _against(g: Emitter, rest: Ref, b: Ref) -> Ref:
    """Whether a remainder with the sign of the dividend is not 0 and has another sign than ``b``."""
    zero = g.like(0, b)
    return g.op("And", g.op("Not", g.op("Equal", rest, zero)), g.op("Xor", *(g.op("Less", v, zero) for v in (rest, b))))


def _remainder(g: Emitter, a: Ref, b: Ref, floor: bool) -> Ref:
    """Integers: the remainder with the sign of ``b`` (``floor``) or of ``a``; 0 where ``b`` is 0 or -1."""
    if not _is_safe_divisor(g, b):
        undefined = g.op("Equal", b, g.like(0, b))
        if not dtypes.is_unsigned(b.dtype):
            undefined = g.op("Or", undefined, g.op("Equal", b, g.like(-1, b)))
        b = g.op("Where", undefined, g.like(1, b), b)
    return g.op("Mod", a, b, fmod=0 if floor else 1)


@computes("mod")
def mod(g: Emitter, a: Ref, b: Ref) -> Ref:
    return _remainder(g, a, b, floor=False) if dtypes.is_integer(a.dtype) else g.op("Mod", a, b, fmod=1)


@computes("floor_mod")
def floor_mod(g: Emitter, a: Ref, b: Ref) -> Ref:
    if dtypes.is_integer(a.dtype):
        return _remainder(g, a, b, floor=True)
    rest = g.op("Mod", a, b, fmod=1)
    return g.op("Where", _against(g, rest, b), g.op("Add", rest, b), rest)


@computes("floor_divide")
def floor_divide(g: Emitter, a: Ref, b: Ref) -> Ref:
    if dtypes.is_unsigned(a.dtype):
        return divide(g, a, b)
    if dtypes.is_integer(a.dtype):
        return divide(g, g.op("Sub", a, floor_mod(g, a, b)), b)
    rest = mod(g, a, b)
    quotient = g.op("Round", g.op("Div", g.op("Sub", a, rest), b))
    lower = g.op("Where", _against(g, rest, b), g.op("Sub", quotient, g.like(1, a)), quotient)
    return g.op("Where", g.op("Equal", b, g.like(0, b)), g.op("Div", a, b), lower)


@exports("power")
def power(g: Emitter, node: Node, a: Ref, b: Ref) -> Any:
    """Integers by squaring, where the exponent is known: ONNX does not say how powers of integers are rounded."""
    if not dtypes.is_integer(a.dtype):
        return g.op("Pow", a, b)
    known = g.known(b)
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


def _shifted(g: Emitter, a: Ref, b: Ref, left: bool = False, keeps_sign: bool = False) -> Ref:
    """ONNX shifts unsigned numbers, by less than their width. ``keeps_sign``: to the right, with the sign shifted in."""
    dtype, unsigned = a.dtype, a.dtype if dtypes.is_unsigned(a.dtype) else f"u{a.dtype}"
    width = dtypes.bits(dtype)
    count = g.cast(b, unsigned)
    below = g.op("Less", a, g.like(0, a)) if keeps_sign else None
    bits = a if below is None else g.op("Where", below, g.op("BitwiseNot", a), a)
    inside = g.op("Less", count, g.const(width, unsigned))
    fitting = g.op("Min", count, g.const(width - 1, unsigned))
    moved = g.op("BitShift", g.cast(bits, unsigned), fitting, direction="LEFT" if left else "RIGHT")
    moved = g.cast(g.op("Where", inside, moved, g.const(0, unsigned)), dtype)
    return moved if below is None else g.op("Where", below, g.op("BitwiseNot", moved), moved)


@computes("expm1")
def expm1(g: Emitter, x: Ref) -> Ref:
    """tanh(x / 2) * (exp(x) + 1), which does not cancel."""
    half = g.op("Tanh", g.op("Mul", x, g.like(0.5, x)))
    return g.op("Mul", half, g.op("Add", g.op("Exp", x), g.like(1, x)))


@computes("log1p")
def log1p(g: Emitter, x: Ref) -> Ref:
    """log(1 + x): log(u) * x / (u - 1) with u = 1 + x as it is rounded (Kahan)."""
    one = g.like(1, x)
    u = g.op("Add", one, x)
    scaled = g.op("Mul", g.op("Log", u), g.op("Div", x, g.op("Sub", u, one)))
    near = g.op("Where", g.op("Equal", u, one), x, scaled)
    return g.op("Where", g.op("IsInf", u), u, near)


@computes("cbrt")
def cbrt(g: Emitter, x: Ref) -> Ref:
    """A power, and one step of Newton's method, as 1/3 is rounded."""
    size = g.op("Abs", x)
    root = g.op("Pow", size, g.like(1 / 3, x))
    error = g.op("Sub", root, g.op("Div", size, g.op("Mul", root, root)))
    better = g.op("Sub", root, g.op("Div", error, g.like(3.0, x)))
    unusual = g.op("Or", g.op("Equal", x, g.like(0, x)), g.op("IsInf", x))
    return g.op("Where", unusual, x, with_sign(g, better, x))


@computes("hypot")
def hypot(g: Emitter, a: Ref, b: Ref) -> Ref:
    sides = (g.op("Abs", a), g.op("Abs", b))
    longer, shorter = g.op("Max", *sides), g.op("Min", *sides)
    zero, one = g.like(0, a), g.like(1, a)
    ratio = g.op("Div", shorter, g.op("Where", g.op("Equal", longer, zero), one, longer))
    length = g.op("Mul", longer, g.op("Sqrt", g.op("Add", one, g.op("Mul", ratio, ratio))))
    infinite = g.op("Or", *(g.op("IsInf", v) for v in (a, b)))
    return g.op("Where", infinite, g.like(math.inf, a), length)


@computes("logaddexp")
def logaddexp(g: Emitter, a: Ref, b: Ref) -> Ref:
    equal = g.op("Equal", a, b)
    gap = g.op("Where", equal, g.like(0, a), g.op("Neg", g.op("Abs", g.op("Sub", a, b))))
    return g.op("Add", g.op("Max", a, b), log1p(g, g.op("Exp", gap)))


@computes("xlogy")
def xlogy(g: Emitter, x: Ref, y: Ref) -> Ref:
    zero = g.like(0, x)
    product = g.op("Mul", x, g.op("Log", y))
    nothing = g.op("And", g.op("Equal", x, zero), g.op("Not", g.op("IsNaN", y)))
    return g.op("Where", nothing, zero, product)


@computes("atan2")
def atan2(g: Emitter, y: Ref, x: Ref) -> Ref:
    """The arc tangent of the smaller over the larger side, moved to the octant."""
    zero, one = g.like(0, x), g.like(1, x)
    width, height = g.op("Abs", x), g.op("Abs", y)
    longer, shorter = g.op("Max", width, height), g.op("Min", width, height)
    diagonal = g.op("Equal", width, height)
    nothing = g.op("Equal", longer, zero)
    even = g.op("Where", nothing, zero, one)
    harmless = g.op("Where", nothing, one, longer)
    ratio = g.op("Where", diagonal, even, g.op("Div", shorter, harmless))
    turned = g.op("Atan", ratio)
    steep = g.op("Greater", height, width)
    turned = g.op("Where", steep, g.op("Sub", g.like(math.pi / 2, x), turned), turned)
    turned = g.op("Where", sign_bit(g, x), g.op("Sub", g.like(math.pi, x), turned), turned)
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
    elif dtypes.is_float(x.dtype) and dtypes.is_unsigned(dtype) and g.known(x) is None:
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
    if value is not None and dtypes.is_integer(x.dtype):
        least, greatest = dtypes.integer_range(x.dtype)
        value = int(min(max(value, least), greatest))
    return None if value is None else g.like(value, x)
