"""Operations that compute each element of the result from one of each operand."""

from __future__ import annotations

import math

import numpy as np

from forge import dtypes
from forge.compose import special
from forge.compose.bits import bitcast
from forge.frontends.converter import ConverterFunction
from forge.frontends.stablehlo import quantized
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.divisions import rounded_down
from forge.frontends.stablehlo.error_functions import complementary_error_function
from forge.frontends.stablehlo.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

_UNARY = {
    "abs": "abs", "ceil": "ceil", "cosine": "cos", "count_leading_zeros": "count_leading_zeros",
    "exponential": "exp", "exponential_minus_one": "expm1", "floor": "floor", "is_finite": "isfinite", "log": "log",
    "log_plus_one": "log1p", "logistic": "sigmoid", "negate": "negative", "popcnt": "popcount",
    "round_nearest_afz": "round_away", "round_nearest_even": "round", "rsqrt": "rsqrt", "sign": "sign", "sine": "sin",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}
_CHLO_UNARY = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh", "bessel_i1e": "i1e",
    "conj": "complex.conj", "cosh": "cosh", "erf": "erf", "erf_inv": "erfinv", "erfc": "erfc",
    "is_inf": "isinf", "lgamma": "lgamma", "sinh": "sinh", "tan": "tan",
}
_BINARY = {
    "add": "add", "atan2": "atan2", "divide": "divide", "maximum": "maximum", "minimum": "minimum", "multiply": "multiply",
    "power": "power", "remainder": "mod", "shift_left": "left_shift", "subtract": "subtract",
}
_OF_BITS = ("and", "or", "xor")
_OF_BOOLS = {"add": "or", "maximum": "or", "minimum": "and", "multiply": "and"}
"""What arithmetic on bool is."""


def _unary(op: str) -> ConverterFunction:
    def convert(g: Context, operand: Value) -> Value:
        return g.elementwise(op, operand)

    return convert


def binary(g: Context, name: str, lhs: Value, rhs: Value) -> Value:
    """An operation of two operands, by its name."""
    op = _OF_BOOLS.get(name, name) if lhs.dtype == "bool" else name
    if op in ("maximum", "minimum") and dtypes.is_float(lhs.dtype):
        least = -math.inf if op == "maximum" else math.inf
        for value, other in ((lhs, rhs), (rhs, lhs)):
            if value.shape == other.shape and g.is_full_of(value, least):
                return other
    if op in ("and", "or") and lhs.dtype == "bool" and lhs.rank == rhs.rank == 0:
        known = next((v for v in (lhs, rhs) if (array := g.array(v)) is not None and bool(array) == (op == "or")), None)
        if known is not None:
            return known  # so that what depends on sizes is known
    if op in _OF_BITS:
        return g.elementwise(f"{'logical' if lhs.dtype == 'bool' else 'bitwise'}_{op}", lhs, rhs)
    if op in ("maximum", "minimum") and dtypes.is_complex(lhs.dtype):
        return g.call("where", _comes_first(g, *((rhs, lhs) if op == "maximum" else (lhs, rhs))), lhs, rhs)
    return g.elementwise(_BINARY[op], lhs, rhs)


def _comes_first(g: Context, lhs: Value, rhs: Value) -> Value:
    """Where complex ``lhs`` is before ``rhs``: its real part is smaller, or its imaginary part of two equal real ones."""
    (a, b), (c, d) = ([g.call(f"complex.{part}", v) for part in ("real", "imag")] for v in (lhs, rhs))
    tied = g.call("logical_and", g.call("equal", a, c), g.call("less", b, d))
    return g.call("logical_or", g.call("less", a, c), tied)


def _binary(name: str) -> ConverterFunction:
    def convert(g: Context, lhs: Value, rhs: Value) -> Value:
        return binary(g, name, lhs, rhs)

    return convert


def _broadcasting(name: str) -> ConverterFunction:
    def convert(g: Context, lhs: Value, rhs: Value, *, broadcast_dimensions: tuple[int, ...] | None = None) -> Value:
        last = tuple(range(abs(lhs.rank - rhs.rank), max(lhs.rank, rhs.rank)))
        if broadcast_dimensions not in (None, last):
            raise g.unsupported(f"broadcast_dimensions: got {broadcast_dimensions}; expected the last ones")
        return binary(g, name, lhs, rhs)

    return convert


for _name, _op in _UNARY.items():
    converts(_name)(_unary(_op))
for _name, _op in _CHLO_UNARY.items():
    converts(_name, domain="chlo")(_unary(_op))
for _name in (*_BINARY, *_OF_BITS):
    converts(_name)(_binary(_name))
    converts(f"broadcast_{_name}", domain="chlo")(_broadcasting(_name))


@converts("cbrt")
def cube_root(g: Context, operand: Value) -> Value:
    if dtypes.is_complex(operand.dtype):
        return g.call("power", operand, g.scalar(1 / 3, operand))
    return g.elementwise("cbrt", operand)


