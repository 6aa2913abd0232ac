"""Products of weights with vectors, for recurrent layers: rows of weights as they are, or panels of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from forge import loops
from forge.errors import CompileError
from forge.kernels.cpu.gemm import Product, Rows, RowValue, row_tiles, tile_of_registers
from forge.kernels.cpu.micro import COLUMNS, Left, Right, micro_kernel
from forge.kernels.cpu.tiles import divisors
from forge.loops import Accumulators, RegisterTile, Vectorizer
from forge.loops.contract import Reader
from forge.schedule.transpose import lane_sums
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Let, Stmt, loop, seq, store

if TYPE_CHECKING:
    from forge.kernels.cpu.rnn_layer import Layer

# A loop body has about this many products of vectors; with more LLVM moves loads of codes so far ahead that registers run out.
BODY: Final = 16


def weight_rows(
    weights: Reader, direction: int, first: int = 0, rows: int | None = None, zero: Reader | None = None
) -> Callable[[Expr, Expr], Expr]:
    """Reads row n (from ``first`` on; the last one again past the end) of one direction's weights, without its zero point."""
    count = loops.known(weights.shape[1], "rnn: the number of gates") if rows is None else rows
    d = E.const(direction)

    def read(n: Expr, k: Expr) -> Expr:
        row = E.binary("min", n, E.const(count - 1)) + first
        value = weights.read((d, row, k))
        return value if zero is None else E.cast(value, "int32") - E.cast(zero.read((d, row)), "int32")

    return read


@dataclass(frozen=True, eq=False)
class Sample:
    """A vector to multiply: its element k, and its row in the buffer of products."""

    read: Callable[[Expr], Expr]
    row: Expr


