"""Elementwise operators on the bits of integers and floats, and on single roundings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from forge import dtypes, te
from forge.ops.core.inference import broadcast_shapes, fail, same_dtype
from forge.ops.core.op import Accuracy, Kind, Op, Operand, Precision, Trait, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.elementwise.rows import Row, broadcast_compute, register_rows

EXACT = Accuracy.EXACT
BINARY = ("lhs", "rhs")


@dataclass(frozen=True)
class FloatLayout:
    """Where the fields of an IEEE float lie: ``mantissa`` bits, then ``exponent`` bits, then the sign."""

    word: str
    mantissa: int
    exponent: int

    @property
    def sign(self) -> int:
        return 1 << (self.mantissa + self.exponent)

    @property
    def infinity(self) -> int:
        return self.sign - (1 << self.mantissa)

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1


LAYOUTS = {
    "float16": FloatLayout("uint16", 10, 5),
    "bfloat16": FloatLayout("uint16", 7, 8),
    "float32": FloatLayout("uint32", 23, 8),
    "float64": FloatLayout("uint64", 52, 11),
}
ACCEPTED = " or ".join(LAYOUTS)


def words(x: Array) -> Array:
    """The bits of floats as unsigned integers."""
    layout = LAYOUTS[dtypes.canonical(x.dtype)]
    return np.ascontiguousarray(x).view(layout.word).reshape(x.shape)


def lower_words(x: Expr) -> Expr:
    """``words`` of one element."""
    return te.call("reinterpret", x, dtype=LAYOUTS[x.dtype].word)


def _popcount(x: Array) -> Array:
    unsigned = x.view(f"uint{8 * x.dtype.itemsize}")
    return np.asarray(np.bitwise_count(unsigned).astype(x.dtype))


def _leading_zeros(x: Array) -> Array:
    width = 8 * x.dtype.itemsize
    counted = np.frompyfunc(lambda v: width - (int(v) % (1 << width)).bit_length(), 1, 1)
    return np.asarray(counted(x), dtype=object).astype(x.dtype)


def _logical_shift(a: Array, b: Array) -> Array:
    width = 8 * a.dtype.itemsize
    shifted = np.frompyfunc(lambda x, y: (int(x) % (1 << width)) >> int(y) if 0 <= int(y) < width else 0, 2, 1)
    return np.asarray(shifted(a, b), dtype=object).astype(f"uint{width}").view(a.dtype)


def _lower_logical_shift(a: Expr, b: Expr) -> Expr:
    word = f"uint{dtypes.bits(a.dtype)}"
    amount = te.call("reinterpret", b, dtype=word)
    return te.call("reinterpret", te.binary("shr", te.call("reinterpret", a, dtype=word), amount), dtype=a.dtype)


def _lower_fmax(op: str) -> Callable[[Expr, Expr], Expr]:
    def lower(a: Expr, b: Expr) -> Expr:
        if not dtypes.is_float(a.dtype):
            return te.binary(op, a, b)
        return te.select(te.call("isnan", a), b, te.select(te.call("isnan", b), a, te.binary(op, a, b)))

    return lower


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.asarray(whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0).astype(x.dtype))


def _lower_round_away(x: Expr) -> Expr:
    whole = te.call("trunc", x)
    half = te.call("abs", x - whole) >= 0.5
    away = te.select(x < 0.0, te.const(-1.0, x.dtype), te.const(1.0, x.dtype))
    return te.select(half, whole + away, whole)


register_rows(__name__, [
    Row("popcount", "the number of bits that are 1", _popcount, lambda x: te.call("popcount", x), accepts="index",
        accuracy=EXACT),
    Row("count_leading_zeros", "the number of bits 0 before the first 1; the width for 0", _leading_zeros,
        lambda x: te.call("clz", x), accepts="index", accuracy=EXACT),
    Row("logical_right_shift", "lhs >> rhs with zeros shifted in; 0 when rhs is not below the width", _logical_shift,
        _lower_logical_shift, BINARY, "index", accuracy=EXACT),
    Row("fmax", "max(lhs, rhs); the other one where one is NaN", np.fmax, _lower_fmax("max"), BINARY,
        accuracy=EXACT, traits=Trait.COMMUTATIVE),
    Row("fmin", "min(lhs, rhs); the other one where one is NaN", np.fmin, _lower_fmax("min"), BINARY,
        accuracy=EXACT, traits=Trait.COMMUTATIVE),
    Row("round_away", "the nearest integer, halves away from 0", _round_away, _lower_round_away, accepts="float", accuracy=EXACT),
])


class _OnBits(Op[object]):
    """What works on the bits of a float of 16 bits or more, of one or two operands of equal shape after broadcasting."""

    kind = Kind.ELEMENTWISE


@register
class SignBit(_OnBits):
    """Whether the sign bit of data is set: of negative numbers, -0 and NaN with that bit."""

    name = "signbit"
    data = Operand(accepts=ACCEPTED)

    def infer(self, attrs: object, data: Value) -> Types:
        return [TensorType(data.shape, "bool")]

    def reference(self, attrs: object, data: Array) -> Arrays:
        return [words(data) >> (8 * data.dtype.itemsize - 1) != 0]

    def lower(self, attrs: object, results: TensorTypes, data: Tensor) -> Lowered:
        def body(x: Expr) -> Expr:
            bits = lower_words(x)
            return bits >= te.const(LAYOUTS[x.dtype].sign, bits.dtype)

        return [broadcast_compute(self.name, results[0], body, data)]


def _broadcast_pair(op: _OnBits, lhs: Value, rhs: Value) -> Types:
    return [TensorType(broadcast_shapes(op.name, lhs.shape, rhs.shape), same_dtype(op.name, [lhs, rhs]))]


@register
class CopySign(_OnBits):
    """|lhs| with the sign bit of rhs."""

    name = "copysign"
    lhs, rhs = Operand(accepts=ACCEPTED), Operand(accepts=ACCEPTED)

    def infer(self, attrs: object, lhs: Value, rhs: Value) -> Types:
        return _broadcast_pair(self, lhs, rhs)

    def reference(self, attrs: object, lhs: Array, rhs: Array) -> Arrays:
        sign = words(lhs).dtype.type(LAYOUTS[dtypes.canonical(lhs.dtype)].sign)
        return [((words(lhs) & ~sign) | (words(rhs) & sign)).view(lhs.dtype)]

    def lower(self, attrs: object, results: TensorTypes, lhs: Tensor, rhs: Tensor) -> Lowered:
        def body(a: Expr, b: Expr) -> Expr:
            layout = LAYOUTS[a.dtype]
            sign, rest = (te.const(v, layout.word) for v in (layout.sign, layout.sign - 1))
            return te.call("reinterpret", (lower_words(a) & rest) | (lower_words(b) & sign), dtype=a.dtype)

        return [broadcast_compute(self.name, results[0], body, lhs, rhs)]


@register
class NextAfter(_OnBits):
    """The number next to lhs in the direction of rhs; lhs itself where both are equal; NaN where one is."""

    name = "nextafter"
    lhs, rhs = Operand(accepts=ACCEPTED), Operand(accepts=ACCEPTED)
    precision = Precision.WIDE

    def infer(self, attrs: object, lhs: Value, rhs: Value) -> Types:
        return _broadcast_pair(self, lhs, rhs)

    def reference(self, attrs: object, lhs: Array, rhs: Array) -> Arrays:
        a, b = np.broadcast_arrays(lhs, rhs)
        bits, layout = words(a), LAYOUTS[dtypes.canonical(a.dtype)]
        one = bits.dtype.type(1)
        smallest = np.where(b > 0, one, bits.dtype.type(layout.sign + 1))
        moved = np.where(a == 0, smallest, np.where((b > a) == (a > 0), bits + one, bits - one))
        result = np.where(a == b, words(b), moved.astype(bits.dtype))
        return [np.where(np.isnan(a) | np.isnan(b), np.array(np.nan, a.dtype), result.view(a.dtype))]

    def lower(self, attrs: object, results: TensorTypes, lhs: Tensor, rhs: Tensor) -> Lowered:
        def body(a: Expr, b: Expr) -> Expr:
            layout = LAYOUTS[a.dtype]
            bits, one = lower_words(a), te.const(1, layout.word)
            smallest = te.select(b > 0.0, one, te.const(layout.sign + 1, layout.word))
            away = te.compare("eq", b > a, a > 0.0)
            moved = te.select(a.eq(0.0), smallest, te.select(away, bits + one, bits - one))
            result = te.call("reinterpret", te.select(a.eq(b), lower_words(b), moved), dtype=a.dtype)
            nan = te.binary("or", te.call("isnan", a), te.call("isnan", b))
            return te.select(nan, te.const(float("nan"), a.dtype), result)

        return [broadcast_compute(self.name, results[0], body, lhs, rhs)]


@dataclass(frozen=True)
class ReducePrecisionAttrs:
    exponent_bits: int
    mantissa_bits: int


@register
class ReducePrecision(Op[ReducePrecisionAttrs]):
    """data rounded (half to even) to a float of ``exponent_bits`` and ``mantissa_bits``, in its own type.

    What is too large becomes infinite, what would be subnormal 0; both keep the sign. NaN stays.
    """

    name = "reduce_precision"
    data = Operand(accepts=ACCEPTED)
    kind = Kind.ELEMENTWISE

    def infer(self, attrs: ReducePrecisionAttrs, data: Value) -> Types:
        for what, value, least in (("exponent_bits", attrs.exponent_bits, 1), ("mantissa_bits", attrs.mantissa_bits, 0)):
            if value < least:
                raise fail(self.name, f"attribute {what}", value, f"at least {least}")
        return [data.type]

    def reference(self, attrs: ReducePrecisionAttrs, data: Array) -> Arrays:
        layout = LAYOUTS[dtypes.canonical(data.dtype)]
        reduced = np.frompyfunc(lambda bits: _reduced(int(bits), layout, attrs), 1, 1)
        return [np.asarray(reduced(words(data)), dtype=object).astype(layout.word).view(data.dtype).reshape(data.shape)]

    def lower(self, attrs: ReducePrecisionAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        return [broadcast_compute(self.name, results[0], lambda x: _lower_reduced(x, attrs), data)]


def _reduced(bits: int, layout: FloatLayout, attrs: ReducePrecisionAttrs) -> int:
    sign, magnitude = bits & layout.sign, bits & (layout.sign - 1)
    if magnitude > layout.infinity:
        return bits
    dropped = max(layout.mantissa - attrs.mantissa_bits, 0)
    if dropped:
        magnitude = (magnitude + (1 << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1)) >> dropped << dropped
    low, high = _exponents(layout, attrs)
    if magnitude >> layout.mantissa > high:
        return sign | layout.infinity
    return sign if magnitude >> layout.mantissa <= low else sign | magnitude


def _exponents(layout: FloatLayout, attrs: ReducePrecisionAttrs) -> tuple[int, int]:
    """The exponent fields that become 0 (and all below), and the largest that stays finite."""
    if attrs.exponent_bits >= layout.exponent:
        return -1, 2 * layout.bias
    bias = (1 << (attrs.exponent_bits - 1)) - 1
    return layout.bias - bias, layout.bias + bias


def _lower_reduced(x: Expr, attrs: ReducePrecisionAttrs) -> Expr:
    layout = LAYOUTS[x.dtype]

    def word(value: int) -> Expr:
        return te.const(value, layout.word)

    bits = lower_words(x)
    sign, magnitude = bits & word(layout.sign), bits & word(layout.sign - 1)
    dropped = max(layout.mantissa - attrs.mantissa_bits, 0)
    if dropped:
        odd = te.binary("shr", magnitude, word(dropped)) & word(1)
        magnitude = (magnitude + word((1 << (dropped - 1)) - 1) + odd) & word(-(1 << dropped))
    low, high = _exponents(layout, attrs)
    exponent = te.binary("shr", magnitude, word(layout.mantissa))
    magnitude = te.select(exponent > word(high), word(layout.infinity), magnitude)
    if low >= 0:
        magnitude = te.select(exponent <= word(low), word(0), magnitude)
    return te.select(te.call("isnan", x), x, te.call("reinterpret", sign | magnitude, dtype=x.dtype))
