"""Kernel family ``dense_parts_pack``: rows of float32 times a constant weight, both as sums of a few bfloat16.

Operands: data [..., K] of float32, and weight [P][ceil(N / n)][K / 2][n][2] of bfloat16, whose P parts add up to the weight, or
nearly where there are two. Result [..., N] with N = ``attrs.units``.

The largest products of parts are added in tile registers (``micro/parts.py``); with three parts errors are smaller than those of
multiply-adds. That holds for rows whose largest number is neither so small that parts would be subnormal, which tile registers
take for 0, nor so large that they would overflow: other rows, those with infinities and NaN, and all rows where there are no tile
registers, are computed by multiply-adds with the weight that the parts add up to.

A task makes parts of a block of rows. Where there is no room for those of enough rows to share the weights, one part of K follows
the other, with partial sums of all column tiles of the task on the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from forge import loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.gemm import Ahead, Product, Rows, RowValue
from forge.kernels.cpu.micro import COLUMNS, PartsProduct
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
# Of fewer rows, reading weights would take longer than multiplying them: more take K part by part, and so share the weights.
FEW_ROWS: Final = 64
SHARED_ROWS: Final = 128
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
    part: int
    """Steps of K of which a task has the parts of its rows at a time."""

    @property
    def steps(self) -> int:
        return self.depth // PAIRS.size

    @property
    def is_whole(self) -> bool:
        """Whether a task has the parts of whole rows."""
        return self.part == self.steps

    @property
    def column_tiles(self) -> int:
        return self.panels * (self.panel // self.tile.width)

    @property
    def column_groups(self) -> int:
        """Tasks of a block of rows, each of which makes its parts: few, whose partial sums there is room for."""
        groups = gemm.groups_of(self.rows, self.row_block, self.column_tiles, self.target)
        if self.is_whole:
            return groups
        most = tiles.STACK_LIMIT // 3 // (4 * self.row_block * self.tile.width)
        return max(groups, -(-self.column_tiles // most))

    @property
    def in_tiles(self) -> bool:
        """Whether there are tile registers for the products."""
        return PAIRS.dtype in self.target.isa.tiles


def is_faster(units: int, rows: int, depth: int, parts: int, target: Target) -> bool:
    """Returns whether this takes fewer cycles than multiply-adds, by estimates, and can be computed at all."""
    if depth % (PAIRS.size * COLUMNS) or rows < TILE_ROWS:
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
    room = tiles.STACK_LIMIT // 2
    most, part = room // _row_bytes(steps * size, parts), steps
    if most >= min(FEW_ROWS, FEW_ROWS if known is None else loops.round_up(known, TILE_ROWS)):
        block = gemm.row_block(rows, tile_rows, min(ROW_BLOCK, most))
    else:
        block = gemm.row_block(rows, tile_rows, SHARED_ROWS)
        part = tiles.even_blocks(steps // COLUMNS, room // _row_bytes(COLUMNS * size, parts) // block) * COLUMNS
    return PartsPlan(
        data=data, weight=weight.memory, result=call.results[0], target=call.target, rows=rows, depth=steps * size,
        units=int(call.attrs.units), panel=panel, panels=panels, parts=parts,
        tile=RegisterTile(tile_rows, vectors, lanes, "float32"), row_block=block, part=part)


@kernel("dense_parts_pack")
def dense_parts_pack(call: KernelCall) -> Function:
    """data @ weight, by parts."""
    plan = _plan(call)
    groups = plan.column_groups
    work = plan.depth * -(-plan.column_tiles // groups) * plan.tile.width
    return call.function(gemm.group_tasks(
        plan.rows, plan.row_block, groups, work, lambda rows, group: _Task(plan, rows, group).statement()))


class _Task:
    """A block of rows, whose parts lie on the stack, those of a row together, times a group of column tiles."""

    def __init__(self, plan: PartsPlan, rows: Rows, group: Expr) -> None:
        self.plan, self.rows, self.group = plan, rows, group
        self.row_size = plan.parts * plan.part * PAIRS.size
        self.copy = loops.local("parts", BITS, plan.row_block * self.row_size)
        self.largest = loops.local("largest", "float32", plan.row_block, plan.tile.lanes)
        """By row: the largest magnitudes so far."""
        self.usual = loops.local("usual", "int32", plan.row_block)
        """By row: 1 where parts may be multiplied, else 0."""

    def statement(self) -> Stmt:
        """Computes all column tiles."""
        plan, rows = self.plan, self.rows
        if not plan.in_tiles:
            return self._each(lambda columns: loops.serial(
                "row", rows.count, lambda row: self._by_multiply_adds(rows.begin + row, columns)))
        before = -(-plan.steps // plan.part) - 1
        room = -(-plan.column_tiles // plan.column_groups) * plan.row_block
        sums = gemm.PartialSums(plan.tile, Rows(E.const(0), E.const(room), None, room))
        cleared = loops.serial("row", rows.count, lambda row: store(
            self.largest, row, E.const(0, "float32", plan.tile.lanes)))

        def part(first: Expr, steps: int, is_last: bool) -> Stmt:
            split = loops.serial("row", rows.count, lambda row: self._split(row, first, steps))
            return seq(split, self._checked() if is_last else seq(), self._each(
                lambda columns: self._products(columns, first, steps, None if plan.is_whole else sums, is_last)))

        inner = loops.serial("part", before, lambda n: part(n * plan.part, plan.part, False))
        return seq(map(Allocate, (self.copy, self.largest, self.usual)), cleared, seq() if plan.is_whole else sums.start(), inner,
                   part(E.const(before * plan.part), plan.steps - before * plan.part, True))

    def _split(self, row: Expr, first: Expr, steps: int) -> Stmt:
        """Makes parts of ``steps`` steps of a row from the first one on."""
        plan, lanes = self.plan, self.plan.tile.lanes
        largest = Accumulators(RegisterTile(1, 1, lanes, "float32"), "max")
        base = row * self.row_size

        def vector(n: Expr) -> Stmt:
            lets, k = list[Stmt](), E.ramp(first * PAIRS.size + n * lanes, 1, lanes)
            x = loops.bound(E.cast(gemm.read_flat(plan.data, self.rows.begin + row, k), "float32"), lets, "x")
            place = E.ramp(base + n * lanes, 1, lanes)
            parts = store_parts(self.copy, place, x, None, PAIRS, plan.parts, plan.part * PAIRS.size)
            return seq(lets, largest.step(0, E.call("abs", x)), parts)

        return seq(largest.allocate(), largest.set(0, 0, E.load(self.largest, row)),
                   loops.serial("k", steps * PAIRS.size // lanes, vector), store(self.largest, row, largest.get(0, 0)))

    def _checked(self) -> Stmt:
        """Says of each row whether its parts may be multiplied."""
        one, zero = E.const(1, "int32"), E.const(0, "int32")
        return loops.serial("row", self.rows.count, lambda row: store(self.usual, row, E.select(
            is_usual(E.call("reduce_max", E.load(self.largest, row))), one, zero)))

    def _each(self, body: Callable[[_Columns], Stmt]) -> Stmt:
        """Runs ``body`` for the column tiles of the task."""
        def numbered(number: Expr) -> Stmt:
            lets, tile = loops.bind("column_tile", number)
            return seq(lets, body(_Columns(self.plan, tile)))

        return gemm.tiles_of_group(self.group, self.plan.column_groups, self.plan.column_tiles, numbered)

    def _products(self, columns: _Columns, first: Expr, steps: int, sums: gemm.PartialSums | None, is_last: bool) -> Stmt:
        """Adds the products of ``steps`` steps from the first one on to ``sums``; the last ones are written."""
        plan, rows = self.plan, self.rows
        if sums is not None:
            begin = columns.number - self.group * plan.column_tiles // plan.column_groups
            sums = sums.from_row(rows.begin - begin * rows.block)

        def left(row: Expr, step: Expr) -> Expr:
            return PAIRS.load(self.copy, (row - rows.begin) * self.row_size + step * PAIRS.size)

        def has_parts(row: Expr) -> Expr:
            return E.load(self.usual, row - rows.begin).ne(0)

        def write(row: Expr, value: RowValue) -> Stmt:
            return loops.guard(has_parts(row), columns.write(row, value))

        weights = plan.panels * plan.steps * plan.panel * PAIRS.size
        micro = PartsProduct(PAIRS, parts=plan.parts, left_part=plan.part * PAIRS.size, right_part=weights)
        following = Ahead(plan.weight, columns.after.place(first, 0) * PAIRS.size, steps, plan.tile.width * PAIRS.size,
                          plan.panel * PAIRS.size, plan.parts, weights)
        product = Product(plan.tile, E.const(steps), left, lambda k, v: columns.words(first + k, v), micro,
                          write if is_last or sums is None else sums.keep, None if sums is None else sums.load, ahead=following)
        if not is_last:
            return gemm.row_tiles(product, rows)
        others = loops.serial("row", rows.count, lambda row: loops.guard(
            has_parts(rows.begin + row), seq(), self._by_multiply_adds(rows.begin + row, columns)))
        return seq(gemm.row_tiles(product, rows), others)

    def _by_multiply_adds(self, row: Expr, columns: _Columns) -> Stmt:
        """Computes a row with the weight that the parts add up to."""
        plan, tile = self.plan, self.plan.tile
        sums = Accumulators(RegisterTile(1, tile.vectors, tile.lanes, "float32"))

        def step(k: Expr) -> Stmt:
            lets = list[Stmt]()
            numbers = [loops.bound(E.broadcast(E.cast(gemm.read_flat(plan.data, row, 2 * k + i), "float32"), tile.lanes), lets)
                       for i in range(2)]
            for v in range(tile.vectors):
                parts = [loops.bound(columns.words(k + part * plan.panels * plan.steps, v), lets) for part in range(plan.parts)]
                total = sums.get(0, v)
                for number, factor in zip(numbers, halves(parts)):
                    total = loops.multiply_add(number, factor, total)
                lets.append(sums.set(0, v, total))
            return seq(lets)

        return seq(sums.start(), loops.serial("k", plan.steps, step), columns.write(row, lambda v: sums.get(0, v)))


@dataclass(frozen=True)
class _Columns:
    """A column tile."""

    plan: PartsPlan
    number: Expr

    @property
    def after(self) -> _Columns:
        """The next one."""
        return replace(self, number=self.number + 1)

    def place(self, step: Expr, vector: int) -> Expr:
        """Returns the number of the first pair of a vector of weights, in the first part."""
        plan = self.plan
        per_panel, vectors = plan.panel // plan.tile.width, plan.tile.width // plan.tile.lanes
        panel, first = self.number // per_panel, self.number % per_panel * vectors
        return (panel * plan.steps + step) * plan.panel + (first + vector) * plan.tile.lanes

    def words(self, step: Expr, vector: int) -> Expr:
        """Loads a vector of pairs of weights; those of the next part are as many steps further as all panels have."""
        return PAIRS.weights(self.plan.weight, self.place(step, vector) * PAIRS.size, self.plan.tile.lanes)

    def write(self, row: Expr, value: RowValue) -> Stmt:
        """Writes a row."""
        tile = self.plan.tile
        return gemm.write_units(self.plan.result, tile, self.plan.units, row, self.number * tile.width, value)
