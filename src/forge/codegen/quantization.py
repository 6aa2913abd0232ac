"""Real numbers as bytes, rounded and between bounds: what quantised sums end with.

``uint8(min(max(round(x) + z, 0), 255))`` takes one conversion, which rounds, one bound of floats and one of integers, which is in
the instructions that make bytes of them: those of AVX-512 take numbers without sign, others with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forge.codegen.arithmetic import Typed
from forge.codegen.conversions import convert
from forge.codegen.llvm import Operand, Values
from forge.tir import expr as tir

if TYPE_CHECKING:
    from forge.codegen.expressions import ExpressionEmitter

# Zero points are less; float32 holds their sums with all bounds.
MOST_ZERO: Final = 255
# By lanes: the feature, and the instructions that round and that truncate. Numbers that int32 does not hold become its least one.
_CONVERSIONS: Final = {
    4: ("sse2", "sse2.cvtps2dq", "sse2.cvttps2dq"), 8: ("avx", "avx.cvt.ps2dq.256", "avx.cvtt.ps2dq.256"),
    16: ("avx512f", "avx512.mask.cvtps2dq.512", "avx512.mask.cvttps2dq.512"),
}


def to_bytes(e: ExpressionEmitter, x: tir.Cast, number: tir.Expr, low: int, high: int) -> Operand | None:
    """``number``, between whole bounds, as uint8; None where there are no such instructions.

    NaN is 0, as the lower bound must be.
    """
    feature = _CONVERSIONS.get(x.lanes, ("none",))[0]
    if x.dtype != "uint8" or low or number.dtype != "float32" or not e.target.has(feature):
        return None
    rounded = _rounded(number)
    inner, zero = rounded or (number, tir.const(0.0, "float32"))
    value, offset = e.value(inner), e.value(zero)
    if not isinstance(value, str):
        return None
    t, scalar = e.typed(inner), e.typed(zero)
    narrow = _saturated if e.target.has("avx512f") and (x.lanes == 16 or e.target.has("avx512vl")) else _packed
    bound = 0.0 if narrow is _saturated else float(high)
    limit = _splat(t, scalar.op("fsub", bound, offset) if isinstance(offset, str) else bound - offset)
    bounded = t.select(t.op("fcmp ogt", value, limit), *((value, limit) if narrow is _saturated else (limit, value)))
    words = Typed(e.builder, "int32", t.lanes)
    mask = [words.typed(0), "i16 -1", "i32 4"] if t.lanes == 16 else []
    whole: Operand = words.native(f"x86.{_CONVERSIONS[t.lanes][1 if rounded else 2]}", t.typed(bounded), *mask)
    if offset != 0:
        whole = words.op("add", whole, _splat(words, convert(e, offset, "float32", "int32", 1)))
    return narrow(words, whole, high)


def _saturated(words: Typed, whole: Operand, high: int) -> Operand:
    """Numbers from 0 on as bytes; those above ``high`` become that, and so does what is none without its sign."""
    return words.convert("trunc", words.call("umin", whole, high), "i8")


def _packed(words: Typed, whole: Operand, high: int) -> Operand:
    """Numbers up to ``high`` as bytes; negative ones become 0."""
    quarter, shorts, bytes_ = words.of(4), Values(words.builder, "i16", 8), Values(words.builder, "i8", 16)
    halves = [words.slice(whole, k, 4) if words.lanes == 8 else whole for k in (0, 4)]
    pairs = shorts.native("x86.sse2.packssdw.128", *map(quarter.typed, halves))
    packed = bytes_.native("x86.sse2.packuswb.128", *[shorts.typed(pairs)] * 2)
    return bytes_.shuffle(packed, "poison", range(words.lanes))


def _rounded(number: tir.Expr) -> tuple[tir.Expr, tir.Expr] | None:
    """x and z of ``round(x) + z``, if ``number`` is that for a zero point z."""
    zero: tir.Expr = tir.const(0.0, "float32")
    if isinstance(number, tir.Binary) and number.op == "add":
        zero = number.b.x if isinstance(number.b, tir.Broadcast) else number.b
        number = number.a
    if not (isinstance(number, tir.Call) and number.name == "round"):
        return None
    if isinstance(zero, tir.Const):
        is_zero = isinstance(zero.value, float) and zero.value.is_integer() and 0 <= zero.value <= MOST_ZERO
        return (number.args[0], tir.const(zero.value, "float32")) if is_zero else None
    return (number.args[0], zero) if isinstance(zero, tir.Load) and zero.lanes == 1 and zero.buffer.whole else None


def _splat(t: Typed, value: Operand) -> Operand:
    """A scalar in all lanes."""
    if not isinstance(value, str):
        return value
    return t.shuffle(t.insert("poison", value, 0), "poison", [0] * t.lanes)
