"""Loads, stores, gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forge import dtypes
from forge.codegen import arithmetic, conversions
from forge.codegen.arithmetic import Typed
from forge.codegen.llvm import NARROW_FLOATS, Operand, Values, memory_type, short_name, text
from forge.errors import CompileError
from forge.tir import expr as tir
from forge.tir import stmt, visit

if TYPE_CHECKING:
    from forge.codegen.expressions import ExpressionEmitter
    from forge.codegen.isa import Row


def load(e: ExpressionEmitter, x: tir.Load) -> Operand:
    """The register value of a load."""
    access = MemoryAccess(e, x.buffer, x.index, x.mask)
    return conversions.from_memory(e, access.load(), x.buffer.dtype, x.lanes)


def store(e: ExpressionEmitter, s: stmt.Store) -> None:
    """Writes ``s.value``; a narrow float is rounded once."""
    MemoryAccess(e, s.buffer, s.index, s.mask).store(bits_of(e, s.value))


def bits_of(e: ExpressionEmitter, x: tir.Expr) -> Operand:
    """``x`` as it lies in memory; what is loaded or cast to a narrow float passes through no other form."""
    if isinstance(x, tir.Load) and x.dtype in NARROW_FLOATS:
        return MemoryAccess(e, x.buffer, x.index, x.mask).load()
    if isinstance(x, tir.Cast) and x.dtype in NARROW_FLOATS:
        operand = conversions.convert(e, e.value(x.x), x.x.dtype, x.dtype, x.lanes, exact=False)
    else:
        operand = e.value(x)
        if x.dtype == "bfloat16" and isinstance(operand, str) and _is_unrounded(x):
            return conversions.encode_sum(e, operand, x.lanes)
    return conversions.to_memory(e, operand, x.dtype, x.lanes)


def _is_unrounded(x: tir.Expr) -> bool:
    """Whether ``x`` is computed from a float32 that was never rounded."""
    return any(isinstance(e, tir.Call) and e.name == "unrounded" for e in visit.computed(x))


def prefetch(e: ExpressionEmitter, s: stmt.Prefetch) -> None:
    """Reads nothing, so the address may be any; the line is kept close."""
    pointer = MemoryAccess(e, s.buffer, s.index, None).address()
    e.builder.effect(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")


WORDS = 16
"""Numbers of 32 bits in the table that fits into one register or two."""
MAX_VECTORS = 4
"""The longest stride at which lanes are taken out of whole vectors: as many are loaded."""


class MemoryAccess:
    """One access to ``buffer``: contiguous, reversed, strided or by a vector of indices.

    ``first`` is the index of its first element.
    """

    def __init__(self, e: ExpressionEmitter, buffer: tir.Buffer, index: tir.Expr, mask: tir.Expr | None) -> None:
        self.e = e
        self.builder = e.builder
        self.buffer = buffer
        self.index = index
        self.first = index.base if isinstance(index, tir.Ramp) else index
        self.lanes = buffer.lanes * index.lanes
        self.t = Values(e.builder, memory_type(buffer.dtype), self.lanes)
        self.size = dtypes.itemsize(buffer.dtype)
        self.aligned = dtypes.alignment(buffer.dtype)
        self.mask = None if mask is None else self._mask(mask)
        self.stride = self._stride()

    def _mask(self, mask: tir.Expr) -> Operand | None:
        operand = self.e.value(tir.broadcast(mask, self.lanes))
        return None if operand is True else operand

    def _stride(self) -> int | None:
        """Elements from one lane to the next where that is a constant."""
        if self.index.lanes == 1:
            return 1
        if self.buffer.lanes > 1 and not isinstance(self.index, tir.Ramp):
            raise CompileError(f"codegen: gather from {self.buffer.name!r}, whose elements are vectors; "
                               "expected a Ramp of stride 1")
        if not isinstance(self.index, tir.Ramp):
            return None
        stride = self.e.value(self.index.stride)
        return None if isinstance(stride, str) else int(stride)

    def load(self) -> str:
        if self.mask is False:
            return self.builder.value(f"freeze {self.t.type} zeroinitializer")
        if self.stride == 1:
            return self._load_at(self.address())
        if self.stride is not None and (self.stride == -1 or self._lies_close(self.stride)):
            return self._load_vectors(self.stride)
        if self.stride is not None and self.mask is None:
            return self._load_lanes(self.stride)
        return self._gather()

    def store(self, value: Operand) -> None:
        if self.mask is False:
            return
        if self.stride == 1:
            self._store_at(self.address(), self.t.text(value))
        elif self.stride is not None and self.mask is None:
            self._store_lanes(self.stride, value)
        else:
            self._scatter(value)

    def address(self, plus: int = 0) -> str:
        """Of the scalar element ``plus`` after the first; equal dynamic parts share one address."""
        dynamic, constant = self.e.affine(self.first)
        pointer = self._base()
        if dynamic is not None:
            t = Typed(self.builder, tir.INDEX, 1)
            pointer = self._step(pointer, arithmetic.integer(t, "mul", dynamic, self.buffer.lanes, False))
        offset = (constant + plus) * self.buffer.lanes
        return self._step(pointer, offset) if offset else pointer

    def _base(self) -> str:
        if self.buffer.scope == "constant":
            return self.e.module.table(self.buffer)
        try:
            return self.e.pointers[self.buffer]
        except KeyError:
            raise CompileError(f"codegen: buffer {self.buffer.name!r} is neither a parameter nor allocated here") from None

    def _step(self, pointer: str, elements: Operand) -> str:
        return self.builder.pure(f"getelementptr {self.t.scalar}, ptr {pointer}, i64 {elements}")

    def _alignment(self) -> int:
        """Bytes that the address is certainly a multiple of."""
        known = self.buffer.alignment or self.aligned
        if self.stride != 1 or known <= self.size:
            return self.aligned
        return max(self.aligned, math.gcd(known, self.size * self.buffer.lanes * multiple_of(self.e, self.first, known)))

    def _intrinsic(self, name: str) -> str:
        return f"@llvm.masked.{name}.v{self.lanes}{short_name(self.t.scalar)}"

    def _load_at(self, pointer: str, places: Sequence[int | None] | None = None) -> str:
        """A vector of memory, for whose element k the mask counts that is of lane ``places[k]``; of lane k without ``places``."""
        align, vector = self._alignment(), self.t.vector
        if self.mask is None:
            return self.builder.value(f"load {self.t.type}, ptr {pointer}, align {align}")
        loaded = self._load_masked(f"align {align} {pointer}", self._mask_text(places))
        return loaded if self.lanes > 1 else self.builder.value(f"extractelement {vector} {loaded}, i64 0")

    def _load_masked(self, pointer: str, mask: str) -> str:
        """A vector of memory at ``pointer``, with its alignment, for whose lanes ``mask`` is true; zeros elsewhere."""
        of_mask, of_load = self.e.native("mask_of_load"), self.e.native("masked_load")
        if of_mask is not None and of_mask.emit is not None:
            mask = of_mask.emit(self.e, self.lanes, self.size, mask)
        args = f"ptr {pointer}, {mask}, {self.t.vector} zeroinitializer"
        loaded = self.builder.value(f"call {self.t.vector} {self._intrinsic('load')}.p0({args})")
        if of_load is not None and of_load.emit is not None:
            loaded = of_load.emit(self.e, self.t, self.size, loaded)
        return loaded

    def _store_at(self, pointer: str, value: str) -> None:
        align = self._alignment()
        if self.mask is None:
            self.builder.effect(f"store {self.t.type} {value}, ptr {pointer}, align {align}")
            return
        if self.lanes == 1:
            value = self.t.insert("poison", value, 0)
        row = self.e.native("masked_store")
        if row is not None and row.emit is not None:
            value = row.emit(self.e, self.t, self.size, value)
        stored = f"{self.t.vector} {value}, ptr align {align} {pointer}"
        self.builder.effect(f"call void {self._intrinsic('store')}.p0({stored}, {self._mask_text()})")

    def _mask_text(self, places: Sequence[int | None] | None = None) -> str:
        """The mask; with ``places`` its element k is that of lane ``places[k]``, false where that is None."""
        bits = Values(self.builder, "i1", self.lanes)
        mask = self.mask if isinstance(self.mask, str) else f"splat (i1 {'true' if self.mask is None else 'false'})"
        if self.lanes == 1 and isinstance(self.mask, str):
            mask = bits.insert("poison", mask, 0)
        if places is not None:
            mask = bits.shuffle(mask, "zeroinitializer", [self.lanes if lane is None else lane for lane in places])
        return f"{bits.vector} {mask}"

    def _lies_close(self, stride: int) -> bool:
        """Whether whole vectors hold all lanes, and few instructions load them and take the lanes out."""
        isa = self.e.target.isa
        few = isa.has_masks([self.size]) if self.mask is not None else self.size >= 4 or isa.shuffles_bytes
        return few and 2 <= abs(stride) <= MAX_VECTORS and self.lanes >= 4 and self.buffer.lanes == 1

    def _load_vectors(self, stride: int) -> str:
        """The memory from the first to the last lane as vectors, each of which gives its lanes to the result."""
        if self.buffer.lanes > 1:
            raise CompileError(f"codegen: reversed access to {self.buffer.name!r}, whose elements are vectors; expected stride 1")
        count, step, last = self.lanes, abs(stride), abs(stride) * (self.lanes - 1)
        lane_at = {step * k if stride > 0 else last - step * k: k for k in range(count)}
        result = "poison"
        for start in [*range(0, (step - 1) * count, count), last + 1 - count]:
            places = [lane_at.pop(start + k, None) for k in range(count)]
            part = self._load_at(self.address(start + (0 if stride > 0 else -last)), places)
            order = list(range(count))
            for k, lane in enumerate(places):
                if lane is not None:
                    order[lane] = count + k
            result = self.t.shuffle(result, part, order)
        return result

    def _load_lanes(self, stride: int) -> str:
        vector = "poison"
        for lane in range(self.lanes):
            element = self.builder.value(f"load {self.t.scalar}, ptr {self.address(lane * stride)}, align {self.aligned}")
            vector = self.t.insert(vector, element, lane)
        return vector

    def _store_lanes(self, stride: int, value: Operand) -> None:
        for lane in range(self.lanes):
            pointer = self.address(lane * stride)
            element = text(self.t.extract(value, lane), self.t.scalar)
            self.builder.effect(f"store {self.t.scalar} {element}, ptr {pointer}, align {self.aligned}")

    def _pointers(self) -> str:
        index = Typed(self.builder, tir.INDEX, self.lanes).typed(self.e.value(tir.cast(self.index, tir.INDEX)))
        pointers = self.builder.pure(f"getelementptr {self.t.scalar}, ptr {self._base()}, {index}")
        return f"<{self.lanes} x ptr> align {self.aligned} {pointers}"

    def _gather(self) -> str:
        byte = self._place_in_table()
        if byte is not None:
            return self._looked_up(byte)
        place = self._place_in_registers()
        if place is not None:
            return self._picked(place)
        if self._is_permuted() and _is_clamped_step(self.index):
            return self._near(*self._distances())
        if self._is_permuted() and _is_read_in_order(self.index):
            return self._neighbours()
        return self._gathered()

    def _gathered(self) -> str:
        args = f"{self._pointers()}, {self._mask_text()}, {self.t.type} zeroinitializer"
        return self.builder.value(f"call {self.t.type} {self._intrinsic('gather')}.v{self.lanes}p0({args})")

    @property
    def _permute(self) -> Row | None:
        """The instruction that permutes float32 as numbers of 32 bits say."""
        return self.e.native("permute", "float32", self.lanes)

    def _permuted(self, values: str, numbers: str) -> str:
        """Lanes of ``values`` by their ``numbers``."""
        row, places = self._permute, Values(self.builder, "i32", self.lanes)
        assert row is not None
        return row.call(self.t, self.t.typed(values), places.typed(numbers))

    def _is_permuted(self) -> bool:
        """Whether an instruction permutes the lanes of a vector of these elements."""
        return self._permute is not None and self.mask is None and self.buffer.dtype == "float32"

    def _distances(self) -> tuple[str, str, str]:
        """The place of the first lane, how far from it the last lane is, and how far all of them are.

        What all lanes have in common is left out of all but the first: loads that differ in it alone share the rest.
        """
        index, lanes, common = Typed(self.builder, tir.INDEX, self.lanes), self.index, []
        while isinstance(lanes, tir.Binary) and lanes.op == "add" and isinstance(lanes.a, tir.Broadcast):
            common.append(lanes.a.x)
            lanes = lanes.b
        given = index.text(self.e.value(tir.cast(lanes, tir.INDEX)))
        first = str(index.extract(given, 0))
        reach = self.builder.pure(f"sub i64 {index.extract(given, self.lanes - 1)}, {first}")
        distance = index.op("sub", given, index.splat(first))
        for part in common:
            first = self.builder.pure(f"add i64 {first}, {self.e.value(tir.cast(part, tir.INDEX))}")
        return first, reach, distance

    def _near(self, first: str, reach: str, distance: str) -> str:
        """One load from the first lane's element to the last one's, whose lanes are permuted."""
        b, index, places = self.builder, Typed(self.builder, tir.INDEX, self.lanes), Typed(self.builder, "int32", self.lanes)
        order = f"<{', '.join(f'i32 {lane}' for lane in range(self.lanes))}>"
        last = places.splat(b.pure(f"trunc i64 {reach} to i32"))
        mask = f"<{self.lanes} x i1> {b.pure(f'icmp ule {places.type} {order}, {last}')}"
        loaded = self._load_masked(f"align {self.aligned} {self._step(self._base(), first)}", mask)
        return self._permuted(loaded, b.pure(f"trunc {index.type} {distance} to {places.type}"))

    def _neighbours(self) -> str:
        """As ``_near`` where no lane reads another and a register holds them, else a gather."""
        b, index = self.builder, Typed(self.builder, tir.INDEX, self.lanes)
        self._pointers()
        first, reach, distance = self._distances()
        inside = index.op("icmp ule", distance, index.splat(reach))
        all_inside = b.pure(f"call i1 @llvm.vector.reduce.and.v{self.lanes}i1(<{self.lanes} x i1> {inside})")
        is_near = b.pure(f"and i1 {all_inside}, {b.pure(f'icmp ult i64 {reach}, {self.lanes}')}")
        near, far, after = b.fresh("near"), b.fresh("far"), b.fresh("after")
        b.effect(f"br i1 {is_near}, label %{near}, label %{far}")
        values = []
        for label in (near, far):
            b.enter()
            b.label(label)
            values.append(self._near(first, reach, distance) if label == near else self._gathered())
            b.effect(f"br label %{after}")
            b.leave()
        b.label(after)
        return b.value(f"phi {self.t.type} [ {values[0]}, %{near} ], [ {values[1]}, %{far} ]")

    def _place_in_table(self) -> tir.Expr | None:
        """The numbers of eight bits that are the indices into a table of 256 bytes, where there are instructions for those."""
        index, lanes = self.index, self.lanes
        if not isinstance(index, tir.Cast) or index.x.dtype != "uint8" or not 16 <= lanes <= 64:
            return None
        has_size = self.size == 1 and [getattr(extent, "value", None) for extent in self.buffer.shape] == [256]
        return index.x if has_size and self.e.native("permute_pair", "int8", 64) is not None else None

    def _place_in_registers(self) -> tir.Expr | None:
        """The numbers below 16 that are the indices into a table of as many of float32, where instructions permute lanes so."""
        place = self.index.x if isinstance(self.index, tir.Cast) else self.index
        if self.lanes < 8 or not self._is_permuted():
            return None
        has_size = [getattr(extent, "value", None) for extent in self.buffer.shape] == [WORDS]
        return place if has_size and place.dtype in ("uint32", "int32") and _is_below(place, WORDS) else None

    def _picked(self, place: tir.Expr) -> str:
        """One register holds the table, or two, of which the fourth bit of the index selects."""
        index = Values(self.builder, "i32", self.lanes)
        numbers = index.text(self.e.value(place))
        parts = [self.builder.value(f"load {self.t.type}, ptr {self._step(self._base(), k)}, align {self.aligned}")
                 for k in range(0, WORDS, self.lanes)]
        found = [self._permuted(part, numbers) for part in parts]
        if len(found) == 1:
            return found[0]
        upper = index.op("icmp uge", numbers, self.lanes)
        return str(self.t.select(upper, found[1], found[0]))

    def _looked_up(self, byte: tir.Expr) -> str:
        """Two halves of the table are four registers; the highest bit of the index says which half."""
        whole, bytes_ = Values(self.builder, "i8", 64), Values(self.builder, "i8", self.lanes)
        index = bytes_.shuffle(bytes_.text(self.e.value(byte)), "poison", [min(k, self.lanes) for k in range(64)])
        parts = []
        for k in range(4):
            pointer = self._step(self._base(), 64 * k)
            parts.append(self.builder.value(f"load {whole.type}, ptr {pointer}, align {self.aligned}"))
        row = self.e.native("permute_pair", "int8", 64)
        assert row is not None
        halves = [row.call(whole, *map(whole.typed, (low, index, high))) for low, high in (parts[:2], parts[2:])]
        upper = whole.op("icmp slt", index, "zeroinitializer")
        found = self.builder.pure(f"select <64 x i1> {upper}, {whole.typed(halves[1])}, {whole.typed(halves[0])}")
        found = whole.shuffle(found, "poison", range(self.lanes))
        return found if self.mask is None else str(self.t.select(self.mask, found, "zeroinitializer"))

    def _scatter(self, value: Operand) -> None:
        args = f"{self.t.typed(value)}, {self._pointers()}, {self._mask_text()}"
        self.builder.effect(f"call void {self._intrinsic('scatter')}.v{self.lanes}p0({args})")


def _is_read_in_order(x: tir.Expr) -> bool:
    """Whether integers that lie one after the other in memory say where the lanes of ``x`` are, shifted and clamped only."""
    match x:
        case tir.Load():
            return dtypes.is_integer(x.dtype) and isinstance(x.index, tir.Ramp) and tir.is_const(x.index.stride, 1)
        case tir.Cast():
            return dtypes.is_integer(x.x.dtype) and _is_read_in_order(x.x)
        case tir.Binary(op="add" | "sub" | "min" | "max", a=a, b=b):
            moved = b if isinstance(a, (tir.Broadcast, tir.Const)) else a if isinstance(b, (tir.Broadcast, tir.Const)) else None
            return moved is not None and _is_read_in_order(moved)
    return False


def _is_clamped_step(x: tir.Expr) -> bool:
    """Whether lanes are at most one element apart, as where neighbours are read up to the ends of a row."""
    match x:
        case tir.Ramp():
            return tir.is_const(x.stride, 1)
        case tir.Binary(op="add" | "min" | "max", a=a, b=b):
            moved = b if isinstance(a, (tir.Broadcast, tir.Const)) else a if isinstance(b, (tir.Broadcast, tir.Const)) else None
            return moved is not None and _is_clamped_step(moved)
    return False


def _is_below(x: tir.Expr, limit: int) -> bool:
    """Whether ``x`` is certainly not negative, and less than ``limit``."""
    parts = tir.children(x) if isinstance(x, tir.Binary) and x.op == "and" else [x]
    known = [getattr(p.x if isinstance(p, tir.Broadcast) else p, "value", -1) for p in parts]
    return any(0 <= value < limit for value in known)


def multiple_of(e: ExpressionEmitter, x: tir.Expr, limit: int) -> int:
    """A power of two, at most ``limit``, that certainly divides integer ``x``."""
    match x:
        case tir.Binary(op="add" | "sub", a=a, b=b):
            return min(multiple_of(e, a, limit), multiple_of(e, b, limit))
        case tir.Binary(op="mul", a=a, b=b):
            return min(limit, multiple_of(e, a, limit) * multiple_of(e, b, limit))
        case tir.Const(value=value):
            return math.gcd(int(value), limit) if isinstance(value, int) else 1
        case tir.Var():
            bound = e.env.get(x)
            return math.gcd(bound, limit) if isinstance(bound, int) else 1
    return 1
