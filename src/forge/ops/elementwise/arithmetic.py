"""Elementwise arithmetic, comparisons, logic and functions without attributes, as rows of one table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.ir.op import Accuracy, Category, Precision, Trait
from forge.ops.core import scalar_math as numeric
from forge.ops.core.signatures import Array, Dim, Expr
from forge.ops.elementwise.rows import Row, register_rows
from forge.tir.evaluate import expm1, log1p

EXACT = Accuracy.EXACT
FOLLOWS = Precision.FOLLOWS
BINARY = ("lhs", "rhs")
REAL_OR_COMPLEX = "numeric or complex"


def _is_float(x: Expr) -> bool:
    """Whether x is a real or complex number that is not an integer."""
    return dtypes.is_float(x.dtype) or dtypes.is_complex(x.dtype)


def _intrinsic(name: str) -> Callable[[Expr], Expr]:
    return lambda x: te.call(name, x)


def _rounding(name: str) -> Callable[[Expr], Expr]:
    """An intrinsic that leaves integers as they are."""
    return lambda x: te.call(name, x) if _is_float(x) else x


def _binary(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: te.binary(op, a, b)


def _by_type(floating: Callable[..., Expr], integer: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda *x: floating(*x) if _is_float(x[0]) else integer(*x)


def _abs(x: Expr) -> Expr:
    if dtypes.is_complex(x.dtype):
        return te.call("abs", x, dtype=dtypes.part(x.dtype))
    if _is_float(x):
        return te.call("abs", x)
    return x if dtypes.is_unsigned(x.dtype) else te.select(x < 0, te.negate(x), x)


def _sign(x: Expr) -> Expr:
    if dtypes.is_complex(x.dtype):
        return te.call("sign", x)
    positive = te.select(x > 0, te.const(1, x.dtype), x)
    return positive if dtypes.is_unsigned(x.dtype) else te.select(x < 0, te.const(-1, x.dtype), positive)


def _against(rest: Expr, b: Expr) -> Expr:
    """Whether a remainder, which has the sign of the dividend, has not that of the divisor ``b``."""
    return te.logical_and(rest.ne(0.0), te.compare("ne", rest < 0.0, b < 0.0))


def _floor_mod(a: Expr, b: Expr) -> Expr:
    """fmod, moved to the sign of ``b``."""
    rest = te.call("fmod", a, b)
    return te.select(_against(rest, b), rest + b, rest)


def _floor_divide(a: Expr, b: Expr) -> Expr:
    """The rounded (a - fmod) / b, less 1 where signs differ, so that a == b * q + mod as closely as floats allow; infinite or
    NaN for b == 0.
    """
    rest = te.call("fmod", a, b)
    quotient = te.call("round", (a - rest) / b)
    return te.select(b.eq(0.0), a / b, te.select(_against(rest, b), quotient - 1.0, quotient))


def _power(a: Expr, b: Expr) -> Expr:
    if _is_float(a):
        return te.call("pow", a, b)
    return _whole_power(a, b)


def _whole_power(a: Expr, b: Expr) -> Expr:
    """Square and multiply, in the wrapping arithmetic of the type."""
    signed = dtypes.is_signed(a.dtype)
    zero, one = te.const(0, a.dtype), te.const(1, a.dtype)
    result: Expr = one
    square = a
    for bit in range(dtypes.bits(a.dtype) - signed):
        result = te.select((b & (1 << bit)).ne(zero), result * square, result)
        square = square * square
    if not signed:
        return result
    odd = (b & 1).ne(zero)
    alternating = te.select(odd, te.const(-1, a.dtype), one)
    inverse = te.select(a.eq(one), one, te.select(a.eq(te.const(-1, a.dtype)), alternating, zero))
    return te.select(b < zero, inverse, result)


def _bool_or(op: str) -> Callable[[Expr, Expr], Expr]:
    """A bit operation that is a logical one on bool."""
    return lambda a, b: logical(op, a, b) if a.dtype == "bool" else te.binary(op, a, b)


def logical(op: str, a: Expr, b: Expr) -> Expr:
    """and, or, xor of bools."""
    if op == "xor":
        return te.compare("ne", a, b)
    return te.logical_and(a, b) if op == "and" else te.binary("or", a, b)


def _bitwise_not(x: Expr) -> Expr:
    return te.logical_not(x) if x.dtype == "bool" else te.binary("xor", x, te.const(-1, x.dtype))


def _with_infinity(x: Expr) -> Expr:
    """``x`` in a type that has infinity, which not all floats of 8 bits and less have."""
    return te.cast(x, "float32") if numeric.is_tiny_float(x.dtype) else x


def _isinf(x: Expr) -> Expr:
    if dtypes.is_complex(x.dtype):
        return te.call("isinf", x)
    size = te.call("abs", _with_infinity(x))
    return size.eq(te.const(float("inf"), size.dtype))


def _isfinite(x: Expr) -> Expr:
    if dtypes.is_complex(x.dtype):
        return te.logical_and(_isfinite(te.real_part(x)), _isfinite(te.imaginary_part(x)))
    size = te.call("abs", _with_infinity(x))
    return size < te.const(float("inf"), size.dtype)


def decide(op: str) -> Callable[[Dim, Dim], bool | None]:
    """A comparison of dimensions; None where it depends on the symbols."""

    def compare(a: Dim, b: Dim) -> bool | None:
        low, high = dims.bounds(a - b)
        known = {
            "equal": (dims.equal(a, b), dims.different(a, b)),
            "less": (high is not None and high < 0, low is not None and low >= 0),
            "less_equal": (high is not None and high <= 0, low is not None and low > 0),
        }[op]
        return True if known[0] else False if known[1] else None

    return compare


def _flipped(decide: Callable[[Dim, Dim], bool | None]) -> Callable[[Dim, Dim], bool | None]:
    return lambda a, b: decide(b, a)


def negated(decide: Callable[[Dim, Dim], bool | None]) -> Callable[[Dim, Dim], bool | None]:
    return lambda a, b: None if (known := decide(a, b)) is None else not known


def _not_negative(d: Dim) -> bool:
    low, _ = dims.bounds(d)
    return low is not None and low >= 0


def _truncated_quotient(a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return numeric.truncated_quotient(a, b)
    return dims.floordiv(a, b) if _not_negative(a) and _not_negative(b) else None


def _truncated_rest(a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return a - b * numeric.truncated_quotient(a, b) if b else 0
    return dims.floormod(a, b) if _not_negative(a) and _not_negative(b) else None


def _absolute(d: Dim) -> Dim | None:
    return abs(d) if isinstance(d, int) else d if _not_negative(d) else None


def _known_sign(d: Dim) -> int | None:
    if isinstance(d, int):
        return (d > 0) - (d < 0)
    low, _ = dims.bounds(d)
    return 1 if low is not None and low > 0 else None


def _arithmetic() -> list[Row]:
    both, any_number = Trait.COMMUTATIVE, REAL_OR_COMPLEX
    return [
        Row("add", "lhs + rhs", np.add, _binary("add"), BINARY, any_number, traits=both, precision=FOLLOWS,
            dims=lambda a, b: a + b, is_monotonic=True, neutral_operand=-0.0),
        Row("subtract", "lhs - rhs", np.subtract, _binary("sub"), BINARY, any_number, precision=FOLLOWS,
            dims=lambda a, b: a - b),
        Row("multiply", "lhs * rhs", np.multiply, _binary("mul"), BINARY, any_number, traits=both, precision=FOLLOWS,
            dims=lambda a, b: a * b),
        Row("divide", "lhs / rhs; integers truncate toward zero", numeric.divide,
            _by_type(_binary("div"), _binary("truncdiv")), BINARY, any_number, precision=FOLLOWS, dims=_truncated_quotient),
        Row("floor_divide", "floor(lhs / rhs)", numeric.floor_divide,
            _by_type(_floor_divide, _binary("floordiv")), BINARY, dims=dims.floordiv),
        Row("trunc_divide", "trunc(lhs / rhs)", numeric.trunc_divide,
            _by_type(lambda a, b: te.call("trunc", a / b), _binary("truncdiv")), BINARY, dims=_truncated_quotient),
        Row("floor_mod", "lhs - floor(lhs / rhs) * rhs, with the sign of rhs", numeric.floor_mod,
            _by_type(_floor_mod, _binary("floormod")), BINARY, dims=dims.floormod),
        Row("mod", "lhs - trunc(lhs / rhs) * rhs, with the sign of lhs (as in C)", numeric.trunc_mod,
            _by_type(lambda a, b: te.call("fmod", a, b), _binary("truncmod")), BINARY, dims=_truncated_rest),
        Row("power", "lhs ** rhs; integers wrap, and negative exponents give 0 but for the bases 1 and -1", numeric.power, _power,
            BINARY, any_number),
        Row("maximum", "max(lhs, rhs); NaN wins", np.maximum, _binary("max"), BINARY,
            accuracy=EXACT, traits=both, dims=dims.maximum, is_monotonic=True),
        Row("minimum", "min(lhs, rhs); NaN wins", np.minimum, _binary("min"), BINARY,
            accuracy=EXACT, traits=both, dims=dims.minimum, is_monotonic=True),
        Row("negative", "-data", np.negative, te.negate, accepts=any_number, accuracy=EXACT, dims=lambda a: -1 * a),
        Row("abs", "|data|", np.abs, _abs, accepts=any_number, result="real", accuracy=EXACT,
            on_complex=Accuracy.ROUNDING, dims=_absolute),
        Row("sign", "1, 0 or -1; of complex numbers data / |data|; NaN stays", np.sign, _sign, accepts=any_number,
            accuracy=EXACT, on_complex=Accuracy.ROUNDING, dims=_known_sign),
        Row("reciprocal", "1 / data", lambda x: numeric.divide(np.ones_like(x), x),
            lambda x: te.binary("div" if _is_float(x) else "truncdiv", te.const(1, x.dtype), x), accepts=any_number),
    ]


def _comparisons() -> list[Row]:
    equal, less, less_equal = decide("equal"), decide("less"), decide("less_equal")

    def row(name: str, doc: str, reference: Any, op: str, decide: Any, accepts: str = "numeric", on_strings: Any = None) -> Row:
        compare = partial(te.compare, op)
        return Row(name, doc, reference, compare, BINARY, accepts, "bool", EXACT, dims=decide, on_strings=on_strings,
                   precision=Precision.WIDE)  # with what it compares is not rounded

    return [
        row("equal", "lhs == rhs", np.equal, "eq", equal, "any", "string.equal"),
        row("not_equal", "lhs != rhs", np.not_equal, "ne", negated(equal), "any", "string.not_equal"),
        row("less", "lhs < rhs", np.less, "lt", less),
        row("less_equal", "lhs <= rhs", np.less_equal, "le", less_equal),
        row("greater", "lhs > rhs", np.greater, "gt", _flipped(less)),
        row("greater_equal", "lhs >= rhs", np.greater_equal, "ge", _flipped(less_equal)),
    ]


def _logic() -> list[Row]:
    def row(name: str, doc: str, reference: Any, lower: Any, operands: tuple[str, ...], accepts: str, decide: Any = None) -> Row:
        return Row(name, doc, reference, lower, operands, accepts, accuracy=EXACT, dims=decide)

    one, bits = ("data",), "integer or bool"
    return [
        row("logical_and", "lhs and rhs", np.logical_and, lambda a, b: logical("and", a, b), BINARY, "bool",
            lambda a, b: a and b),
        row("logical_or", "lhs or rhs", np.logical_or, lambda a, b: logical("or", a, b), BINARY, "bool",
            lambda a, b: a or b),
        row("logical_xor", "lhs xor rhs", np.logical_xor, lambda a, b: logical("xor", a, b), BINARY, "bool",
            lambda a, b: a != b),
        row("logical_not", "not data", np.logical_not, te.logical_not, one, "bool", lambda a: not a),
        row("bitwise_and", "lhs & rhs", np.bitwise_and, _bool_or("and"), BINARY, bits),
        row("bitwise_or", "lhs | rhs", np.bitwise_or, _bool_or("or"), BINARY, bits),
        row("bitwise_xor", "lhs ^ rhs", np.bitwise_xor, _bool_or("xor"), BINARY, bits),
        row("bitwise_not", "~data", np.invert, _bitwise_not, one, bits),
        row("left_shift", "lhs << rhs; 0 when rhs is not below the width", numeric.left_shift, _binary("shl"), BINARY, "integer"),
        row("right_shift", "lhs >> rhs; the sign when rhs is not below the width", numeric.right_shift, _binary("shr"),
            BINARY, "integer"),
    ]


def _keeping_integers(reference: Any) -> Callable[[Array], Array]:
    return lambda x: x if numeric.is_integer(x) else reference(x)


def _functions() -> list[Row]:
    def whole(name: str, doc: str, reference: Any) -> Row:
        return Row(name, doc, _keeping_integers(reference), _rounding(name), accuracy=EXACT, dims=lambda a: a)

    def real(name: str, doc: str, reference: Any, accepts: str = "float or complex", flops: int = 10, **facts: Any) -> Row:
        return Row(name, doc, reference, _intrinsic(name), accepts=accepts, flops=flops, **facts)

    def test(name: str, doc: str, reference: Any, lower: Any) -> Row:
        return Row(name, doc, reference, lower, accepts="float or complex", result="bool", accuracy=EXACT)

    return [
        whole("ceil", "the smallest integer >= data", np.ceil),
        whole("floor", "the largest integer <= data", np.floor),
        whole("trunc", "data without its fraction", np.trunc),
        whole("round", "the nearest integer, halves to the even one", np.round),
        real("exp", "e ** data", np.exp),
        real("expm1", "e ** data - 1, accurate near 0", expm1),
        real("log", "ln(data)", np.log),
        real("log2", "log2(data)", np.log2),
        real("log10", "log10(data)", np.log10),
        real("log1p", "ln(1 + data), accurate near 0", log1p),
        real("sqrt", "the square root of data", np.sqrt, flops=1),
        real("rsqrt", "1 / sqrt(data)", lambda x: 1 / np.sqrt(x), flops=2),
        real("erf", "2 / sqrt(pi) * integral of exp(-t * t) from 0 to data", numeric.erf, "float",
             precision=Precision.FOLLOWS_IN_RANGE),
        real("sigmoid", "1 / (1 + exp(-data))", numeric.sigmoid, precision=FOLLOWS, category=Category.ACTIVATION),
        real("tanh", "tanh(data)", np.tanh, precision=FOLLOWS, category=Category.ACTIVATION),
        real("sin", "sin(data), radians", np.sin),
        real("cos", "cos(data), radians", np.cos),
        real("tan", "tan(data), radians", np.tan),
        real("asin", "arc sine, radians", np.arcsin),
        real("acos", "arc cosine, radians", np.arccos),
        real("atan", "arc tangent, radians", np.arctan),
        real("sinh", "sinh(data)", np.sinh),
        real("cosh", "cosh(data)", np.cosh),
        real("asinh", "inverse of sinh", np.arcsinh),
        real("acosh", "inverse of cosh", np.arccosh),
        real("atanh", "inverse of tanh", np.arctanh),
        Row("atan2", "angle of the point (rhs, lhs), radians", np.arctan2,
            lambda a, b: te.call("atan2", a, b), BINARY, "float", flops=10),
        test("isnan", "whether data is NaN", np.isnan, _intrinsic("isnan")),
        test("isinf", "whether data is infinite", np.isinf, _isinf),
        test("isfinite", "whether data is neither infinite nor NaN", np.isfinite, _isfinite),
    ]


register_rows(__name__, [*_arithmetic(), *_comparisons(), *_logic(), *_functions()])