@converts("not")
def bitwise_not(g: Context, operand: Value) -> Value:
    return g.call("logical_not" if operand.dtype == "bool" else "bitwise_not", operand)


@converts("real")
def real(g: Context, operand: Value) -> Value:
    return g.call("complex.real", operand) if dtypes.is_complex(operand.dtype) else operand


@converts("imag")
def imaginary(g: Context, operand: Value) -> Value:
    return g.call("complex.imag", operand) if dtypes.is_complex(operand.dtype) else g.call("zeros_like", operand)


@converts("complex")
def complex_number(g: Context, lhs: Value, rhs: Value) -> Value:
    return g.call("complex.make", lhs, rhs)


@converts("shift_right_arithmetic")
def shift_right_arithmetic(g: Context, lhs: Value, rhs: Value) -> Value:
    return _on_kind(g, "int", "right_shift", lhs, rhs)


@converts("shift_right_logical")
def shift_right_logical(g: Context, lhs: Value, rhs: Value) -> Value:
    return g.call("logical_right_shift", lhs, rhs)


def _on_kind(g: Context, kind: str, op: str, *values: Value) -> Value:
    """``op`` on integers of the same bits that are signed (``int``) or not (``uint``)."""
    dtype = values[0].dtype
    wanted = f"{kind}{dtypes.bits(dtype)}"
    result = g.call(op, *(v if dtype == wanted else g.call("reinterpret", v, dtype=wanted) for v in values))
    return result if dtype == wanted else g.call("reinterpret", result, dtype=dtype)


_COMPARISONS = {
    "EQ": "equal", "NE": "not_equal", "GE": "greater_equal", "GT": "greater", "LE": "less_equal", "LT": "less"}


@converts("compare")
def compare(g: Context, lhs: Value, rhs: Value, *, comparison_direction: str, compare_type: str = "") -> Value:
    if comparison_direction not in _COMPARISONS:
        raise g.invalid(f"comparison_direction: got {comparison_direction!r}; expected one of {', '.join(_COMPARISONS)}")
    if compare_type == "TOTALORDER" and dtypes.is_float(lhs.dtype):
        lhs, rhs = total_order(g, lhs), total_order(g, rhs)
    if lhs.dtype == "bool" and comparison_direction not in ("EQ", "NE"):
        lhs, rhs = g.cast(lhs, "uint8"), g.cast(rhs, "uint8")
    return g.elementwise(_COMPARISONS[comparison_direction], lhs, rhs)


def total_order(g: Context, value: Value) -> Value:
    """Integers in the total order of floats: -NaN, negative numbers, -0, 0, positive numbers, NaN."""
    bits = dtypes.bits(value.dtype)
    word = g.call("reinterpret", value, dtype=f"int{bits}")
    magnitude = g.constant((1 << (bits - 1)) - 1, word.dtype)
    backwards = g.call("bitwise_xor", word, magnitude)
    return g.call("where", g.call("less", word, g.constant(0, word.dtype)), backwards, word)


@converts("select")
def select(g: Context, pred: Value, on_true: Value, on_false: Value) -> Value:
    known = g.array(pred)
    if known is not None and known.ndim == 0:
        return on_true if known else on_false
    for meaning in (rounded_down, complementary_error_function):
        found = meaning(g, pred, on_true, on_false)
        if found is not None:
            return found
    return g.elementwise("where", pred, on_true, on_false)


@converts("clamp")
def clamp(g: Context, minimum: Value, operand: Value, maximum: Value) -> Value:
    return g.elementwise("minimum", g.elementwise("maximum", operand, minimum), maximum)


@converts("convert")
def convert(g: Context, operand: Value) -> Value:
    dtype = g.result_type().dtype
    if dtypes.is_complex(dtype) and not dtypes.is_complex(operand.dtype):
        part = g.cast(operand, "float64" if dtype == "complex128" else "float32")
        return g.call("complex.make", part, g.call("zeros_like", part))
    if dtypes.is_complex(operand.dtype) and not dtypes.is_complex(dtype):
        operand = g.call("complex.real", operand)
    return g.call("cast", operand, dtype=dtype, saturate=False) if dtype != operand.dtype else operand


