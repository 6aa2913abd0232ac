"""Real numbers as bytes, rounded and between bounds: what quantized sums end with.

``uint8(min(max(round(x) + z, 0), 255))`` takes one conversion, which rounds, one bound of floats and one of integers, which is in
the instructions that make bytes of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from forge.codegen.llvm import Operand
from forge.tir import expr as tir

if TYPE_CHECKING:
    from forge.codegen.expressions import ExpressionEmitter

# Zero points are less; float32 holds their sums with all bounds.
MAX_ZERO: Final = 255


def to_bytes(e: ExpressionEmitter, x: tir.Cast, number: tir.Expr, low: int, high: int) -> Operand | None:
    """``number``, between whole bounds, as uint8; None where there are no such instructions.

    NaN is 0, as the lower bound must be.
    """
    if x.dtype != "uint8" or low or number.dtype != "float32":
        return None
    rounded = _rounded(number)
    row = e.native("round_to_bytes" if rounded else "truncate_to_bytes", x.dtype, x.lanes)
    inner, zero = rounded or (number, tir.const(0.0, "float32"))
    if row is None or row.emit is None:
        return None
    value, offset = e.value(inner), e.value(zero)
    if not isinstance(value, str):
        return None
    return cast(Operand, row.emit(e, row, value, offset, high))


def _rounded(number: tir.Expr) -> tuple[tir.Expr, tir.Expr] | None:
    """x and z of ``round(x) + z``, if ``number`` is that for a zero point z."""
    zero: tir.Expr = tir.const(0.0, "float32")
    if isinstance(number, tir.Binary) and number.op == "add":
        zero = number.b.x if isinstance(number.b, tir.Broadcast) else number.b
        number = number.a
    if not (isinstance(number, tir.Call) and number.name == "round"):
        return None
    if isinstance(zero, tir.Const):
        is_zero = isinstance(zero.value, float) and zero.value.is_integer() and 0 <= zero.value <= MAX_ZERO
        return (number.args[0], tir.const(zero.value, "float32")) if is_zero else None
    return (number.args[0], zero) if isinstance(zero, tir.Load) and zero.lanes == 1 and zero.buffer.whole else None
