"""Integer, boolean and floating-point arithmetic on operands, with the corner cases that ``tir.expr`` defines."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from forge import dtypes
from forge.codegen.llvm import IRBuilder, Operand, Values, scalar_type, vector_of
from forge.errors import CompileError
from forge.tir.expr import COMPARE_OPS, INTEGER_FOLDS


class Typed(Values):
    """Instructions on vectors (or scalars) of one dtype."""

    def __init__(self, builder: IRBuilder, dtype: str, lanes: int) -> None:
        super().__init__(builder, scalar_type(dtype), lanes)
        self.dtype = dtype

    def of(self, lanes: int) -> Typed:
        """The same on another number of lanes."""
        return Typed(self.builder, self.dtype, lanes)


# --- folding of constants ---


def _truncdiv(a: int, b: int) -> int:
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_FOLDS: dict[str, Callable[[int, int], int]] = {
    **INTEGER_FOLDS, "or": operator.or_, "xor": operator.xor,
    "div": _truncdiv, "truncdiv": _truncdiv, "truncmod": lambda a, b: a - _truncdiv(a, b) * b if b else 0,
}


def fold_integer(op: str, a: int, b: int, dtype: str) -> int:
    """``a op b`` as ``tir.expr`` defines it."""
    if op not in ("shl", "shr"):
        return dtypes.wrap_int(_FOLDS[op](a, b), dtype)
    width = dtypes.bits(dtype)
    inside = 0 <= b < width
    return dtypes.wrap_int(a << (b if inside else width) if op == "shl" else a >> (b if inside else width), dtype)


# --- integers ---


def integer(t: Typed, op: str, a: Operand, b: Operand, nonnegative: bool) -> Operand:
    """``a op b``; ``nonnegative`` promises that neither operand is below zero."""
    if not isinstance(a, str) and not isinstance(b, str):
        return fold_integer(op, int(a), int(b), t.dtype)
    neutral = _neutral(op, a, b)
    if neutral is not None:
        return neutral
    if op in ("add", "sub", "mul", "and", "or", "xor"):
        return t.op(op, a, b)
    if op in ("min", "max"):
        return t.call(("s" if dtypes.is_signed(t.dtype) else "u") + op, a, b)
    if op in ("shl", "shr"):
        return _shift(t, op, a, b)
    return _divide(t, op, a, b, nonnegative or not dtypes.is_signed(t.dtype))


def _neutral(op: str, a: Operand, b: Operand) -> Operand | None:
    if op in ("add", "or", "xor") and a == 0 or op == "mul" and a == 1:
        return b
    if b == 0 and op in ("add", "sub", "or", "xor", "shl", "shr") or b == 1 and op in ("mul", "div", "truncdiv", "floordiv"):
        return a
    if op in ("mul", "and") and (a == 0 or b == 0) or op in ("truncmod", "floormod") and b == 1:
        return 0
    return None


def _shift(t: Typed, op: str, a: Operand, b: Operand) -> Operand:
    width = dtypes.bits(t.dtype)
    signed = op == "shr" and dtypes.is_signed(t.dtype)
    name = "shl" if op == "shl" else ("ashr" if signed else "lshr")
    if not isinstance(b, str):
        inside = 0 <= b < width
        return t.op(name, a, b) if inside else (t.op(name, a, width - 1) if signed else 0)
    inside_mask = t.op("icmp ult", b, width)
    safe = t.select(inside_mask, b, width - 1)
    shifted = t.op(name, a, safe)
    return shifted if signed else t.select(inside_mask, shifted, 0)


def _divide(t: Typed, op: str, a: Operand, b: Operand, unsigned: bool) -> Operand:
    if not isinstance(b, str) and b == 0:
        return 0
    remainder = op.endswith("mod")
    if unsigned:
        return _guarded(t, "urem" if remainder else "udiv", a, b)
    if not isinstance(b, str) and b == -1:
        return 0 if remainder else t.op("sub", 0, a)
    if op.startswith("floor"):
        return _floor_divide(t, a, b, remainder)
    return _guarded_signed(t, "srem" if remainder else "sdiv", a, b)


def _guarded(t: Typed, name: str, a: Operand, b: Operand) -> Operand:
    if not isinstance(b, str):
        return t.op(name, a, b)
    zero = t.op("icmp eq", b, 0)
    return t.select(zero, 0, t.op(name, a, t.select(zero, 1, b)))


def _guarded_signed(t: Typed, name: str, a: Operand, b: Operand) -> Operand:
    if not isinstance(b, str):
        return t.op(name, a, b)
    zero, minus = t.op("icmp eq", b, 0), t.op("icmp eq", b, -1)
    raw = t.op(name, a, t.select(zero, 1, t.select(minus, 1, b)))
    flipped = t.select(minus, 0 if name == "srem" else t.op("sub", 0, a), raw)
    return t.select(zero, 0, flipped)


def _floor_divide(t: Typed, a: Operand, b: Operand, remainder: bool) -> Operand:
    if isinstance(b, int) and b > 0 and b & (b - 1) == 0:
        return t.op("and", a, b - 1) if remainder else t.op("ashr", a, b.bit_length() - 1)
    rest = _guarded_signed(t, "srem", a, b)
    opposite = t.op("icmp slt", t.op("xor", rest, b), 0)
    inexact = t.op("icmp ne", rest, 0)
    adjust = t.builder.pure(f"and {vector_of('i1', t.lanes)} {opposite}, {inexact}")
    if remainder:
        return t.select(adjust, t.op("add", rest, b), rest)
    quotient = _guarded_signed(t, "sdiv", a, b)
    return t.select(adjust, t.op("sub", quotient, 1), quotient)


def compare(t: Typed, op: str, a: Operand, b: Operand) -> Operand:
    """A mask. Any comparison with NaN is false but ``ne``, which is true."""
    if not isinstance(a, str) and not isinstance(b, str):
        return bool(COMPARE_OPS[op](a, b))
    if t.scalar in ("float", "double"):
        return t.op("fcmp " + ("une" if op == "ne" else "o" + op), a, b)
    if op in ("eq", "ne"):
        return t.op(f"icmp {op}", a, b)
    return t.op(f"icmp {'s' if dtypes.is_signed(t.dtype) else 'u'}{op}", a, b)


_LOGIC = {"and": "and", "mul": "and", "min": "and", "or": "or", "add": "or", "max": "or", "xor": "xor", "sub": "xor"}


def logic(t: Typed, op: str, a: Operand, b: Operand) -> Operand:
    """Boolean arithmetic: sums are "or", products "and", differences "xor"."""
    name = _LOGIC.get(op)
    if name is None:
        raise CompileError(f"codegen: {op} of bool operands; expected one of {', '.join(_LOGIC)}")
    if isinstance(a, str):
        a, b = b, a
    if isinstance(a, str):
        return t.op(name, a, b)
    if name == "xor":
        return (t.op("xor", b, True) if a else b) if isinstance(b, str) else bool(a) != bool(b)
    if name == "and":
        return b if a else False
    return True if a else b


# --- floats ---


def floating(t: Typed, op: str, a: Operand, b: Operand, is_rounded: bool = False) -> Operand:
    """add sub mul div min max of float32 or float64; ``is_rounded``: by itself, on targets with fused multiply-adds too."""
    if op in ("min", "max"):
        return _float_extreme(t, op, a, b)
    if op == "div":
        return t.op("fdiv", a, b)
    return t.op(f"f{op}" if is_rounded else f"f{op} contract", a, b)


def _float_extreme(t: Typed, op: str, a: Operand, b: Operand) -> Operand:
    """NaN where either side is; one machine instruction when a side is a constant.

    A NaN of ``a`` comes through the comparison, one of ``b`` by the selection: a chain of steps ``a = max(a, b)`` waits for one
    instruction and a move. The fence keeps LLVM from joining the two conditions, which makes it four that wait.
    """
    predicate = "fcmp ogt" if op == "max" else "fcmp olt"
    if not isinstance(b, str):
        a, b = b, a
    if not isinstance(a, str):
        if math.isnan(a):
            return math.nan
        return t.select(t.op(predicate, a, b), a, b)
    larger = t.call("arithmetic.fence", t.select(t.op(predicate, b, a), b, a))
    return t.select(t.op("fcmp uno", b, 0.0), b, larger)
