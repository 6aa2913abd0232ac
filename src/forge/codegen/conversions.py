"""Conversions between element types in registers, and between registers and the bits in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from forge import dtypes
from forge.codegen.arithmetic import Typed
from forge.codegen.llvm import NARROW_FLOATS, Operand, Values, memory_type, register_dtype, scalar_type

if TYPE_CHECKING:
    from forge.codegen.expressions import ExpressionEmitter


def fold(value: int | float | bool, dtype: str) -> int | float | bool:
    """A constant converted to ``dtype``: floats saturate into integers, NaN becomes 0."""
    if dtype == "bool":
        return bool(value)
    if dtypes.is_float(dtype):
        with np.errstate(all="ignore"):
            return float(np.float64(value).astype(dtypes.numpy_dtype(dtype)))
    if isinstance(value, float):
        low, high = dtypes.integer_range(dtype)
        return 0 if math.isnan(value) else int(min(max(value, low), high))
    return dtypes.wrap_int(int(value), dtype)


def convert(e: ExpressionEmitter, value: Operand, source: str, target: str, lanes: int, exact: bool = True) -> Operand:
    """``value`` of dtype ``source`` as ``target``.

    ``exact`` rounds narrow floats to their own precision; without it the caller rounds when it stores them. float64 becomes
    float16 in one rounding, and the other narrow types by way of float32 (as NumPy and ml_dtypes have it).
    """
    if source == target:
        return value
    if not isinstance(value, str):
        return fold(value, target)
    if target == "float16" and source == "float64":
        value = e.helper("narrow.to_odd", Typed(e.builder, "float64", lanes), value, result="float32")
    else:
        value = _between_registers(e, value, register_dtype(source), register_dtype(target), lanes)
    if target in NARROW_FLOATS and exact and source != target:
        return decode(e, encode(e, value, target, lanes), target, lanes)
    return value


def _between_registers(e: ExpressionEmitter, value: str, source: str, target: str, lanes: int) -> Operand:
    if source == target:
        return value
    t = Typed(e.builder, source, lanes)
    if target == "bool":
        return t.op("fcmp une" if dtypes.is_float(source) else "icmp ne", value, 0)
    if dtypes.is_float(source) and dtypes.is_integer(target):
        return float_to_integer(t, value, target, *dtypes.integer_range(target))
    return t.convert(_instruction(source, target), value, scalar_type(target))


def _instruction(source: str, target: str) -> str:
    if dtypes.is_float(source):
        return "fpext" if target == "float64" else "fptrunc"
    signed = dtypes.is_signed(source)
    if dtypes.is_float(target):
        return "sitofp" if signed else "uitofp"
    wide, narrow = dtypes.bits(target), 1 if source == "bool" else dtypes.bits(source)
    if wide == narrow:
        return "bitcast"
    return "trunc" if wide < narrow else ("sext" if signed else "zext")


def clamped(t: Typed, value: Operand, low: int, high: int) -> Operand:
    """``value`` between bounds, in floating point; NaN gives ``low``."""
    largest = _largest_below(high, t.dtype)
    above = t.select(t.op("fcmp ogt", value, float(low)), value, float(low))
    return t.select(t.op("fcmp olt", above, largest), above, largest)


def float_to_integer(t: Typed, value: Operand, target: str, low: int, high: int) -> Operand:
    """``value`` between bounds that ``target`` holds; NaN gives 0. Clamps in floating point, so that vectors stay vectors."""
    narrow = dtypes.bits(target) < 32
    through = "int32" if narrow else target
    name = "fptosi" if narrow or dtypes.is_signed(target) else "fptoui"
    r = Typed(t.builder, through, t.lanes)
    whole = t.convert(name, clamped(t, value, low, high), r.scalar)
    if _largest_below(high, t.dtype) != high:
        whole = r.select(t.op("fcmp oge", value, float(high)), high, whole)
    if low:
        whole = r.select(t.op("fcmp uno", value, 0.0), 0, whole)
    return r.convert("trunc", whole, scalar_type(target))


def _largest_below(high: int, dtype: str) -> float:
    """The largest float of ``dtype`` that is at most ``high``."""
    kind = dtypes.numpy_dtype(dtype).type
    value = kind(high)
    return float(value) if int(value) <= high else float(np.nextafter(value, kind(0)))


def bits_dtype(dtype: str) -> str:
    """The unsigned integer type as wide as ``dtype`` in memory."""
    return f"uint{8 * dtypes.itemsize(dtype)}"


def encode(e: ExpressionEmitter, value: Operand, dtype: str, lanes: int) -> Operand:
    """A float32 in a register as the bits of narrow float ``dtype``."""
    if dtype == "float16" and e.target.isa.halves:
        half = Values(e.builder, "float", lanes).convert("fptrunc", value, "half")
        return Values(e.builder, "half", lanes).convert("bitcast", half, "i16")
    return e.helper(f"narrow.encode.{dtype}", Typed(e.builder, "float32", lanes), value, result=bits_dtype(dtype))


def encode_sum(e: ExpressionEmitter, value: str, lanes: int) -> Operand:
    """``encode`` to bfloat16, by one instruction where there is one: it makes subnormal numbers 0."""
    row = e.native("encode", "bfloat16", lanes)
    if row is None:
        return encode(e, value, "bfloat16", lanes)
    narrow = Values(e.builder, "bfloat", lanes)
    half = row.call(narrow, f"<{lanes} x float> {value}")
    return narrow.convert("bitcast", half, "i16")


def decode(e: ExpressionEmitter, bits: Operand, dtype: str, lanes: int) -> Operand:
    """Bits of narrow float ``dtype`` as a float32 in a register."""
    t = Typed(e.builder, bits_dtype(dtype), lanes)
    if dtype == "float16" and e.target.isa.halves:
        return Values(e.builder, "half", lanes).convert("fpext", t.convert("bitcast", bits, "half"), "float")
    return e.helper(f"narrow.decode.{dtype}", t, bits, result="float32")


def to_memory(e: ExpressionEmitter, value: Operand, dtype: str, lanes: int) -> Operand:
    """A register value as it lies in memory (an operand of ``memory_type``)."""
    if dtype in NARROW_FLOATS:
        return encode(e, value, dtype, lanes)
    if not isinstance(value, str):
        return value if value >= 0 or dtypes.itemsize(dtype) * 8 == dtypes.bits(dtype) else int(value) % (1 << dtypes.bits(dtype))
    return Typed(e.builder, dtype, lanes).convert("zext", value, memory_type(dtype))


def from_memory(e: ExpressionEmitter, value: str, dtype: str, lanes: int) -> Operand:
    """What ``to_memory`` wrote, back in a register. A bool is true for every byte but 0."""
    if dtype in NARROW_FLOATS:
        return decode(e, value, dtype, lanes)
    if dtype == "bool":
        return Typed(e.builder, "uint8", lanes).op("icmp ne", value, 0)
    return Values(e.builder, memory_type(dtype), lanes).convert("trunc", value, scalar_type(dtype))
