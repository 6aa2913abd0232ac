"""A direction of a recurrent layer whose states are rounded to uint8 at each step, by the range of all rows of the batch.

Products of codes are summed as integers: what zero points add to a sum is taken off where it is read. The states of all rows lie
in local memory, or, where they are many, in the results that hold the last ones.
"""

from __future__ import annotations

from collections.abc import Callable

from forge import loops
from forge.errors import CompileError
from forge.kernels.cpu.rnn_layer import Direction, Layer, Span, Units
from forge.loops import Accumulators, Loop, RegisterTile, Vectorizer
from forge.loops.contract import Reader
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Let, Stmt, Store, loop, seq, store

MAX_LOCAL = 1 << 16
"""States of a direction that lie in local memory."""
MOST = 255.0
"""The code of the upper end of a range."""


class RoundedDirection(Direction):
    """All steps of one direction for all batch rows, over whose spans ``spans`` is a loop."""

    def __init__(self, layer: Layer, direction: int, span: Span, spans: Loop) -> None:
        super().__init__(layer, direction, span)
        self.spans = spans
        rows = loops.static(layer.batch) or near_rows(layer)
        size = loops.round_up(rows, layer.block) * self.padded
        self.state, self.cell = (layer.local(name, layer.dtype, size) for name in ("h", "c"))
        self.codes = layer.local("codes", layer.group.copied if layer.packed else "uint8", span.size * self.padded)
        self.sums = loops.local("sums", "int32", span.size)
        self.scale, self.zero, self.shift = E.Var("float32", 1, "scale"), E.Var("float32", 1, "zero"), E.Var("int32", 1, "shift")

    @property
    def _adds_sums(self) -> bool:
        """Whether the zero points of packed weights are taken off afterwards."""
        return self.layer.packed and self.layer.r_zero is not None

    @property
    def buffers(self) -> list[Buffer]:
        return [*super().buffers, self.codes, *([self.sums] if self._adds_sums else [])]

    def body(self) -> Stmt:
        layer = self.layer
        s = E.var("s")
        codes = seq(self._round_row(row) for row in range(layer.block))
        step = seq(self._range(s), loops.nest([self.spans], seq(self.bind_block(), self.each(codes), layer.cell(self, s, s))))
        ends = [self.final(1, self.state), self.final(2, self.cell)]
        return seq(
            (Allocate(b) for b in self.buffers),
            self._clear_codes(),
            self._each(seq(self.start(self.state, layer.h0), self.start(self.cell, layer.c0))),
            loop(s, layer.steps, step),
            self._each(seq(ends)),
        )

    def _each(self, body: Stmt) -> Stmt:
        """``body`` for each block of all rows."""
        return loops.nest([self.spans], seq(self.bind_block(), self.each(body)))

    def place(self, row: int) -> Expr:
        return (self.first + row) * self.padded

    def _clear_codes(self) -> Stmt:
        """Those beyond the units stay 0."""
        zero = E.const(0, self.codes.dtype, self.layer.lanes)
        return loops.serial("k", self.span.size * self.padded // self.layer.lanes,
                            lambda k: store(self.codes, E.ramp(k * self.layer.lanes, 1, self.layer.lanes), zero))

    def _range(self, step: Expr) -> Stmt:
        """Binds scale and zero point to those of the range of all rows that have not ended before ``step``."""
        layer, lanes = self.layer, self.layer.lanes
        tile = RegisterTile(1, 1, lanes, "float32")
        low, high = Accumulators(tile, "min"), Accumulators(tile, "max")
        nothing = E.const(0.0, "float32", lanes)

        def of_row(row: int) -> Stmt:
            def vector(units: Units) -> Stmt:
                lets, states = loops.bind("states", self.load(self.state, units))
                if units.lanes == lanes:
                    return seq(lets, low.step(0, states), high.step(0, states))
                ends = [states if units.lanes == 1 else E.call(f"reduce_{end}", states) for end in ("min", "max")]
                return seq(lets, *(kept.step(0, end) for kept, end in zip((low, high), ends)))

            counts = self.inside[row]
            if layer.lengths is not None and not layer.attrs.counts_ended:
                counts = E.logical_and(counts, E.compare("le", step, self.lengths[row]))
            return loops.guard(counts, self.units(row, vector))

        ends = Let(low_end := E.Var("float32", 1, "low"), E.call("reduce_min", low.get(0, 0)))
        more = Let(width := E.Var("float32", 1, "width"), E.call("reduce_max", high.get(0, 0)) - low_end)
        scale = E.select(width.eq(0.0), E.const(1.0, "float32"), width / E.const(MOST, "float32"))
        zero = _clipped(E.call("round", E.const(0.0, "float32") - low_end / self.scale))
        return seq(
            low.allocate(), high.allocate(), low.set(0, 0, nothing), high.set(0, 0, nothing),
            self._each(seq(of_row(row) for row in range(layer.block))),
            ends, more, Let(self.scale, scale), Let(self.zero, zero), Let(self.shift, E.cast(self.zero, "int32")),
        )

    def _round_row(self, row: int) -> Stmt:
        """The codes of a row, and their sum where it counts."""

        def vector(units: Units) -> Stmt:
            quotient = E.call("round", self.load(self.state, units) / E.broadcast(self.scale, units.lanes))
            lets, known = loops.bind("quotient", quotient)
            number = E.select(E.call("isnan", known), E.const(0.0, "float32", units.lanes), known)
            code = E.cast(_clipped(number + E.broadcast(self.zero, units.lanes)), "int32")
            at = E.ramp(units.at + self.sample(row) * self.padded, 1, units.lanes)
            return seq(lets, store(self.codes, at, E.cast(code, self.codes.dtype), units.mask))

        return seq(self.units(row, vector), self._sum_codes(row) if self._adds_sums else ())

    def _sum_codes(self, row: int) -> Stmt:
        lanes, sample, total = self.layer.lanes, self.sample(row), Accumulators(RegisterTile(1, 1, self.layer.lanes, "int32"))

        def vector(k: Expr) -> Stmt:
            at = E.ramp(sample * self.padded + k * lanes, 1, lanes)
            return total.step(0, E.cast(E.load(self.codes, at), "int32"))

        kept = store(self.sums, sample, total.total())
        return seq(total.start(), loops.serial("k", self.padded // lanes, vector), kept)

    def group_of(self, state: Buffer) -> Callable[[Expr, Expr], Expr]:
        group = self.layer.group
        return lambda row, k: group.load(self.codes, row * self.padded + k * group.size)

    def element(self, state: Buffer, row: int) -> Callable[[Expr], Expr]:
        return lambda k: E.cast(E.load(self.codes, k + self.sample(row) * self.padded), "int32") - self.shift

    def recurrent_sum(self, gate: int, units: Units) -> Expr:
        layer, at = self.layer, (E.const(self.direction),)
        offset = gate * layer.hidden
        total = E.load(self.products, self.sums_at(gate, units))
        if layer.packed:
            assert layer.r_sums is not None
            sums = self.read(layer.r_sums, at, units, offset, "int32")
            total = total - sums * E.broadcast(self.shift, units.lanes)
        if self._adds_sums:
            assert layer.r_zero is not None
            zero = self.read(layer.r_zero, at, units, offset, "int32")
            total = total - zero * E.broadcast(E.load(self.sums, self.sample(units.row)), units.lanes)
        assert layer.r_scale is not None
        scale = self.read(layer.r_scale, at, units, offset) * E.broadcast(self.scale, units.lanes)
        return E.cast(total, "float32") * scale


class FarDirection(RoundedDirection):
    """The same, of any number of rows: their states lie in the results."""

    def __init__(self, layer: Layer, direction: int, span: Span, spans: Loop) -> None:
        super().__init__(layer, direction, span, spans)
        self.results = {self.state: layer.call.results[1], self.cell: layer.call.results[2]}

    @property
    def buffers(self) -> list[Buffer]:
        return [buffer for buffer in super().buffers if buffer not in self.results]

    def load(self, buffer: Buffer, units: Units) -> Expr:
        j = E.var("j")
        stored = self.results[buffer].write((*self.state_indices(units), j), E.const(0.0, self.layer.dtype))
        if not isinstance(stored, Store):
            raise CompileError("kernel rnn: the results of a layer that rounds its states have an epilogue; expected memory")
        place = E.load(stored.buffer, stored.index)
        return E.broadcast(Vectorizer(j, units.at, units.lanes, units.mask).expr(place), units.lanes)

    def save(self, buffer: Buffer, units: Units, value: Expr) -> Stmt:
        return self.write(self.results[buffer], self.state_indices(units), value, units)

    def start(self, buffer: Buffer, initial: Reader | None) -> Stmt:
        def first(units: Units) -> Stmt:
            zero = E.const(0.0, self.layer.dtype, units.lanes)
            return self.save(buffer, units, zero if initial is None else self.read(initial, self.state_indices(units), units))

        return seq(loops.guard(self.inside[row], self.units(row, first)) for row in range(self.layer.block))

    def final(self, result: int, buffer: Buffer) -> Stmt:
        return seq()


def near_rows(layer: Layer) -> int:
    """Returns how many rows have their states in local memory."""
    return MAX_LOCAL // layer.hidden


def _clipped(x: Expr) -> Expr:
    low, high = (E.const(v, "float32", x.lanes) for v in (0.0, MOST))
    return E.binary("max", E.binary("min", x, high), low)
