"""Native instructions of x86-64, and what keeps LLVM 22 from faults in its code for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from forge.codegen.arithmetic import Typed
from forge.codegen.conversions import convert
from forge.codegen.isa.rows import Row, Table
from forge.codegen.llvm import Operand, Values
from forge.target.isa.x86 import EMULATED_TILES

if TYPE_CHECKING:
    from forge.codegen.expressions import ExpressionEmitter


def _avx512(lanes: int, bits: int = 32) -> tuple[str, ...]:
    """What instructions of AVX-512 need on vectors of ``lanes`` elements of ``bits``."""
    return ("avx512f",) if lanes * bits == 512 else ("avx512vl",)


def _all_lanes(lanes: int) -> str:
    """The mask of an instruction that computes every lane."""
    return f"i{max(8, lanes)} -1"


def _dots() -> tuple[Row, ...]:
    """Sums of four products of bytes, or of two of shorts or bfloat16, in each lane of 32 bits."""
    products = {4: ("sse2", "sse2.pmadd.wd"), 8: ("avx2", "avx2.pmadd.wd"), 16: ("avx512bw", "avx512.pmaddw.d.512")}
    pairs = {4: ("ssse3", "ssse3.pmadd.ub.sw.128"), 8: ("avx2", "avx2.pmadd.ub.sw"), 16: ("avx512bw", "avx512.pmaddubs.w.512")}
    return (
        *(Row("dot_u8s8", "int32", lanes, (*_avx512(lanes), "avx512vnni"), f"x86.avx512.vpdpbusd.{32 * lanes}")
          for lanes in (4, 8, 16)),
        *(Row("dot_u8s8", "int32", lanes, ("avxvnni",), f"x86.avx512.vpdpbusd.{32 * lanes}") for lanes in (4, 8)),
        *(Row("dot_u7s8_pairs", "int16", 2 * lanes, (feature,), f"x86.{name}") for lanes, (feature, name) in pairs.items()),
        *(Row("pair_products", "int32", lanes, (feature,), f"x86.{name}") for lanes, (feature, name) in products.items()),
        *(Row("dot_bf16", "float32", lanes, (*_avx512(lanes), "avx512bf16"), f"x86.avx512bf16.dpbf16ps.{32 * lanes}")
          for lanes in (4, 8, 16)),
    )


def _floats() -> tuple[Row, ...]:
    scales = [(dtype, lanes, bits, name) for dtype, bits, name in (("float32", 32, "ps"), ("float64", 64, "pd"))
              for lanes in (128 // bits, 256 // bits, 512 // bits)]
    return (
        *(Row("scale", dtype, lanes, _avx512(lanes, bits), f"x86.avx512.mask.scalef.{name}.{bits * lanes}",
              (f"<{lanes} x {'float' if bits == 32 else 'double'}> zeroinitializer", _all_lanes(lanes),
               *(["i32 4"] if bits * lanes == 512 else [])))
          for dtype, lanes, bits, name in scales),
        *(Row("near_reciprocal", "float32", lanes, _avx512(lanes), f"x86.avx512.rcp14.ps.{32 * lanes}",
              (f"<{lanes} x float> zeroinitializer", _all_lanes(lanes))) for lanes in (4, 8, 16)),
        *(Row("encode", "bfloat16", lanes, ("avx512bf16", "avx512vl"), f"x86.avx512bf16.cvtneps2bf16.{32 * lanes}")
          for lanes in (8, 16)),
    )


def _shuffled(e: ExpressionEmitter, row: Row, vector: str, order: Sequence[int]) -> str:
    """LLVM must not know the order: it would split the vector, and take eight instructions to interleave its quarters."""
    t = Values(e.builder, "i8", row.lanes)
    return row.call(t, t.typed(vector), t.typed(hidden(e, t.type, f"<{', '.join(f'i8 {k}' for k in order)}>")))


def _permutations() -> tuple[Row, ...]:
    """Lanes of one register, or of two, as another register says."""
    return (
        Row("permute", "float32", 4, ("avx",), "x86.avx.vpermilvar.ps"),
        Row("permute", "float32", 8, ("avx2",), "x86.avx2.permps"),
        Row("permute", "float32", 16, ("avx512f",), "x86.avx512.permvar.sf.512"),
        Row("shuffle", "int8", 64, ("avx512vbmi",), "x86.avx512.permvar.qi.512", emit=_shuffled),
        Row("permute_pair", "int8", 64, ("avx512vbmi",), "x86.avx512.vpermi2var.qi.512"),
    )


def _saturated(e: ExpressionEmitter, row: Row, value: str, offset: Operand, high: int) -> Operand:
    """Numbers at least 0 as bytes. Larger ones become ``high``, and so does what is negative: without its sign it is larger."""
    t, words = Typed(e.builder, "float32", row.lanes), Typed(e.builder, "int32", row.lanes)
    limit = _minus(t, 0.0, offset)
    whole = row.call(words, t.typed(t.select(t.op("fcmp ogt", value, limit), value, limit)))
    return words.convert("trunc", words.call("umin", _plus_offset(e, words, whole, offset), high), "i8")


def _packed(e: ExpressionEmitter, row: Row, value: str, offset: Operand, high: int) -> Operand:
    """Numbers at most ``high`` as bytes; negative ones become 0."""
    t, words = Typed(e.builder, "float32", row.lanes), Typed(e.builder, "int32", row.lanes)
    limit = _minus(t, float(high), offset)
    rounded = row.call(words, t.typed(t.select(t.op("fcmp ogt", value, limit), limit, value)))
    whole = _plus_offset(e, words, rounded, offset)
    quarter, shorts, bytes_ = words.of(4), Values(e.builder, "i16", 8), Values(e.builder, "i8", 16)
    halves = [words.slice(whole, k, 4) if words.lanes == 8 else whole for k in (0, 4)]
    pairs = shorts.native("x86.sse2.packssdw.128", *map(quarter.typed, halves))
    packed = bytes_.native("x86.sse2.packuswb.128", *[shorts.typed(pairs)] * 2)
    return bytes_.shuffle(packed, "poison", range(words.lanes))


def _minus(t: Typed, bound: float, offset: Operand) -> Operand:
    """``bound - offset`` in all lanes."""
    return t.splat(t.of(1).op("fsub", bound, offset) if isinstance(offset, str) else bound - offset)


def _plus_offset(e: ExpressionEmitter, words: Typed, whole: Operand, offset: Operand) -> Operand:
    """``whole`` plus a whole number that is a float."""
    if offset == 0:
        return whole
    return words.op("add", whole, words.splat(convert(e, offset, "float32", "int32", 1)))


def _bytes() -> tuple[Row, ...]:
    """Conversions to int32, of which numbers that it does not hold become the least, and what makes bytes of those."""
    rows = []
    for operation, is_rounded in (("round_to_bytes", True), ("truncate_to_bytes", False)):
        t = "" if is_rounded else "t"
        wide = {4: f"x86.sse2.cvt{t}ps2dq", 8: f"x86.avx.cvt{t}.ps2dq.256", 16: f"x86.avx512.mask.cvt{t}ps2dq.512"}
        masked = ("<16 x i32> splat (i32 0)", "i16 -1", "i32 4")
        rows += [
            Row(operation, "uint8", 16, ("avx512f",), wide[16], masked, emit=_saturated),
            *(Row(operation, "uint8", lanes, ("avx512f", "avx512vl"), wide[lanes], emit=_saturated) for lanes in (4, 8)),
            Row(operation, "uint8", 4, ("sse2",), wide[4], emit=_packed),
            Row(operation, "uint8", 8, ("avx",), wide[8], emit=_packed),
        ]
    return tuple(rows)


def _tiles() -> tuple[Row, ...]:
    """Instructions on tile registers, and functions of the same operands in their place."""
    names = {
        "configure": "ldtilecfg", "release": "tilerelease", "zero": "tilezero", "load": "tileloadd64", "store": "tilestored64",
        "dot_bf16": "tdpbf16ps", "dot_f16": "tdpfp16ps",
        "dot_u8s8": "tdpbusd", "dot_s8u8": "tdpbsud", "dot_s8s8": "tdpbssd", "dot_u8u8": "tdpbuud"}
    dots = {"dot_bf16": "amx-bf16", "dot_f16": "amx-fp16",
            **dict.fromkeys(("dot_u8s8", "dot_s8u8", "dot_s8s8", "dot_u8u8"), "amx-int8")}
    return (
        *(Row(f"tiles_{name}", "", 0, (EMULATED_TILES,), f"forge_{called}") for name, called in names.items()),
        *(Row(f"tiles_{name}", "", 0, (dots.get(name, "amx-tile"),), f"llvm.x86.{called}") for name, called in names.items()),
    )


def hidden(e: ExpressionEmitter, vector: str, value: str, register: str = "v") -> str:
    """``value``, passed through an empty instruction, so that LLVM knows nothing of it."""
    return e.builder.value(f'call {vector} asm "", "={register},0"({vector} {value})')


def _loaded(e: ExpressionEmitter, t: Values, size: int, loaded: str) -> str:
    """What a masked load gave, hidden.

    LLVM 22 folds a masked load into a masked AVX-512 instruction, and where that must copy a register unfolds it into a load
    without mask, which reads past the end.
    """
    return hidden(e, t.vector, loaded) if 8 * size * t.lanes in (128, 256, 512) and size <= 8 else loaded


def _whole_mask(e: ExpressionEmitter, lanes: int, size: int, mask: str) -> str:
    """The mask of a load, hidden where the load is wider than a register.

    LLVM 22 splits such a load, and without AVX-512 it may take a part whose lanes are all off by constants for one whose first
    and last lanes are on: it loads that part without a mask, past the end.
    """
    if 8 * size * lanes <= 256 or lanes > 32 or e.target.has("avx512f"):
        return mask
    bytes_ = Values(e.builder, "i8", lanes)
    held = Values(e.builder, "i8", 16 if lanes <= 16 else 32)
    wide = e.builder.pure(f"sext {mask} to {bytes_.type}")
    wide = bytes_.shuffle(wide, "zeroinitializer", [min(k, lanes) for k in range(held.lanes)])
    wide = held.shuffle(hidden(e, held.type, wide, "x"), "poison", range(lanes))
    return f"<{lanes} x i1> {bytes_.op('icmp ne', wide, 'zeroinitializer')}"


def _stored(e: ExpressionEmitter, t: Values, size: int, value: str) -> str:
    """What is about to be stored under a mask, hidden.

    LLVM 22 makes one scalar store of a masked store of one lane that narrows its value: of four bytes, whatever is asked for.
    """
    if size >= 4 or t.lanes == 1:
        return value
    lanes = 16 // size
    if t.lanes >= lanes:
        return _loaded(e, t, size, value)
    wide = Values(e.builder, t.scalar, lanes)
    value = t.shuffle(value, "poison", [min(k, t.lanes) for k in range(lanes)])
    return wide.shuffle(_loaded(e, wide, size, value), "poison", range(t.lanes))


_GUARDS = (
    Row("masked_load", "", 0, ("avx512f",), emit=_loaded), Row("mask_of_load", "", 0, ("avx",), emit=_whole_mask),
    Row("masked_store", "", 0, ("avx512f",), emit=_stored),
)


def _attributes(bits: int) -> str:
    return f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


# Kernels were measured without a data layout. With it LLVM addresses memory otherwise in nearly all of them: 11 networks take as
# long as before, its passes 2 to 3 % longer, and the softmax of rows in memory a third longer.
TABLE: Final = Table(
    rows=(*_dots(), *_floats(), *_permutations(), *_bytes(), *_tiles(), *_GUARDS), clock="readcyclecounter()", has_layout=False,
    attributes=_attributes)
