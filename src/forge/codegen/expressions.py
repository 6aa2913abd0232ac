"""Expressions of the loop IR as LLVM instructions.

Constants are folded on the way: a variable bound to a number (a loop that is unrolled) leaves no instruction behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from forge import dtypes
from forge.codegen import arithmetic, conversions, intrinsics, memory, quantization
from forge.codegen.arithmetic import Typed
from forge.codegen.llvm import NARROW_FLOATS, IRBuilder, Operand, register_dtype, register_type
from forge.errors import CompileError
from forge.target import Target
from forge.tir import expr as tir

if TYPE_CHECKING:
    from forge.codegen.isa import Row
    from forge.codegen.module import ModuleEmitter


class ExpressionEmitter:
    """Values of expressions at one point of one LLVM function.

    Attributes:
        env: what variables are bound to.
        pointers: where buffers are.
        nonnegative_vars: variables that are never below zero.
    """

    def __init__(self, module: ModuleEmitter, builder: IRBuilder) -> None:
        self.module = module
        self.builder = builder
        self.env: dict[tir.Var, Operand] = {}
        self.pointers: dict[tir.Buffer, str] = {}
        self.nonnegative_vars: set[tir.Var] = set()
        self._memo: dict[tir.Expr, Operand] = {}
        self._affine_memo: dict[tir.Expr, tuple[Operand | None, int]] = {}

    @property
    def target(self) -> Target:
        return self.module.target

    def native(self, operation: str, dtype: str = "", lanes: int = 0) -> Row | None:
        """The target's own instruction for ``operation``; None where the general form applies."""
        return self.module.instructions.find(operation, dtype, lanes)

    def forget(self) -> None:
        """Drops remembered values: memory, the block or a binding has changed."""
        self._memo.clear()
        self._affine_memo.clear()

    def value(self, x: tir.Expr) -> Operand:
        """The operand that holds ``x``, of the register type of its dtype and lanes."""
        if isinstance(x, tir.Const):
            return _constant(x)
        known = self._memo.get(x)
        if known is None:
            rule = _RULES.get(type(x))
            if rule is None:
                raise CompileError(f"codegen: no machine code for expression {type(x).__name__}; "
                                   "expected a lowered loop function")
            known = self._memo[x] = rule(self, x)
        return known

    def typed(self, x: tir.Expr) -> Typed:
        return Typed(self.builder, register_dtype(x.dtype), x.lanes)

    def text(self, x: tir.Expr) -> str:
        """``x`` as an operand with its type."""
        return self.typed(x).typed(self.value(x))

    def helper(self, name: str, t: Typed, *args: Operand, result: str = "") -> Operand:
        """Calls a function that codegen itself writes (``module.HELPERS``); it gives dtype ``result``, else that of ``t``."""
        result = result or t.dtype
        symbol = self.module.helper(name, len(args), t.dtype, result, t.lanes)
        return self.builder.pure(f"call {register_type(result, t.lanes)} {symbol}({', '.join(map(t.typed, args))})")

    def affine(self, index: tir.Expr) -> tuple[Operand | None, int]:
        """``index`` (an integer scalar) as a value plus a constant; the value None is zero."""
        known = self._affine_memo.get(index)
        if known is None:
            known = self._affine_memo[index] = self._split(index)
        return known

    def _split(self, index: tir.Expr) -> tuple[Operand | None, int]:
        if isinstance(index, tir.Binary) and index.op in ("add", "sub", "mul") and index.dtype == tir.INDEX:
            return self._split_binary(index)
        value = self.value(index)
        if not isinstance(value, str):
            return None, int(value)
        return conversions.convert(self, value, index.dtype, tir.INDEX, 1), 0

    def _split_binary(self, x: tir.Binary) -> tuple[Operand | None, int]:
        (a, a_constant), (b, b_constant) = self.affine(x.a), self.affine(x.b)
        t = Typed(self.builder, tir.INDEX, 1)
        if x.op == "mul":
            if a is None:
                a, a_constant, b, b_constant = b, b_constant, a, a_constant
            if b is not None:
                return self.value(x), 0
            scaled = None if a is None or b_constant == 0 else arithmetic.integer(t, "mul", a, b_constant, False)
            return scaled, a_constant * b_constant
        constant = a_constant + b_constant if x.op == "add" else a_constant - b_constant
        if b is None:
            return a, constant
        return arithmetic.integer(t, x.op, 0 if a is None else a, b, False), constant

    def nonnegative(self, x: tir.Expr) -> bool:
        """Whether ``x`` is certainly not below zero (index arithmetic is taken not to overflow)."""
        return self._least(x) >= 0

    def _least(self, x: tir.Expr) -> float:
        """What ``x`` is certainly not below; minus infinity where nothing plain is known."""
        match x:
            case tir.Const(value=value):
                return -math.inf if isinstance(value, complex) or value != value else value
            case tir.Var():
                bound = self.env.get(x)
                return bound if isinstance(bound, int) else 0 if x in self.nonnegative_vars else -math.inf
            case tir.Binary(op="add" | "sub" | "mul" | "min", a=a, b=b) if x.dtype == tir.INDEX:
                return _least_of(x.op, self._least(a), self._least(b), b)
            case tir.Binary(op="floordiv" | "truncdiv", a=a, b=b) if x.dtype == tir.INDEX:
                return 0 if self.divides_plainly(a, b) else -math.inf
            case tir.Binary(op="max", a=a, b=b):
                return max(self._least(a), self._least(b))
            case tir.Binary(op="floormod", b=b) | tir.Broadcast(x=b):
                return 0 if self.nonnegative(b) else -math.inf
            case tir.Ramp(base=base, stride=stride):
                return 0 if self.nonnegative(base) and self.nonnegative(stride) else -math.inf
        return 0 if dtypes.is_unsigned(x.dtype) else -math.inf

    def divides_plainly(self, a: tir.Expr, b: tir.Expr) -> bool:
        """Whether neither ``a`` nor ``b`` is below zero; or ``a`` only where ``b`` is 0, by which nothing is divided."""
        match a:
            case (tir.Binary(op="add", a=rounded, b=tir.Binary(op="sub", a=size, b=tir.Const(value=1)))
                  | tir.Binary(op="sub", a=tir.Binary(op="add", a=rounded, b=size), b=tir.Const(value=1))) if size is b:
                return self.nonnegative(rounded) and self.nonnegative(b)
        return self.nonnegative(a) and self.nonnegative(b)