@converts("reduce_precision")
def reduce_precision(g: Context, operand: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    return g.call("reduce_precision", operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


@converts("bitcast_convert")
def bitcast_convert(g: Context, operand: Value) -> Value:
    """The same bits as elements of another type; of another width they are one dimension more or less, low bits first."""
    dtype = g.result_type().dtype
    if (dtype == "bool") != (operand.dtype == "bool"):
        raise g.unsupported(f"bits of {operand.dtype} as {dtype} are not supported; expected no bool, or bool alone")
    row = operand if operand.rank else g.reshape(operand, (1,))
    own, declared = operand.shape, g.result_type().shape
    shape = [*own, *declared[operand.rank :]] if len(declared) >= operand.rank else own[:-1]
    return g.reshape(bitcast(g, row, dtype), shape)


@converts("uniform_dequantize")
def uniform_dequantize(g: Context, operand: Value) -> Value:
    how = g.operand_type().quantized
    if how is None:
        raise g.invalid(f"got {operand.type}; expected quantized integers")
    return quantized.dequantize(g, operand, how)


@converts("uniform_quantize")
def uniform_quantize(g: Context, operand: Value) -> Value:
    source, target = g.operand_type().quantized, g.result_type().quantized
    if target is None:
        raise g.invalid("got a result of no quantized type; expected one")
    return quantized.quantize(g, operand if source is None else quantized.dequantize(g, operand, source), target)


@converts("is_pos_inf", domain="chlo")
def is_positive_infinity(g: Context, operand: Value) -> Value:
    return g.call("equal", operand, g.scalar(math.inf, operand))


@converts("is_neg_inf", domain="chlo")
def is_negative_infinity(g: Context, operand: Value) -> Value:
    return g.call("equal", operand, g.scalar(-math.inf, operand))


@converts("square", domain="chlo")
def square(g: Context, operand: Value) -> Value:
    return g.call("multiply", operand, operand)


@converts("next_after", domain="chlo")
def next_after(g: Context, x: Value, y: Value) -> Value:
    return g.call("nextafter", x, y)


@converts("mulhi", domain="chlo")
def high_product(g: Context, lhs: Value, rhs: Value) -> Value:
    """The high half of the product of integers."""
    bits = dtypes.bits(lhs.dtype)
    if bits > 32:
        return _high_product_of_64(g, lhs, rhs)
    wide = ("int" if lhs.dtype.startswith("int") else "uint") + str(2 * bits)
    product = g.call("multiply", g.cast(lhs, wide), g.cast(rhs, wide))
    return g.cast(g.call("right_shift", product, g.constant(bits, wide)), lhs.dtype)


def _high_product_of_64(g: Context, lhs: Value, rhs: Value) -> Value:
    """By products of halves; a negative number is 2^64 too large without its sign, which the other one is taken away for."""
    half, mask = g.constant(32, "uint64"), g.constant(0xFFFFFFFF, "uint64")
    plain = [v if v.dtype == "uint64" else g.call("reinterpret", v, dtype="uint64") for v in (lhs, rhs)]
    (a, b), (c, d) = ((g.call("logical_right_shift", v, half), g.call("bitwise_and", v, mask)) for v in plain)
    first = g.call("logical_right_shift", g.call("multiply", b, d), half)
    middle = g.call("add", g.call("multiply", a, d), first)
    other = g.call("add", g.call("multiply", b, c), g.call("bitwise_and", middle, mask))
    carried = [g.call("logical_right_shift", v, half) for v in (middle, other)]
    found = g.call("add", g.call("multiply", a, c), g.call("add", *carried))
    if lhs.dtype == "uint64":
        return found
    found, zero = g.call("reinterpret", found, dtype="int64"), g.constant(0, "int64")
    for one, factor in ((lhs, rhs), (rhs, lhs)):
        found = g.call("subtract", found, g.call("where", g.call("less", one, zero), factor, zero))
    return found


@converts("constant_like", domain="chlo")
def constant_like(g: Context, operand: Value, *, value: object) -> Value:
    number = value.item() if isinstance(value, np.ndarray) else value
    return g.filled(g.constant(number, operand.dtype), operand.dtype, operand.shape)


@converts("zeta", domain="chlo")
def zeta(g: Context, x: Value, q: Value) -> Value:
    """NaN at the poles of q, where x is neither 1 nor even: the two sides differ."""
    order, at = (Term(g, g.cast(value, "float64")) for value in (x, q))
    two_sided = (at <= 0).both(at.equals(at.floor())).both((order / 2).floor() < order / 2).both(order > 1)
    return g.cast(two_sided.where(math.nan, Term(g, special.zeta(g, order.value, at.value))).value, x.dtype)


@converts("digamma", domain="chlo")
def digamma(g: Context, x: Value) -> Value:
    """NaN at all of its poles, 0 included."""
    return Term(g, x).equals(0).where(math.nan, Term(g, g.call("digamma", x))).value


@converts("polygamma", domain="chlo")
def polygamma(g: Context, n: Value, x: Value) -> Value:
    """Of whole numbers n from 0 on; of others it is NaN."""
    order, at = Term(g, g.cast(n, "float64")), g.cast(x, "float64")
    factorial = Term(g, g.call("exp", g.call("lgamma", (order + 1).value)))
    sign = (order - (order / 2).floor() * 2) * 2 - 1
    derivative = sign * factorial * Term(g, zeta(g, (order + 1).value, at))
    found = order.equals(0).where(Term(g, digamma(g, at)), derivative)
    defined = order.equals(order.floor()).both(order >= 0)
    return g.cast(defined.where(found, math.nan).value, x.dtype)
