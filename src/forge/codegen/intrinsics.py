"""Intrinsics of the loop IR: LLVM's own where every x86-64 level has an instruction, else a helper written in loop IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

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
"""LLVM's intrinsics, an instruction each from SSE4.1 on."""


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
    return t.call("fma" if e.target.has("fma") else "fmuladd", a, b, c)


def _abs(e: ExpressionEmitter, x: tir.Call) -> Operand:
    value, t = e.value(x.args[0]), e.typed(x)
    if dtypes.is_float(x.dtype):
        return t.call("fabs", value)
    return t.call("abs", value, flags=["i1 false"]) if dtypes.is_signed(x.dtype) else value


def _round(e: ExpressionEmitter, x: tir.Call) -> Operand:
    value, t = e.value(x.args[0]), e.typed(x)
    if not dtypes.is_float(x.dtype):
        return value
    if e.target.has("sse4.1"):
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
    if a is b and isinstance(values[0], str) and _permutes_bytes(e, a, len(numbers)):
        return _permuted_bytes(e, values[0], numbers)
    return t.shuffle(values[0], values[1], numbers)


def _permutes_bytes(e: ExpressionEmitter, vector: tir.Expr, lanes: int) -> bool:
    """Whether one instruction permutes the lanes in any order."""
    return dtypes.itemsize(vector.dtype) == 1 and vector.lanes == lanes == 64 and e.target.has("avx512vbmi")


def _permuted_bytes(e: ExpressionEmitter, vector: str, order: Sequence[int]) -> str:
    """LLVM does not know the order: it would split the vector, and take eight instructions to interleave its quarters."""
    t = Values(e.builder, "i8", len(order))
    places = memory.hidden(e, t.type, f"<{', '.join(f'i8 {k}' for k in order)}>")
    return t.native("x86.avx512.permvar.qi.512", t.typed(vector), t.typed(places))


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
    if _has_vnni(e, lanes):
        return t.native(f"x86.avx512.vpdpbusd.{32 * lanes}", t.typed(accumulator), quarters.typed(a), quarters.typed(b))
    words = [e.builder.pure(f"bitcast {quarters.typed(v)} to <{2 * lanes} x i16>") for v in (a, b)]
    w = Typed(e.builder, "int16", 2 * lanes)
    even = _pair_products(e, w, w.op("and", words[0], 255), w.op("ashr", w.op("shl", words[1], 8), 8))
    odd = _pair_products(e, w, w.op("lshr", words[0], 8), w.op("ashr", words[1], 8))
    return t.op("add", accumulator, t.op("add", even, odd))


def _dot_s16(e: ExpressionEmitter, x: tir.Call) -> Operand:
    accumulator, a, b = (e.value(arg) for arg in x.args)
    return e.typed(x).op("add", accumulator, _pair_products(e, e.typed(x.args[1]), a, b))


_BYTE_PAIRS = {4: ("ssse3", "ssse3.pmadd.ub.sw.128"), 8: ("avx2", "avx2.pmadd.ub.sw"), 16: ("avx512bw", "avx512.pmaddubs.w.512")}


def _dot_u7s8(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """Sums of two products of numbers below 128 and of 8 bits fit into 16 bits."""
    lanes = x.lanes
    feature, name = _BYTE_PAIRS.get(lanes, ("", ""))
    if not feature or not e.target.has(feature) or _has_vnni(e, lanes):
        return _dot_u8s8(e, x)
    accumulator, a, b = (e.value(arg) for arg in x.args)
    quarters, words, t = e.typed(x.args[1]), Typed(e.builder, "int16", 2 * lanes), e.typed(x)
    pairs = words.native(f"x86.{name}", quarters.typed(a), quarters.typed(b))
    return t.op("add", accumulator, _pair_products(e, words, pairs, 1))


_PAIR_PRODUCTS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}


