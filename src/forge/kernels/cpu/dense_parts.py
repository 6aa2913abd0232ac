"""Kernel family ``dense_parts_pack``: rows of float32 times a constant weight, both as sums of a few bfloat16.

Operands: data [..., K] of float32, and weight [P][ceil(N / n)][K / 2][n][2] of bfloat16, whose P parts add up to the weight, or
nearly where there are two. Result [..., N] with N = ``attrs.units``.

The largest products of parts are added in tile registers (``micro/parts.py``); with three parts errors are smaller than those of
multiply-adds. That holds for rows whose largest number is neither so small that parts would be subnormal, which tile registers
take for 0, nor so large that they would overflow: other rows, those with infinities and NaN, and all rows where there are no tile
registers, are computed by multiply-adds with the weight that the parts add up to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forge import loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.gemm import Product, Rows, RowValue
from forge.kernels.cpu.micro import COLUMNS, PartsProduct, Right
from forge.kernels.cpu.micro.parts import PRODUCTS, halves, is_usual, store_parts
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.loops.dots import BITS, Group
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import TILE_ROWS, Allocate, Function, Stmt, seq, store

PAIRS: Final = Group(2, "bfloat16")
# This many rows share one pass over a column tile.
ROW_BLOCK: Final = 256
# Cycles in which parts of one number are made.
SPLIT_CYCLES: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class PartsPlan:
    """Sizes of one call."""

    data: Reader
    weight: Buffer
    result: Writer
    target: Target
    rows: Expr
    depth: int
    units: int
    panel: int
    panels: int
    parts: int
    tile: RegisterTile
    row_block: int

    @property
    def steps(self) -> int:
        return self.depth // PAIRS.size

    @property
    def in_tiles(self) -> bool:
        """Whether there are tile registers for the products."""
        return PAIRS.dtype in self.target.isa.tiles


def is_faster(units: int, rows: int, depth: int, parts: int, target: Target) -> bool:
    """Returns whether this takes fewer cycles than multiply-adds, by estimates, and can be computed at all."""
    if depth % (PAIRS.size * COLUMNS) or rows < TILE_ROWS or TILE_ROWS * _row_bytes(depth, parts) > tiles.STACK_LIMIT // 2:
        return False
    count, extra = len(PRODUCTS[parts]), SPLIT_CYCLES * rows * depth
    return tiles.parts_are_faster(rows * units * depth, units * depth, COLUMNS, parts, count, extra, target)


def _row_bytes(depth: int, parts: int) -> int:
    """Bytes of the parts of a row."""
    return parts * 2 * depth


def _plan(call: KernelCall) -> PartsPlan:
    data, weight = call.readers
    parts, panels, steps, panel, size = (loops.known(extent, call.name) for extent in weight.shape)
    if parts not in PRODUCTS or size != PAIRS.size or steps % COLUMNS or panel % COLUMNS:
        raise CompileError(
            f"{call.name}: weight in parts; got {parts} parts of [{steps}][{panel}][{size}]; expected 2 or 3 of whole tiles")
    lanes, rows = call.target.lanes("float32"), loops.product(data.shape[:-1])
    known = loops.static(rows)
    vectors, tile_rows = gemm.tile_of_registers(known, COLUMNS if panel % (2 * COLUMNS) else None, lanes)
    most = tiles.STACK_LIMIT // 2 // _row_bytes(steps * size, parts)
    if most < TILE_ROWS:
        raise CompileError(f"{call.name}: a depth of {steps * size}, of which too few rows fit on the stack")
    tile_rows = min(tile_rows, most // TILE_ROWS * TILE_ROWS)
    return PartsPlan(
        data=data, weight=weight.memory, result=call.results[0], target=call.target, rows=rows, depth=steps * size,
        units=int(call.attrs.units), panel=panel, panels=panels, parts=parts,
        tile=RegisterTile(tile_rows, vectors, lanes, "float32"),
        row_block=gemm.row_block(rows, tile_rows, min(ROW_BLOCK, most)))


@kernel("dense_parts_pack")
def dense_parts_pack(call: KernelCall) -> Function:
    """data @ weight, by parts."""
    plan = _plan(call)
    count = plan.panels * (plan.panel // plan.tile.width)
    groups = gemm.groups_of(plan.rows, plan.row_block, count, plan.target)

    def task(rows: Rows, group: Expr) -> Stmt:
        some = _Task(plan, rows)
        return seq(some.stage(), gemm.tiles_of_group(group, groups, count, some.column_tile))

    work = plan.depth * -(-count // groups) * plan.tile.width
    return call.function(gemm.group_tasks(plan.rows, plan.row_block, groups, work, task))


class _Task:
    """A block of rows, whose parts lie one after the other on the stack: row by row, those of a row together."""

    def __init__(self, plan: PartsPlan, rows: Rows) -> None:
        self.plan, self.rows = plan, rows
        self.copy = loops.local("parts", BITS, plan.row_block * plan.parts * plan.depth)
        self.usual = loops.local("usual", "int32", plan.row_block)
        """By row: 1 where parts may be multiplied, else 0."""

    def stage(self) -> Stmt:
        """Makes parts of the rows of data."""
        if not self.plan.in_tiles:
            return seq()
        return seq(Allocate(self.copy), Allocate(self.usual), loops.serial("row", self.rows.count, self._split))

    def _split(self, row: Expr) -> Stmt:
        plan, lanes = self.plan, self.plan.tile.lanes
        largest = Accumulators(RegisterTile(1, 1, lanes, "float32"), "max")
        base = row * (plan.parts * plan.depth)

        def vector(n: Expr) -> Stmt:
            lets, k = list[Stmt](), E.ramp(n * lanes, 1, lanes)
            x = loops.bound(E.cast(gemm.read_flat(plan.data, self.rows.begin + row, k), "float32"), lets, "x")
            place = E.ramp(base + n * lanes, 1, lanes)
            parts = store_parts(self.copy, place, x, None, PAIRS, plan.parts, plan.depth)
            return seq(lets, largest.step(0, E.call("abs", x)), parts)

        usual = is_usual(largest.total())
        return seq(largest.start(), loops.serial("k", plan.depth // lanes, vector),
                   store(self.usual, row, E.select(usual, E.const(1, "int32"), E.const(0, "int32"))))

    def column_tile(self, number: Expr) -> Stmt:
        """Computes a column tile of all rows."""
        plan = self.plan
        per_panel = plan.panel // plan.tile.width
        lets = list[Stmt]()
        panel = loops.bound(number // per_panel, lets, "panel")
        first = loops.bound(number % per_panel * (plan.tile.width // plan.tile.lanes), lets, "first_vector")
        column = loops.bound(number * plan.tile.width, lets, "column")

        def left(row: Expr, step: Expr) -> Expr:
            return PAIRS.load(self.copy, (row - self.rows.begin) * (plan.parts * plan.depth) + step * PAIRS.size)

        def words(step: Expr, vector: int) -> Expr:
            place = (panel * plan.steps + step) * plan.panel + (first + vector) * plan.tile.lanes
            return PAIRS.weights(plan.weight, place * PAIRS.size, plan.tile.lanes)

        def write(row: Expr, value: RowValue) -> Stmt:
            return gemm.write_units(plan.result, plan.tile, plan.units, row, column, value)

        def has_parts(row: Expr) -> Expr:
            return E.load(self.usual, row - self.rows.begin).ne(0)

        def by_multiply_adds(row: Expr) -> Stmt:
            return self._by_multiply_adds(row, words, write)

        if not plan.in_tiles:
            return seq(lets, loops.serial("row", self.rows.count, lambda row: by_multiply_adds(self.rows.begin + row)))
        part = plan.panels * plan.steps * plan.panel * PAIRS.size
        micro = PartsProduct(PAIRS, parts=plan.parts, left_part=plan.depth, right_part=part)
        product = Product(plan.tile, E.const(plan.steps), left, words, micro,
                          lambda row, value: loops.guard(has_parts(row), write(row, value)))
        others = loops.serial("row", self.rows.count, lambda row: loops.guard(
            has_parts(self.rows.begin + row), seq(), by_multiply_adds(self.rows.begin + row)))
        return seq(lets, gemm.row_tiles(product, self.rows), others)

    def _by_multiply_adds(self, row: Expr, words: Right, write: gemm.FinishRow) -> Stmt:
        """Computes a row with the weight that the parts add up to."""
        plan, tile = self.plan, self.plan.tile
        sums = Accumulators(RegisterTile(1, tile.vectors, tile.lanes, "float32"))

        def step(k: Expr) -> Stmt:
            lets = list[Stmt]()
            numbers = [loops.bound(E.broadcast(E.cast(gemm.read_flat(plan.data, row, 2 * k + i), "float32"), tile.lanes), lets)
                       for i in range(2)]
            for v in range(tile.vectors):
                parts = [loops.bound(words(k + part * plan.panels * plan.steps, v), lets) for part in range(plan.parts)]
                total = sums.get(0, v)
                for number, factor in zip(numbers, halves(parts)):
                    total = loops.multiply_add(number, factor, total)
                lets.append(sums.set(0, v, total))
            return seq(lets)

        return seq(sums.start(), loops.serial("k", plan.steps, step), write(row, lambda v: sums.get(0, v)))
