"""Intrinsics of the loop IR: LLVM's own where every x86-64 level has an instruction, else a helper written in loop IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from forge import dtypes
from forge.codegen import arithmetic, conversions, memory
from forge.codegen.arithmetic import Typed
from forge.codegen.llvm import Operand, memory_type, register_dtype, register_type, scalar_type, text, vector_of
from forge.errors import CompileError
from forge.tir import expr as tir
from forge.tir import floats

if TYPE_CHECKING:
    from forge.codegen.expressions import ExpressionEmitter

_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven"}
"""LLVM's intrinsics, an instruction each from SSE4.1 on."""


def emit(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """The value of an intrinsic."""
    rule = _RULES.get(x.name)
    if rule is not None:
        return rule(e, x)
    dtype = register_dtype(x.dtype)
    if dtype not in ("float32", "float64"):
        raise CompileError(f"codegen: {x.name} of {x.dtype}; expected a float type")
    args = tuple(e.value(a) for a in x.args)
    short = x.dtype == "bfloat16" and x.name in tir.BFLOAT16_INTRINSICS
    return e.helper(f"{'bfloat16' if short else 'float'}.{x.name}", args, (dtype,) * len(args), dtype, x.lanes)


def _fma(e: ExpressionEmitter, x: tir.Call) -> Operand:
    a, b, c = (e.value(arg) for arg in x.args)
    t = e.typed(x)
    if not dtypes.is_float(x.dtype):
        return arithmetic.integer(t, "add", arithmetic.integer(t, "mul", a, b, False), c, False)
    return t.call("fma" if e.target.has("fma") else "fmuladd", a, b, c)


def _abs(e: ExpressionEmitter, x: tir.Call) -> Operand:
    value, t = e.value(x.args[0]), e.typed(x)
    if dtypes.is_float(x.dtype):
        return t.call("fabs", value)
    return t.call("abs", value, extra=", i1 false") if dtypes.is_signed(x.dtype) else value


def _round(e: ExpressionEmitter, x: tir.Call) -> Operand:
    value, t = e.value(x.args[0]), e.typed(x)
    if not dtypes.is_float(x.dtype):
        return value
    if e.target.has("sse4.1"):
        return t.call(_ROUNDING[x.name], value)
    return e.helper(f"float.{x.name}", (value,), (t.dtype,), t.dtype, x.lanes)


def _sqrt(e: ExpressionEmitter, x: tir.Call) -> Operand:
    return e.typed(x).call("sqrt", e.value(x.args[0]))


def _rsqrt(e: ExpressionEmitter, x: tir.Call) -> Operand:
    return e.typed(x).op("fdiv", 1.0, _sqrt(e, x))


def _isnan(e: ExpressionEmitter, x: tir.Call) -> Operand:
    arg = x.args[0]
    return e.typed(arg).compare("fcmp uno", e.value(arg), 0.0) if dtypes.is_float(arg.dtype) else False


def _isinf(e: ExpressionEmitter, x: tir.Call) -> Operand:
    arg = x.args[0]
    if not dtypes.is_float(arg.dtype):
        return False
    t = e.typed(arg)
    return t.compare("fcmp oeq", t.call("fabs", e.value(arg)), float("inf"))


def _popcount(e: ExpressionEmitter, x: tir.Call) -> Operand:
    return e.typed(x).call("ctpop", e.value(x.args[0]))


def _clz(e: ExpressionEmitter, x: tir.Call) -> Operand:
    return e.typed(x).call("ctlz", e.value(x.args[0]), extra=", i1 false")


_FOLDS: dict[str, str] = {
    "reduce_add": "add", "reduce_mul": "mul", "reduce_max": "max", "reduce_min": "min", "reduce_and": "and", "reduce_or": "or",
}


def _reduce(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """Halves the vector until one lane is left (an odd lane joins at the end): the same order on every CPU."""
    vector = x.args[0]
    value, lanes = e.value(vector), vector.lanes
    rest: list[Operand] = []
    while lanes > 1:
        if lanes % 2:
            rest.append(_extract(e, value, x.dtype, lanes, lanes - 1))
        half = lanes // 2
        low, high = (_slice(e, value, x.dtype, lanes, start, half) for start in (0, half))
        value, lanes = _combine(e, _FOLDS[x.name], x.dtype, half, low, high), half
    for odd in rest:
        value = _combine(e, _FOLDS[x.name], x.dtype, 1, value, odd)
    return value


def _combine(e: ExpressionEmitter, op: str, dtype: str, lanes: int, a: Operand, b: Operand) -> Operand:
    t = Typed(e.builder, register_dtype(dtype), lanes)
    if dtype == "bool":
        return arithmetic.logic(t, op, a, b)
    return arithmetic.floating(t, op, a, b) if dtypes.is_float(dtype) else arithmetic.integer(t, op, a, b, False)


def _slice(e: ExpressionEmitter, value: Operand, dtype: str, lanes: int, start: int, count: int) -> Operand:
    if not isinstance(value, str):
        return value
    if count == 1:
        return _extract(e, value, dtype, lanes, start)
    return _shuffled(e, value, value, dtype, lanes, range(start, start + count))


def _extract(e: ExpressionEmitter, value: Operand, dtype: str, lanes: int, lane: int) -> Operand:
    if not isinstance(value, str) or lanes == 1:
        return value
    return e.builder.pure(f"extractelement {register_type(dtype, lanes)} {value}, i64 {lane}")


def _shuffled(e: ExpressionEmitter, a: Operand, b: Operand, dtype: str, lanes: int, order: range | list[int]) -> str:
    t = Typed(e.builder, dtype, lanes)
    numbers = ", ".join(f"i32 {i}" for i in order)
    return e.builder.pure(f"shufflevector {t.type} {t.text(a)}, {t.type} {t.text(b)}, <{len(order)} x i32> <{numbers}>")


def _constant_int(e: ExpressionEmitter, x: tir.Expr, name: str) -> int:
    value = e.value(x)
    if isinstance(value, str):
        raise CompileError(f"codegen: {name} with a lane number known only at run time; expected a constant")
    return int(value)


def _lane(e: ExpressionEmitter, x: tir.Call) -> Operand:
    vector, lane = x.args
    return _extract(e, e.value(vector), x.dtype, vector.lanes, _constant_int(e, lane, "lane"))


def _shuffle(e: ExpressionEmitter, x: tir.Call) -> Operand:
    a, b, *order = x.args
    numbers = [_constant_int(e, number, "shuffle") for number in order]
    if len(numbers) == 1:
        source, lane = (a, numbers[0]) if numbers[0] < a.lanes else (b, numbers[0] - a.lanes)
        return _extract(e, e.value(source), x.dtype, a.lanes, lane)
    values = [e.value(a), e.value(b)]
    if a.lanes == 1:
        values = [_one_lane(e, value, x.dtype) for value in values]
        vector = f"<1 x {scalar_type(x.dtype)}>"
        picked = ", ".join(f"i32 {i}" for i in numbers)
        return e.builder.pure(f"shufflevector {vector} {values[0]}, {vector} {values[1]}, <{len(numbers)} x i32> <{picked}>")
    return _shuffled(e, values[0], values[1], x.dtype, a.lanes, numbers)


def _one_lane(e: ExpressionEmitter, value: Operand, dtype: str) -> str:
    scalar = scalar_type(dtype)
    return e.builder.pure(f"insertelement <1 x {scalar}> poison, {scalar} {text(value, scalar)}, i64 0")


def _reinterpret(e: ExpressionEmitter, x: tir.Call) -> Operand:
    source = x.args[0]
    if dtypes.itemsize(source.dtype) * source.lanes != dtypes.itemsize(x.dtype) * x.lanes:
        raise CompileError(f"codegen: reinterpret of {source.lanes} {source.dtype} as {x.lanes} {x.dtype}; expected equal sizes")
    value = memory.bits_of(e, source)
    from_type, to_type = vector_of(memory_type(source.dtype), source.lanes), vector_of(memory_type(x.dtype), x.lanes)
    operand = text(value, memory_type(source.dtype), source.lanes)
    bits = e.builder.pure(f"bitcast {from_type} {operand} to {to_type}")
    return conversions.from_memory(e, bits, x.dtype, x.lanes)


def _dot_u8s8(e: ExpressionEmitter, x: tir.Call) -> Operand:
    accumulator, a, b = (e.value(arg) for arg in x.args)
    lanes, t = x.lanes, e.typed(x)
    if _has_dot_instruction(e, lanes):
        bytes_ = f"<{4 * lanes} x i8>"
        args = f"{t.type} {t.text(accumulator)}, {bytes_} {text(a, 'i8', 4 * lanes)}, {bytes_} {text(b, 'i8', 4 * lanes)}"
        return e.builder.pure(f"call {t.type} @llvm.x86.avx512.vpdpbusd.{32 * lanes}({args})")
    words = [e.builder.pure(f"bitcast <{4 * lanes} x i8> {text(v, 'i8', 4 * lanes)} to <{2 * lanes} x i16>") for v in (a, b)]
    w = Typed(e.builder, "int16", 2 * lanes)
    even = _pair_products(e, w.op("and", words[0], 255), w.op("ashr", w.op("shl", words[1], 8), 8), lanes)
    odd = _pair_products(e, w.op("lshr", words[0], 8), w.op("ashr", words[1], 8), lanes)
    return t.op("add", accumulator, t.op("add", even, odd))


_PAIR_PRODUCTS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}


def _pair_products(e: ExpressionEmitter, a: Operand, b: Operand, lanes: int) -> Operand:
    """``a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1]`` of 16-bit integers, in 32 bits, exactly."""
    widest = 16 if e.target.has("avx512bw") else 8 if e.target.has("avx2") else 4
    if lanes in _PAIR_PRODUCTS and lanes <= widest:
        w = Typed(e.builder, "int16", 2 * lanes)
        args = f"{w.type} {w.text(a)}, {w.type} {w.text(b)}"
        return e.builder.pure(f"call <{lanes} x i32> @llvm.x86.{_PAIR_PRODUCTS[lanes]}({args})")
    if lanes > widest and lanes % 2 == 0:
        half = lanes // 2
        low, high = (_pair_products(e, _slice(e, a, "int16", 2 * lanes, start, lanes),
                                    _slice(e, b, "int16", 2 * lanes, start, lanes), half) for start in (0, lanes))
        return _shuffled(e, low, high, "int32", half, range(lanes))
    wide = [conversions.convert(e, v, "int16", "int32", 2 * lanes) for v in (a, b)]
    products = Typed(e.builder, "int32", 2 * lanes).op("mul", *wide)
    low, high = (_every_other(e, products, 2 * lanes, start) for start in (0, 1))
    return Typed(e.builder, "int32", lanes).op("add", low, high)


def _every_other(e: ExpressionEmitter, value: Operand, lanes: int, start: int) -> Operand:
    if lanes == 2:
        return _extract(e, value, "int32", lanes, start)
    return _shuffled(e, value, value, "int32", lanes, range(start, lanes, 2))


def _has_dot_instruction(e: ExpressionEmitter, lanes: int) -> bool:
    if lanes == 16:
        return e.target.has("avx512vnni")
    short = e.target.has("avxvnni") or e.target.has("avx512vnni") and e.target.has("avx512vl")
    return lanes in (4, 8) and short


def _dot_bf16(e: ExpressionEmitter, x: tir.Call) -> Operand:
    accumulator, a, b = x.args
    lanes, t = x.lanes, e.typed(x)
    wide = lanes == 16 or lanes in (4, 8) and e.target.has("avx512vl")
    if not (wide and e.target.has("avx512bf16")):
        (a_low, a_high), (b_low, b_high) = _bfloat16_halves(a), _bfloat16_halves(b)
        return e.value(tir.call("fma", a_high, b_high, tir.call("fma", a_low, b_low, accumulator)))
    pairs = f"<{2 * lanes} x bfloat>"
    factors = [e.builder.pure(f"bitcast <{lanes} x i32> {text(e.value(v), 'i32', lanes)} to {pairs}") for v in (a, b)]
    args = f"{t.type} {t.text(e.value(accumulator))}, {pairs} {factors[0]}, {pairs} {factors[1]}"
    return e.builder.pure(f"call {t.type} @llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}({args})")


def _bfloat16_halves(pairs: tir.Expr) -> tuple[tir.Expr, tir.Expr]:
    """Lower and upper numbers of pairs of bfloat16, as float32."""
    low, high = tir.binary("shl", pairs, 16), pairs & 0xFFFF0000
    return tir.call("reinterpret", low, dtype="float32"), tir.call("reinterpret", high, dtype="float32")


def _unrounded(e: ExpressionEmitter, x: tir.Call) -> Operand:
    return e.value(x.args[0])


def _scale(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """``floats.scale``, which only helpers call: one instruction with AVX-512."""
    value, t = x.args
    bits = 8 * dtypes.itemsize(x.dtype) * x.lanes
    widths = (128, 256, 512) if e.target.has("avx512vl") else (512,) if e.target.has("avx512f") else ()
    if bits not in widths:
        return e.value(floats.scale_in_steps(value, t))
    typed = e.typed(x)
    mask = f"i{max(8, x.lanes)} -1" + (", i32 4" if bits == 512 else "")
    kind = "ps" if x.dtype == "float32" else "pd"
    args = (f"{typed.type} {typed.text(e.value(part))}" for part in (value, floats.unshifted(t)))
    call = f"call {typed.type} @llvm.x86.avx512.mask.scalef.{kind}.{bits}"
    return e.builder.pure(f"{call}({', '.join(args)}, {typed.type} zeroinitializer, {mask})")


def _near_reciprocal(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """1 / x, which may be 2^-14 of it away: one instruction with AVX-512; only helpers of short formats call it."""
    return _near_reciprocal_of(e, e.value(x.args[0]), x.lanes)


def _near_reciprocal_of(e: ExpressionEmitter, value: Operand, lanes: int) -> Operand:
    if lanes > 16 and lanes % 2 == 0 and e.target.has("avx512f"):
        half = lanes // 2
        low, high = (_near_reciprocal_of(e, _slice(e, value, "float32", lanes, start, half), half) for start in (0, half))
        return _shuffled(e, low, high, "float32", half, range(lanes))
    t = Typed(e.builder, "float32", lanes)
    if not (lanes == 16 and e.target.has("avx512f") or lanes in (4, 8) and e.target.has("avx512vl")):
        return t.op("fdiv", 1.0, value)
    args = f"{t.type} {t.text(value)}, {t.type} zeroinitializer, i{max(8, lanes)} -1"
    return e.builder.pure(f"call {t.type} @llvm.x86.avx512.rcp14.ps.{32 * lanes}({args})")


def _product_error(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """a * b - round(a * b), exactly; only helpers call it. Without fma by Dekker's splitting of both factors."""
    a, b = x.args
    if e.target.has("fma"):
        return e.value(tir.call("fma", a, b, -(a * b)))
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return e.value(((a_high * b_high - a * b) + a_high * b_low + a_low * b_high) + a_low * b_low)


def _residual(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """c - a * b where that is exact but for the last bit; only helpers call it."""
    a, b, c = x.args
    if e.target.has("fma"):
        return e.value(tir.call("fma", -a, b, c))
    return e.value((c - a * b) - tir.call("product_error", a, b))


def _pow(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """Constant exponents that a multiplication or square root gives exactly need no logarithm."""
    base, exponent = x.args
    value = e.value(exponent)
    t = e.typed(x)
    if isinstance(value, str) or value not in _SIMPLE_POWERS:
        return e.helper("float.pow", (e.value(base), value), (t.dtype, t.dtype), t.dtype, x.lanes)
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
    "fma": _fma, "abs": _abs, "sqrt": _sqrt, "rsqrt": _rsqrt, "isnan": _isnan, "isinf": _isinf,
    "popcount": _popcount, "clz": _clz, "lane": _lane, "shuffle": _shuffle, "reinterpret": _reinterpret,
    "dot_u8s8": _dot_u8s8, "dot_bf16": _dot_bf16, "unrounded": _unrounded, "scale": _scale,
    "product_error": _product_error, "near_reciprocal": _near_reciprocal, "residual": _residual, "pow": _pow,
    **dict.fromkeys(_ROUNDING, _round), **dict.fromkeys(_FOLDS, _reduce),
}