def _pair_products(e: ExpressionEmitter, w: Typed, a: Operand, b: Operand) -> Operand:
    """``a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1]`` of 16-bit integers, in 32 bits, exactly."""
    lanes = w.lanes // 2
    widest = 16 if e.target.has("avx512bw") else 8 if e.target.has("avx2") else 4
    t = Typed(e.builder, "int32", lanes)
    if lanes in _PAIR_PRODUCTS and lanes <= widest:
        return t.native(f"x86.{_PAIR_PRODUCTS[lanes]}", w.typed(a), w.typed(b))
    if lanes > widest and lanes % 2 == 0:
        low, high = (_pair_products(e, w.of(lanes), w.slice(a, start, lanes), w.slice(b, start, lanes)) for start in (0, lanes))
        return t.of(lanes // 2).shuffle(low, high, range(lanes))
    products = t.of(2 * lanes)
    product = products.op("mul", *(conversions.convert(e, v, "int16", "int32", 2 * lanes) for v in (a, b)))
    if lanes == 1:
        return t.op("add", *(products.extract(product, k) for k in (0, 1)))
    return t.op("add", *(products.shuffle(product, product, range(k, 2 * lanes, 2)) for k in (0, 1)))


def _has_vnni(e: ExpressionEmitter, lanes: int) -> bool:
    """Whether the target has VNNI for accumulators of so many lanes."""
    return _has_avx512(e, 32 * lanes) and e.target.has("avx512vnni") or lanes in (4, 8) and e.target.has("avxvnni")


def _has_avx512(e: ExpressionEmitter, bits: int) -> bool:
    """Whether there are instructions of AVX-512 on vectors of so many bits."""
    return e.target.has("avx512f") and bits == 512 or e.target.has("avx512vl") and bits in (128, 256)


def _dot_bf16(e: ExpressionEmitter, x: tir.Call) -> Operand:
    accumulator, a, b = x.args
    lanes, t = x.lanes, e.typed(x)
    if not (_has_avx512(e, 32 * lanes) and e.target.has("avx512bf16")):
        (a_low, a_high), (b_low, b_high) = _bfloat16_halves(a), _bfloat16_halves(b)
        return e.value(tir.call("fma", a_high, b_high, tir.call("fma", a_low, b_low, accumulator)))
    pairs = f"<{2 * lanes} x bfloat>"
    factors = [f"{pairs} " + e.builder.pure(f"bitcast {e.text(v)} to {pairs}") for v in (a, b)]
    return t.native(f"x86.avx512bf16.dpbf16ps.{32 * lanes}", e.text(accumulator), *factors)


def _bfloat16_halves(pairs: tir.Expr) -> tuple[tir.Expr, tir.Expr]:
    """Lower and upper numbers of pairs of bfloat16, as float32."""
    low, high = tir.binary("shl", pairs, 16), pairs & 0xFFFF0000
    return tir.call("reinterpret", low, dtype="float32"), tir.call("reinterpret", high, dtype="float32")


def _scale(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """``floats.scale``, which only helpers call: one instruction with AVX-512."""
    value, t = x.args
    bits = 8 * dtypes.itemsize(x.dtype) * x.lanes
    if not _has_avx512(e, bits):
        return e.value(floats.scale_in_steps(value, t))
    typed = e.typed(x)
    mask = [f"i{max(8, x.lanes)} -1", *(["i32 4"] if bits == 512 else [])]
    kind = "ps" if x.dtype == "float32" else "pd"
    args = (e.text(part) for part in (value, floats.unshifted(t)))
    return typed.native(f"x86.avx512.mask.scalef.{kind}.{bits}", *args, f"{typed.type} zeroinitializer", *mask)


def _near_reciprocal(e: ExpressionEmitter, x: tir.Call) -> Operand:
    """1 / x, which may be 2^-14 of it away: one instruction with AVX-512; only helpers of short formats call it."""
    return _near_reciprocal_of(e, e.typed(x), e.value(x.args[0]))


def _near_reciprocal_of(e: ExpressionEmitter, t: Typed, value: Operand) -> Operand:
    if t.lanes > 16 and t.lanes % 2 == 0 and e.target.has("avx512f"):
        half = t.of(t.lanes // 2)
        low, high = (_near_reciprocal_of(e, half, t.slice(value, start, half.lanes)) for start in (0, half.lanes))
        return half.shuffle(low, high, range(t.lanes))
    bits = 32 * t.lanes
    if not _has_avx512(e, bits):
        return t.op("fdiv", 1.0, value)
    return t.native(f"x86.avx512.rcp14.ps.{bits}", t.typed(value), f"{t.type} zeroinitializer", f"i{max(8, t.lanes)} -1")


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
