"""Intrinsics of the loop IR: a native instruction, one of LLVM's, or a helper written in loop IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from forge import dtypes
from forge.codegen import arithmetic, conversions, memory
from forge.codegen.arithmetic import Typed
from forge.codegen.llvm import Operand, Values, memory_type, vector_of
from forge.errors import CompileError
from forge.tir import expr as tir
from forge.tir import floats

if TYPE_CHECKING:
    from forge.codegen.expressions import ExpressionEmitter

_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven"}
"""LLVM's intrinsics, an instruction each where an instruction set rounds."""


def emit(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """The value of an intrinsic."""
    rule = _RULES.get(x.name)
    if rule is not None:
        return rule(e, x)
    t = e.typed(x)
    if t.dtype not in ("float32", "float64"):
        raise CompileError(f"codegen: {x.name} of {x.dtype}; expected a float type")
    short = x.dtype == "bfloat16" and x.name in tir.BFLOAT16_INTRINSICS
    return e.helper(f"{'bfloat16' if short else 'float'}.{x.name}", t, *map(e.value, x.args))


def _fma(e: ExpressionEmitter, x: tir.Call) -> Operand:
    a, b, c = (e.value(arg) for arg in x.args)
    t = e.typed(x)
    if not dtypes.is_float(x.dtype):
        return arithmetic.integer(t, "add", arithmetic.integer(t, "mul", a, b, False), c, False)
    return t.call("fma" if e.target.isa.fused_multiply_add else "fmuladd", a, b, c)


def _abs(e: ExpressionEmitter, x: tir.Call) -> Operand:
    value, t = e.value(x.args[0]), e.typed(x)
    if dtypes.is_float(x.dtype):
        return t.call("fabs", value)
    return t.call("abs", value, flags=["i1 false"]) if dtypes.is_signed(x.dtype) else value


def _round(e: ExpressionEmitter, x: tir.Call) -> Operand:
    value, t = e.value(x.args[0]), e.typed(x)
    if not dtypes.is_float(x.dtype):
        return value
    if e.target.isa.rounding:
        return t.call(_ROUNDING[x.name], value)
    return e.helper(f"float.{x.name}", t, value)


_UNARY = {"sqrt": ("sqrt",), "popcount": ("ctpop",), "clz": ("ctlz", "i1 false")}
"""LLVM's names of intrinsics on one argument, and flags that they want."""


def _unary(e: ExpressionEmitter, x: tir.Call) -> Operand:
    name, *flags = _UNARY[x.name]
    return e.typed(x).call(name, e.value(x.args[0]), flags=flags)


def _rsqrt(e: ExpressionEmitter, x: tir.Call) -> Operand:
    t = e.typed(x)
    return t.op("fdiv", 1.0, t.call("sqrt", e.value(x.args[0])))


def _isnan(e: ExpressionEmitter, x: tir.Call) -> Operand:
    arg = x.args[0]
    return e.typed(arg).op("fcmp uno", e.value(arg), 0.0) if dtypes.is_float(arg.dtype) else False


def _isinf(e: ExpressionEmitter, x: tir.Call) -> Operand:
    arg = x.args[0]
    if not dtypes.is_float(arg.dtype):
        return False
    t = e.typed(arg)
    return t.op("fcmp oeq", t.call("fabs", e.value(arg)), float("inf"))


_FOLDS: dict[str, str] = {
    "reduce_add": "add", "reduce_mul": "mul", "reduce_max": "max", "reduce_min": "min", "reduce_and": "and", "reduce_or": "or",
}


def _reduce(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """Halves the vector until one lane is left (an odd lane joins at the end): the same order on every CPU."""
    t, value = e.typed(x.args[0]), e.value(x.args[0])
    rest: list[Operand] = []
    while t.lanes > 1:
        if t.lanes % 2:
            rest.append(t.extract(value, t.lanes - 1))
        half = t.of(t.lanes // 2)
        low, high = (t.slice(value, start, half.lanes) for start in (0, half.lanes))
        value, t = _combine(half, _FOLDS[x.name], low, high), half
    for odd in rest:
        value = _combine(t, _FOLDS[x.name], value, odd)
    return value


def _combine(t: Typed, op: str, a: Operand, b: Operand) -> Operand:
    if t.dtype == "bool":
        return arithmetic.logic(t, op, a, b)
    return arithmetic.floating(t, op, a, b) if dtypes.is_float(t.dtype) else arithmetic.integer(t, op, a, b, False)


def _constant_int(e: ExpressionEmitter, x: tir.Expr, name: str) -> int:
    value = e.value(x)
    if isinstance(value, str):
        raise CompileError(f"codegen: {name} with a lane number known only at run time; expected a constant")
    return int(value)


def _lane(e: ExpressionEmitter, x: tir.Call) -> Operand:
    vector, lane = x.args
    return e.typed(vector).extract(e.value(vector), _constant_int(e, lane, "lane"))


def _shuffle(e: ExpressionEmitter, x: tir.Call) -> Operand:
    a, b, *order = x.args
    numbers = [_constant_int(e, number, "shuffle") for number in order]
    t = e.typed(a)
    if len(numbers) == 1:
        source, lane = (a, numbers[0]) if numbers[0] < a.lanes else (b, numbers[0] - a.lanes)
        return t.extract(e.value(source), lane)
    values = [e.value(a), e.value(b)]
    if a.lanes == 1:
        values = [t.insert("poison", value, 0) for value in values]
    row = e.native("shuffle", f"int{8 * dtypes.itemsize(a.dtype)}", a.lanes)
    if row is not None and row.emit is not None and a is b and len(numbers) == a.lanes and isinstance(values[0], str):
        return cast(Operand, row.emit(e, row, values[0], numbers))
    return t.shuffle(values[0], values[1], numbers)


def _reinterpret(e: ExpressionEmitter, x: tir.Call) -> Operand:
    source = x.args[0]
    if dtypes.itemsize(source.dtype) * source.lanes != dtypes.itemsize(x.dtype) * x.lanes:
        raise CompileError(f"codegen: reinterpret of {source.lanes} {source.dtype} as {x.lanes} {x.dtype}; expected equal sizes")
    value = memory.bits_of(e, source)
    operand = Values(e.builder, memory_type(source.dtype), source.lanes).typed(value)
    bits = e.builder.pure(f"bitcast {operand} to {vector_of(memory_type(x.dtype), x.lanes)}")
    return conversions.from_memory(e, bits, x.dtype, x.lanes)


def _dot_u8s8(e: ExpressionEmitter, x: tir.Call) -> Operand:
    accumulator, a, b = (e.value(arg) for arg in x.args)
    lanes, t, quarters = x.lanes, e.typed(x), e.typed(x.args[1])
    row = e.native("dot_u8s8", "int32", lanes)
    if row is not None:
        return row.call(t, t.typed(accumulator), quarters.typed(a), quarters.typed(b))
    words = [e.builder.pure(f"bitcast {quarters.typed(v)} to <{2 * lanes} x i16>") for v in (a, b)]
    w = Typed(e.builder, "int16", 2 * lanes)
    even = _pair_products(e, w, w.op("and", words[0], 255), w.op("ashr", w.op("shl", words[1], 8), 8))
    odd = _pair_products(e, w, w.op("lshr", words[0], 8), w.op("ashr", words[1], 8))
    return t.op("add", accumulator, t.op("add", even, odd))


def _dot_s16(e: ExpressionEmitter, x: tir.Call) -> Operand:
    accumulator, a, b = (e.value(arg) for arg in x.args)
    return e.typed(x).op("add", accumulator, _pair_products(e, e.typed(x.args[1]), a, b))


def _dot_u7s8(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """Sums of two products of numbers below 128 and of 8 bits fit into 16 bits."""
    row = e.native("dot_u7s8_pairs", "int16", 2 * x.lanes)
    if row is None or e.native("dot_u8s8", "int32", x.lanes) is not None:
        return _dot_u8s8(e, x)
    accumulator, a, b = (e.value(arg) for arg in x.args)
    quarters, words, t = e.typed(x.args[1]), Typed(e.builder, "int16", 2 * x.lanes), e.typed(x)
    pairs = row.call(words, quarters.typed(a), quarters.typed(b))
    return t.op("add", accumulator, _pair_products(e, words, pairs, 1))


def _pair_products(e: ExpressionEmitter, w: Typed, a: Operand, b: Operand) -> Operand:
    """``a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1]`` of 16-bit integers, in 32 bits, exactly."""
    lanes = w.lanes // 2
    row, widest = e.native("pair_products", "int32", lanes), e.module.instructions.widest("pair_products", "int32")
    t = Typed(e.builder, "int32", lanes)
    if row is not None:
        return row.call(t, w.typed(a), w.typed(b))
    if 0 < widest < lanes and lanes % 2 == 0:
        low, high = (_pair_products(e, w.of(lanes), w.slice(a, start, lanes), w.slice(b, start, lanes)) for start in (0, lanes))
        return t.of(lanes // 2).shuffle(low, high, range(lanes))
    products = t.of(2 * lanes)
    product = products.op("mul", *(conversions.convert(e, v, "int16", "int32", 2 * lanes) for v in (a, b)))
    if lanes == 1:
        return t.op("add", *(products.extract(product, k) for k in (0, 1)))
    return t.op("add", *(products.shuffle(product, product, range(k, 2 * lanes, 2)) for k in (0, 1)))


def _dot_bf16(e: ExpressionEmitter, x: tir.Call) -> Operand:
    accumulator, a, b = x.args
    lanes, t = x.lanes, e.typed(x)
    row = e.native("dot_bf16", "float32", lanes)
    if row is None:
        (a_low, a_high), (b_low, b_high) = _bfloat16_halves(a), _bfloat16_halves(b)
        return e.value(tir.call("fma", a_high, b_high, tir.call("fma", a_low, b_low, accumulator)))
    pairs = f"<{2 * lanes} x bfloat>"
    factors = [f"{pairs} " + e.builder.pure(f"bitcast {e.text(v)} to {pairs}") for v in (a, b)]
    return row.call(t, e.text(accumulator), *factors)


def _bfloat16_halves(pairs: tir.Expr) -> tuple[tir.Expr, tir.Expr]:
    """Lower and upper numbers of pairs of bfloat16, as float32."""
    low, high = tir.binary("shl", pairs, 16), pairs & 0xFFFF0000
    return tir.call("reinterpret", low, dtype="float32"), tir.call("reinterpret", high, dtype="float32")


def _scale(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """``floats.scale``, which only helpers call."""
    value, t = x.args
    row = e.native("scale", x.dtype, x.lanes)
    if row is None:
        return e.value(floats.scale_in_steps(value, t))
    return row.call(e.typed(x), *(e.text(part) for part in (value, floats.unshifted(t))))


def _near_reciprocal(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """1 / x, which may be 2^-14 of it away where an instruction is so; only helpers of short formats call it."""
    return _near_reciprocal_of(e, e.typed(x), e.value(x.args[0]))


def _near_reciprocal_of(e: ExpressionEmitter, t: Typed, value: Operand) -> Operand:
    row, widest = e.native("near_reciprocal", t.dtype, t.lanes), e.module.instructions.widest("near_reciprocal", t.dtype)
    if 0 < widest < t.lanes and t.lanes % 2 == 0:
        half = t.of(t.lanes // 2)
        low, high = (_near_reciprocal_of(e, half, t.slice(value, start, half.lanes)) for start in (0, half.lanes))
        return half.shuffle(low, high, range(t.lanes))
    return t.op("fdiv", 1.0, value) if row is None else row.call(t, t.typed(value))


def _product_error(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """a * b - round(a * b), exactly; only helpers call it. Without fma by Dekker's splitting of both factors."""
    a, b = x.args
    if e.target.isa.fused_multiply_add:
        return e.value(tir.call("fma", a, b, -(a * b)))
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return e.value(((a_high * b_high - a * b) + a_high * b_low + a_low * b_high) + a_low * b_low)


def _residual(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """c - a * b where that is exact but for the last bit; only helpers call it."""
    a, b, c = x.args
    if e.target.isa.fused_multiply_add:
        return e.value(tir.call("fma", -a, b, c))
    return e.value((c - a * b) - tir.call("product_error", a, b))


def _pow(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """Constant exponents that a multiplication or square root gives exactly need no logarithm."""
    base, exponent = x.args
    value = e.value(exponent)
    t = e.typed(x)
    if isinstance(value, str) or value not in _SIMPLE_POWERS:
        return e.helper("float.pow", t, e.value(base), value)
    return e.value(_SIMPLE_POWERS[value](base))


def _power_half(x: tir.Expr) -> tir.Expr:
    """Unlike a square root, 0 for -0 and infinity for -infinity."""
    infinity = tir.const(float("inf"), x.dtype, x.lanes)
    return tir.select(x.eq(-float("inf")), infinity, tir.call("sqrt", x) + 0.0)


_SIMPLE_POWERS: dict[Operand, Callable[[tir.Expr], tir.Expr]] = {
    0.0: lambda x: tir.const(1.0, x.dtype, x.lanes), 1.0: lambda x: x, 2.0: lambda x: x * x, 3.0: lambda x: x * x * x,
    4.0: lambda x: (x * x) * (x * x), -1.0: lambda x: 1.0 / x, 0.5: _power_half,
}


def _halves(x: tir.Expr) -> tuple[tir.Expr, tir.Expr]:
    """``x`` as a sum of two numbers with half its bits: the upper bits, and the rest."""
    f = floats.format_of(x)
    upper = floats.from_bits(floats.bits_of(x) & -(1 << (f.mantissa // 2 + 1)), x.dtype)
    return upper, x - upper


_RULES: dict[str, Callable[[ExpressionEmitter, tir.Call], Operand]] = {
    "fma": _fma, "abs": _abs, "rsqrt": _rsqrt, "isnan": _isnan, "isinf": _isinf,
    "lane": _lane, "shuffle": _shuffle, "reinterpret": _reinterpret,
    "dot_u8s8": _dot_u8s8, "dot_u7s8": _dot_u7s8, "dot_s16": _dot_s16, "dot_bf16": _dot_bf16,
    "unrounded": lambda e, x: e.value(x.args[0]), "scale": _scale,
    "product_error": _product_error, "near_reciprocal": _near_reciprocal, "residual": _residual, "pow": _pow,
    **dict.fromkeys(_UNARY, _unary), **dict.fromkeys(_ROUNDING, _round), **dict.fromkeys(_FOLDS, _reduce),
}