def _least_of(op: str, a: float, b: float, right: tir.Expr) -> float:
    """The least result of operands that are not below ``a`` and ``b``; ``right`` is the second."""
    if op == "min":
        return min(a, b)
    if op == "add":
        return a + b
    if isinstance(right, tir.Const):
        return a - b if op == "sub" else a * b if b > 0 else 0 if b == 0 else -math.inf
    return a * b if op == "mul" and min(a, b) >= 0 else -math.inf


def _constant(x: tir.Const) -> Operand:
    if isinstance(x.value, complex):
        raise CompileError("codegen: complex constants have no machine type; split them into real and imaginary parts")
    return conversions.fold(x.value, x.dtype) if x.dtype in NARROW_FLOATS else x.value


def _var(e: ExpressionEmitter, x: tir.Var) -> Operand:
    try:
        return e.env[x]
    except KeyError:
        raise CompileError(f"codegen: variable {x.name!r} is not bound here; expected a loop, a Let or a parameter") from None


def _binary(e: ExpressionEmitter, x: tir.Binary) -> Operand:
    a, b = e.value(x.a), e.value(x.b)
    t = e.typed(x)
    if x.dtype == "bool":
        return arithmetic.logic(t, x.op, a, b)
    if dtypes.is_integer(x.dtype):
        signed_division = x.op in _DIVISIONS and dtypes.is_signed(x.dtype)
        return arithmetic.integer(t, x.op, a, b, signed_division and e.divides_plainly(x.a, x.b))
    if x.op in ("add", "sub", "mul", "div", "min", "max"):
        whole = x.op == "mul" and any(isinstance(f, tir.Cast) and dtypes.is_integer(f.x.dtype) for f in (x.a, x.b))
        return arithmetic.floating(t, x.op, a, b, is_rounded=whole)
    if x.op not in _DIVISIONS:
        raise CompileError(f"codegen: {x.op} of {x.dtype} operands; expected integers")
    return e.helper(f"float.{x.op}", t, a, b)


_DIVISIONS = frozenset({"truncdiv", "truncmod", "floordiv", "floormod"})


