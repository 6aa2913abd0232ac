"""Operations that compute each element of the result from one of each operand."""

from __future__ import annotations

import math

import numpy as np

from forge import dtypes
from forge.frontends.converter import ConverterFunction
from forge.frontends.stablehlo import quantized
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.divisions import rounded_down
from forge.frontends.stablehlo.registry import converts, refuse
from forge.ir.nodes import Value

_UNARY = {
    "abs": "abs", "cbrt": "cbrt", "ceil": "ceil", "cosine": "cos", "count_leading_zeros": "count_leading_zeros",
    "exponential": "exp", "exponential_minus_one": "expm1", "floor": "floor", "is_finite": "isfinite", "log": "log",
    "log_plus_one": "log1p", "logistic": "sigmoid", "negate": "negative", "popcnt": "popcount",
    "round_nearest_afz": "round_away", "round_nearest_even": "round", "rsqrt": "rsqrt", "sign": "sign", "sine": "sin",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}
_CHLO_UNARY = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh", "bessel_i1e": "i1e",
    "conj": "complex.conj", "cosh": "cosh", "digamma": "digamma", "erf": "erf", "erf_inv": "erfinv", "erfc": "erfc",
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
        raise g.unsupported(f"{name} of complex numbers is not supported; expected real ones")
    return g.elementwise(_BINARY[op], lhs, rhs)


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
    division = rounded_down(g, pred, on_true, on_false)
    return g.elementwise("where", pred, on_true, on_false) if division is None else division


@converts("clamp")
def clamp(g: Context, minimum: Value, operand: Value, maximum: Value) -> Value:
    return g.elementwise("minimum", g.elementwise("maximum", operand, minimum), maximum)


@converts("convert")
def convert(g: Context, operand: Value) -> Value:
    dtype = g.result_type().dtype
    if dtypes.is_complex(dtype) and not dtypes.is_complex(operand.dtype):
        part = g.cast(operand, "float64" if dtype == "complex128" else "float32")
        return g.call("complex.make", part, g.call("zeros_like", part))
    return g.call("cast", operand, dtype=dtype, saturate=False) if dtype != operand.dtype else operand


@converts("reduce_precision")
def reduce_precision(g: Context, operand: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    return g.call("reduce_precision", operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


@converts("bitcast_convert")
def bitcast_convert(g: Context, operand: Value) -> Value:
    """The same bits as elements of another type; of another width they are one dimension more or less, low bits first."""
    dtype = g.result_type().dtype
    old, new = dtypes.bits(operand.dtype), dtypes.bits(dtype)
    if dtypes.is_complex(dtype) or dtypes.is_complex(operand.dtype):
        raise g.unsupported("bits of complex numbers are not supported; expected real ones")
    if old == new:
        return g.call("reinterpret", operand, dtype=dtype)
    word = g.call("reinterpret", operand, dtype=f"uint{old}")
    count = max(old, new) // min(old, new)
    shifts = np.arange(count) * min(old, new)
    if old > new:
        parts = g.call("logical_right_shift", g.reshape(word, (*word.shape, 1)), g.constant(shifts, word.dtype))
        narrow = g.cast(g.call("bitwise_and", parts, g.constant((1 << new) - 1, word.dtype)), f"uint{new}")
        return g.call("reinterpret", narrow, dtype=dtype)
    wide = g.call("left_shift", g.cast(word, f"uint{new}"), g.constant(shifts, f"uint{new}"))
    return g.call("reinterpret", g.call("sum", wide, axis=(-1,)), dtype=dtype)


@converts("uniform_dequantize")
def uniform_dequantize(g: Context, operand: Value) -> Value:
    how = g.operand_type().quantized
    if how is None:
        raise g.invalid(f"got {operand.type}; expected quantised integers")
    return quantized.dequantize(g, operand, how)


@converts("uniform_quantize")
def uniform_quantize(g: Context, operand: Value) -> Value:
    source, target = g.operand_type().quantized, g.result_type().quantized
    if target is None:
        raise g.invalid("got a result of no quantised type; expected one")
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
        raise g.unsupported(f"the high half of products of {lhs.dtype} is not supported; expected integers of at most 32 bits")
    wide = ("int" if lhs.dtype.startswith("int") else "uint") + str(2 * bits)
    product = g.call("multiply", g.cast(lhs, wide), g.cast(rhs, wide))
    return g.cast(g.call("right_shift", product, g.constant(bits, wide)), lhs.dtype)


@converts("constant_like", domain="chlo")
def constant_like(g: Context, operand: Value, *, value: object) -> Value:
    number = value.item() if isinstance(value, np.ndarray) else value
    return g.filled(g.constant(number, operand.dtype), operand.dtype, operand.shape)


for _name in ("polygamma", "zeta"):
    refuse(_name, "no operator computes it", domain="chlo")
refuse("ragged_dot", "it is not decomposed; let jax decompose it: lower for CPUs", domain="chlo")
refuse("scan", "it is not decomposed; use while", domain="chlo")