class Tiles:
    """Dot products of samples with consecutive rows of weights: ``out[sample.row, first + n] = sum_k weights[n, k] * sample[k]``.

    A tile has ``columns`` rows of weights, so that there are as many products as lanes; ``number`` is the loop variable over
    the ``count`` tiles.
    """

    def __init__(self, layer: Layer, depth: Expr, weights: Callable[[Expr, Expr], Expr], samples: Sequence[Sample],
                 out: Buffer, width: int, rows: int, first: int = 0) -> None:
        self.layer, self.depth, self.weights, self.samples = layer, depth, weights, samples
        self.out, self.width, self.first, self.dtype = out, width, first, out.dtype
        self.columns = layer.lanes // len(samples)
        self.count = -(-rows // self.columns)
        self.number = E.var("tile")

    def tile(self) -> Stmt:
        """Computes the products of a tile and stores them."""
        layer = self.layer
        accumulators = Accumulators(RegisterTile(1, layer.lanes, layer.lanes, self.dtype), "sum", layer.target)
        columns = [E.var(f"n{n}") for n in range(self.columns)]
        parts: list[Stmt] = [Let(name, self.number * self.columns + n) for n, name in enumerate(columns)]
        parts.append(accumulators.start())
        left_over = self._multiply(accumulators, columns, parts)
        total = lane_sums([accumulators.get(0, k) for k in range(layer.lanes)], parts)
        if left_over is not None:
            total = total + E.load(left_over, E.ramp(0, 1, layer.lanes))
        return seq(parts, self._save(total))

    def _multiply(self, accumulators: Accumulators, columns: Sequence[Expr], parts: list[Stmt]) -> Buffer | None:
        """Appends the loop over the depth to ``parts``; returns the sums of what is left over after its vectors, if any."""
        layer = self.layer
        depth = loops.static(self.depth)
        exact = layer.masked or depth is not None and depth % layer.lanes == 0
        left_over = loops.local("rest", self.dtype, layer.lanes)

        def step(at: Expr, lanes: int, mask: Expr | None, count: int) -> Stmt:
            lets, products = self._products(columns, at, lanes, mask)
            if lanes == layer.lanes:
                return seq(lets, (accumulators.step(k, p, mask) for k, p in enumerate(products)))
            return seq(lets, (store(left_over, k, E.load(left_over, k) + p) for k, p in enumerate(products)))

        if not exact:
            zero = E.const(0, self.dtype)
            parts += [Allocate(left_over), *(store(left_over, k, zero) for k in range(layer.lanes))]
        parts.append(loops.group_loop(self.depth, layer.lanes, step, 1, layer.masked))
        return None if exact else left_over

    def _products(self, columns: Sequence[Expr], at: Expr, lanes: int, mask: Expr | None) -> tuple[list[Stmt], list[Expr]]:
        k = E.var("k")
        vector = Vectorizer(k, at, lanes, mask)
        lets: list[Stmt] = []

        def bound(x: Expr, name: str) -> Expr:
            return loops.bound(E.broadcast(E.cast(vector.expr(x), self.dtype), lanes), lets, name)

        samples = [bound(sample.read(k), "x") for sample in self.samples]
        weights = [bound(self.weights(n, k), "w") for n in columns]
        return lets, [w * x for x, w in itertools.product(samples, weights)]

    def _save(self, total: Expr) -> list[Stmt]:
        """Lanes of one sample lie together."""
        name = E.Var(self.dtype, self.layer.lanes, "total")
        parts: list[Stmt] = [Let(name, total)]
        for m, sample in enumerate(self.samples):
            order = [E.const(m * self.columns + n) for n in range(self.columns)]
            value = name if len(self.samples) == 1 else E.call("shuffle", name, name, *order, lanes=self.columns)
            start = sample.row * self.width + self.number * self.columns + self.first
            parts.append(store(self.out, E.ramp(start, 1, self.columns), value))
        return parts


class GroupTiles(Tiles):
    """Tiles of bfloat16, whose products are added in groups; the depth is whole vectors of groups."""

    def _multiply(self, accumulators: Accumulators, columns: Sequence[Expr], parts: list[Stmt]) -> None:
        layer, group = self.layer, self.layer.rows_group
        at, k, lanes = E.var("k"), E.var("element"), group.size * self.layer.lanes
        lets, micro = list[Stmt](), micro_kernel(group, layer.target)

        def bound(x: Expr, name: str) -> Expr:
            vector = Vectorizer(k, at * lanes, lanes, None).expr(x)
            return loops.bound(E.call("reinterpret", E.cast(vector, "bfloat16"), dtype=group.word, lanes=layer.lanes), lets, name)

        samples = [bound(sample.read(k), "x") for sample in self.samples]
        weights = [bound(self.weights(n, k), "w") for n in columns]
        added = [
            accumulators.set(0, slot, micro.multiply_add(w, x, accumulators.get(0, slot)))
            for slot, (x, w) in enumerate(itertools.product(samples, weights))
        ]
        parts.append(loop(at, layer.hidden // lanes, seq(lets, added)))


class PanelTiles:
    """Products of samples with weights in panels, ``[D, G * q, K / g, p, g]``: a register tile is some columns of a panel.

    ``data(sample, k)``: group k of a sample, as the layer has them; ``out`` holds panels side by side.
    """

    def __init__(self, layer: Layer, direction: int, data: Left, samples: Rows, out: Buffer, width: int,
                 gates: tuple[int, int]) -> None:
        _, panels, steps, self.panel, _ = (loops.known(extent, "rnn: packed weights") for extent in layer.r.shape)
        if self.panel % layer.lanes:
            raise CompileError(f"kernel rnn: got panels of {self.panel} columns; expected a multiple of {layer.lanes}")
        self.layer, self.group, self.out, self.width, self.steps = layer, layer.group, out, width, steps
        self.data, self.samples = data, samples
        self.tile_shape = self._shape()
        per_gate = panels // layer.gates
        self.first, self.parts = gates[0] * per_gate, self.panel // self.tile_shape.width
        self.base = direction * panels
        self.number, self.count = E.var("tile"), gates[1] * per_gate * self.parts

    @property
    def speed(self) -> int:
        """The speed relative to dot products of vectors."""
        return 1

    def _shape(self) -> RegisterTile:
        samples, lanes = self.samples.block, self.layer.lanes
        vectors = divisors(self.panel // lanes, max(1, self.layer.target.vector_registers // (2 * samples)))[0]
        return RegisterTile(samples, vectors, lanes, self.out.dtype)

    def tile(self) -> Stmt:
        """Computes the products of a tile and stores them."""
        shape, size, lanes = self.tile_shape, self.group.size, self.layer.lanes
        buffer = self.layer.r.memory
        lets, column = loops.bind("column", self.number * shape.width + self.first * self.panel)
        more, start = loops.bind("start", ((self.number // self.parts + (self.base + self.first)) * self.steps * self.panel
                                           + self.number % self.parts * shape.width) * size)

        def weights(k: Expr, v: int) -> Expr:
            return self.group.weights(buffer, start + k * (self.panel * size) + v * lanes * size, lanes)

        def write(row: Expr, v: int, value: Expr) -> Stmt:
            return store(self.out, E.ramp(row * self.width + column + v * lanes, 1, lanes), value)

        return seq(lets, more, self._products(weights, write))

    def _products(self, weights: Right, write: Callable[[Expr, int, Expr], Stmt]) -> Stmt:
        shape = self.tile_shape
        accumulators = Accumulators(shape, "sum", self.layer.target)
        unrolled = max(1, BODY // (shape.rows * shape.vectors))
        products = self.layer.micro.steps(accumulators, self.data, weights, self.steps, unrolled)
        written = accumulators.each(lambda row, v: write(row, v, accumulators.get(row, v)))
        return seq(accumulators.start(), products, written)


class RegisterTiles(PanelTiles):
    """The same in tile registers, which take any number of samples."""

    @property
    def speed(self) -> int:
        costs = self.layer.target.costs
        return max(1, int(COLUMNS * costs.tile_rows * costs.tile_share / self.layer.dots))

    def _shape(self) -> RegisterTile:
        columns, lanes = None if self.panel % (2 * COLUMNS) == 0 else COLUMNS, self.layer.lanes
        vectors, rows = tile_of_registers(self.samples.block, columns, lanes)
        return RegisterTile(rows, vectors, lanes, self.out.dtype)

    def _products(self, weights: Right, write: Callable[[Expr, int, Expr], Stmt]) -> Stmt:
        def finish(row: Expr, value: RowValue) -> Stmt:
            return seq(write(row, v, value(v)) for v in range(self.tile_shape.vectors))

        product = Product(self.tile_shape, E.const(self.steps), self.data, weights, self.layer.micro, finish)
        return row_tiles(product, self.samples)