def _compare(e: ExpressionEmitter, x: tir.Compare) -> Operand:
    return arithmetic.compare(e.typed(x.a), x.op, e.value(x.a), e.value(x.b))


def _select(e: ExpressionEmitter, x: tir.Select) -> Operand:
    condition = e.value(x.condition)
    if not isinstance(condition, str):
        return e.value(x.a if condition else x.b)
    a, b = e.value(x.a), e.value(x.b)
    return a if _same(a, b) else e.typed(x).select(condition, a, b)


def _same(a: Operand, b: Operand) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
    return a == b


def _cast(e: ExpressionEmitter, x: tir.Cast) -> Operand:
    """Numbers that are clipped to what an integer holds are not clipped again.

    Whole ones that become an integer and a float again stay what they are; NaN is 0.
    """
    whole = x.x if isinstance(x.x, tir.Cast) else x
    clip = _clipped(whole.x, whole.dtype)
    if clip is not None and whole is x and (byte := quantization.to_bytes(e, x, *clip)) is not None:
        return byte
    value = None if clip is None else e.value(clip[0])
    if clip is not None and isinstance(value, str):
        number, low, high = clip
        if whole is x:
            return conversions.float_to_integer(e.typed(number), value, x.dtype, low, high)
        if low == 0 and x.dtype == number.dtype and _is_whole(number):
            return conversions.clamped(e.typed(number), value, low, high)
    return conversions.convert(e, e.value(x.x), x.x.dtype, x.dtype, x.lanes)


def _clipped(x: tir.Expr, dtype: str) -> tuple[tir.Expr, int, int] | None:
    """What ``x`` clips, and the bounds, if they are whole numbers that integers of ``dtype`` hold."""
    if not (dtypes.is_integer(dtype) and x.dtype in ("float32", "float64") and isinstance(x, tir.Binary)
            and isinstance(x.a, tir.Binary) and {x.op, x.a.op} == {"min", "max"}):
        return None
    bounds = {one.op: one.b.value for one in (x, x.a) if isinstance(one.b, tir.Const) and isinstance(one.b.value, float)}
    (least, most), low, high = dtypes.integer_range(dtype), bounds.get("max", math.nan), bounds.get("min", math.nan)
    if not (least <= low <= high <= most and low.is_integer() and high.is_integer()):
        return None
    return x.a.a, int(low), int(high)


def _is_whole(x: tir.Expr) -> bool:
    """Whether the floating-point value of ``x`` is a whole number, infinite or NaN."""
    if isinstance(x, tir.Binary):
        return x.op in ("add", "sub", "mul") and _is_whole(x.a) and _is_whole(x.b)
    if isinstance(x, tir.Const):
        return isinstance(x.value, float) and x.value.is_integer()
    return isinstance(x, tir.Call) and x.name in ("round", "floor", "ceil", "trunc")


def _broadcast(e: ExpressionEmitter, x: tir.Broadcast) -> Operand:
    return _splat(e.typed(x), e.value(x.x))


def _splat(t: Typed, value: Operand) -> Operand:
    """A scalar operand in all lanes."""
    if not isinstance(value, str) or t.lanes == 1:
        return value
    first = t.insert("poison", value, 0)
    return t.builder.pure(f"shufflevector {t.type} {first}, {t.type} poison, <{t.lanes} x i32> zeroinitializer")


def _ramp(e: ExpressionEmitter, x: tir.Ramp) -> Operand:
    t = e.typed(x)
    base, stride = (_splat(t, e.value(part)) for part in (x.base, x.stride))
    if not isinstance(stride, str):
        steps = "<" + ", ".join(f"{t.scalar} {dtypes.wrap_int(i * int(stride), x.dtype)}" for i in range(x.lanes)) + ">"
    else:
        counts = "<" + ", ".join(f"{t.scalar} {i}" for i in range(x.lanes)) + ">"
        steps = t.op("mul", stride, counts)
    return t.op("add", base, steps)


_RULES: dict[type[tir.Expr], Callable[[ExpressionEmitter, Any], Operand]] = {
    tir.Var: _var, tir.Binary: _binary, tir.Compare: _compare, tir.Select: _select, tir.Cast: _cast,
    tir.Broadcast: _broadcast, tir.Ramp: _ramp, tir.Load: memory.load, tir.Call: intrinsics.emit,
}
