"""A direction of a recurrent layer whose weights are codes, and whose state is multiplied by them as numbers of 24 bits.

The state of a row is its largest magnitude times whole numbers of 24 bits, which are summed as integers: each is a few numbers of
fewer bits, that lie in planes, one plane after the other, or for tile registers those of a row together. So a product takes no
conversion of codes to real numbers, which would take longer than the product; what the state loses is less than the rounding of a
sum of float32 relative to its largest terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from forge import loops
from forge.kernels.cpu.rnn_layer import BITS, Direction, Layer, Span, Units
from forge.loops import Accumulators, RegisterTile
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Let, Stmt, seq, store

LARGEST: Final = (1 << (BITS - 1)) - 1
# States below it lose digits, so that their reciprocal is a number.
SMALLEST: Final = 2.0**-100
LARGEST_FLOAT: Final = (2 - 2.0**-23) * 2.0**127


class FixedDirection(Direction):
    """Codes of the state are ``LARGEST + 1`` more than its numbers; plane p has their ``bits`` bits from ``bits * p`` on."""

    def __init__(self, layer: Layer, direction: int, span: Span) -> None:
        super().__init__(layer, direction, span)
        self.bits, self.planes = layer.plane_bits, layer.planes
        self.codes = layer.local("codes", layer.group.copied, self.samples * self.padded)
        self.products = layer.local("z", "int32", self.samples * self.sums_width)
        self._kept = [loops.local(f"scale{n}", "float32", span.size) for n in range(2)]
        self._scales: dict[int, Buffer] = {}  # of the states that the products of a gate are made of, by row

    def sample(self, row: int, plane: int = 0) -> Expr:
        if self.span.blocks is None:
            return E.const(plane * self.layer.block + row)
        return (self.inner + row) * self.planes + plane

    @property
    def buffers(self) -> list[Buffer]:
        return [*super().buffers, self.codes, *self._kept]

    def prepared(self, state: Buffer, first: int, gates: int) -> Stmt:
        scales = self._kept[first > 0]
        self._scales |= dict.fromkeys(range(first, first + gates), scales)
        return self.each(seq(self._split(state, row, scales) for row in range(self.layer.block)))

    def _split(self, state: Buffer, row: int, scales: Buffer) -> Stmt:
        lanes = self.layer.lanes
        largest = Accumulators(RegisterTile(1, 1, lanes, "float32"), "max")
        most, factor = E.Var("float32", 1, "most"), E.Var("float32", 1, "factor")

        def load(k: Expr) -> Expr:
            return E.load(state, E.ramp(self.place(row) + k * lanes, 1, lanes))

        def split(k: Expr) -> Stmt:
            limit = E.const(float(LARGEST), "float32", lanes)
            number = E.call("round", load(k) * E.broadcast(factor, lanes))
            number = E.binary("max", E.binary("min", number, limit), E.const(-float(LARGEST), "float32", lanes))
            lets, code = loops.bind("code", E.cast(number, "int32") + (LARGEST + 1))
            planes = (E.binary("shr", code, self.bits * p) & ((1 << self.bits) - 1) for p in range(self.planes))
            return seq(lets, (store(self.codes, E.ramp(self.sample(row, p) * self.padded + k * lanes, 1, lanes),
                                    E.cast(part, self.codes.dtype)) for p, part in enumerate(planes)))

        within = E.binary("min", E.binary("max", most, E.const(SMALLEST, "float32")), E.const(LARGEST_FLOAT, "float32"))
        return seq(
            largest.allocate(), largest.set(0, 0, E.const(0.0, "float32", lanes)),
            loops.serial("k", self.padded // lanes, lambda k: largest.step(0, E.call("abs", load(k)))),
            Let(most, largest.total()), Let(factor, E.const(float(LARGEST), "float32") / within),
            store(scales, self.inner + row, most / E.const(float(LARGEST), "float32")),
            loops.serial("k", self.padded // lanes, split),
        )

    def group_of(self, state: Buffer) -> Callable[[Expr, Expr], Expr]:
        group = self.layer.group
        return lambda row, k: group.load(self.codes, row * self.padded + k * group.size)

    def recurrent_sum(self, gate: int, units: Units) -> Expr:
        layer, at, offset = self.layer, (E.const(self.direction),), gate * self.layer.hidden
        assert layer.r_sums is not None
        assert layer.r_scale is not None
        sums = [E.load(self.products, self.sums_at(gate, units, p)) for p in range(self.planes)]
        middle = self.read(layer.r_sums, at, units, offset, "int32") * E.const(1 << (self.bits - 1), "int32", units.lanes)
        total = E.cast(sums[-1] - middle, "float32")
        for part in reversed(sums[:-1]):
            total = loops.multiply_add(total, E.const(float(1 << self.bits), "float32", units.lanes), E.cast(part, "float32"))
        scale = E.broadcast(E.load(self._scales[gate], self.inner + units.row), units.lanes)
        return total * (scale * self.read(layer.r_scale, at, units, offset))
