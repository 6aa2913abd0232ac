"""Kernel family ``dense_blocks_pack``: rows times a weight of codes of few bits, with a scale for each block along the depth.

Operands: data [..., K] of float, or int8 with scales [..., K / B]; weight [panels][K / W][p][4], scales and zero points
[panels][K / B][p], as ``nn.contrib_dense_blocks_pack`` says; perhaps a table of 16 numbers. Codes are unpacked in registers.

Of integers, a register tile of sums of int32 takes one block, by dot products of codes (unsigned) and data (signed), and is
added with its scales to a tile of float32. What zero points add to a sum depends on the sum of the block's data only, which each
task takes once. Data of float are multiplied by the numbers that the codes stand for: those of one row as they are unpacked,
those of more from a copy of a part of the depth, which all rows of a task read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.gemm import Product, Rows
from forge.kernels.cpu.micro import micro_kernel
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.loops.dots import FOUR_BYTES, Group
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, Stmt, seq, store

# This many rows share the weights of a panel.
ROW_BLOCK: Final = 256
# Registers beside the two tiles of sums: words, codes, their mask, a scale and what is loaded.
OTHER_REGISTERS: Final = 6
# A loop body has about this many dot products.
BODY: Final = 96

Element = Callable[[Expr, Expr], Expr]
"""(row, k or block) -> scalar"""


@dataclass(frozen=True, kw_only=True)
class BlocksPlan:
    """Sizes of one call. A word holds ``codes`` numbers of one column, ``WORD`` to each dot product."""

    data: Reader
    data_scale: Reader | None
    weight: Buffer
    scale: Reader
    zero: Reader | None
    table: Buffer | None
    result: Writer
    target: Target
    rows: Expr
    depth: int
    units: int
    bits: int
    block_size: int
    panel: int
    lanes: int
    tile_rows: int
    row_block: int
    group: Expr | None = None
    """Which of several weights of these sizes is read; None: there is one."""

    @property
    def codes(self) -> int:
        return 32 // self.bits

    @property
    def words(self) -> int:
        return self.depth // self.codes

    @property
    def blocks(self) -> int:
        return self.depth // self.block_size

    @property
    def panels(self) -> int:
        return -(-self.units // self.panel)

    @property
    def vectors(self) -> int:
        """Vectors of a panel."""
        return self.panel // self.lanes

    def tiles(self, panel: Expr, vectors: int) -> Expr:
        """Counts the tiles of ``vectors`` vectors of a panel that have columns of the result."""
        width = vectors * self.lanes
        whole = E.const(self.panel // width)
        if self.units % self.panel == 0:
            return whole
        return E.binary("min", whole, loops.ceildiv(self.units - panel * self.panel, width))

    def word(self, panel: Expr, number: Expr, vector: Expr) -> Expr:
        """Words ``number`` of a vector of columns."""
        if self.group is not None:
            panel = self.group * self.panels + panel
        place = ((panel * self.words + number) * self.panel + vector * self.lanes) * 4
        return FOUR_BYTES.words(self.weight, place, self.lanes)

    def parameter(self, reader: Reader, panel: Expr, block: Expr, vector: Expr) -> Expr:
        """Scales or zero points of a vector of columns, in float32."""
        lead = [panel] if self.group is None else [self.group, panel]
        return E.cast(reader.read([*lead, block, E.ramp(vector * self.lanes, 1, self.lanes)]), "float32")


PanelOf = Callable[[BlocksPlan, Rows, Expr], Stmt]
"""Some of the rows of a task times one panel of a weight."""

EachPanel = Callable[[Callable[[Expr], Stmt]], Stmt]
"""A statement for each of the panels of a task."""


@kernel("dense_blocks_pack")
def dense_blocks_pack(call: KernelCall) -> Function:
    """data @ weight, by blocks."""
    table = call.operand(5)
    plan = plan_of(call, table)

    def panels(rows: Rows, panel: PanelOf, each: EachPanel) -> Stmt:
        return each(lambda place: panel(plan, rows, place))

    return call.function(row_tasks(plan, panels))


def row_tasks(plan: BlocksPlan, panels: Callable[[Rows, PanelOf, EachPanel], Stmt]) -> Stmt:
    """Tasks of some rows and some panels, each ``panels(rows, panel, each)`` after the rows are prepared."""
    make = _floats if plan.data_scale is None else _integers
    groups = gemm.groups_of(plan.rows, plan.row_block, plan.panels, plan.target)

    def task(rows: Rows, group: Expr) -> Stmt:
        stage, panel = make(plan, rows)

        def each(body: Callable[[Expr], Stmt]) -> Stmt:
            def one(number: Expr) -> Stmt:
                bound, place = loops.bind("panel", number)
                return seq(bound, body(place))

            return gemm.tiles_of_group(group, groups, plan.panels, one)

        return seq(stage, panels(rows, panel, each))

    return gemm.group_tasks(plan.rows, plan.row_block, groups, plan.depth * -(-plan.panels // groups) * plan.panel, task)


def plan_of(call: KernelCall, table: Reader | None = None) -> BlocksPlan:
    """Returns the sizes of a call; of several weights, all have the same."""
    data, data_scale, weight, scale = call.operands[:4]
    if data is None or weight is None or scale is None:
        raise CompileError(f"{call.name}: packed dense of blocks; expected data, a weight and its scales")
    attrs, target = call.attrs, call.target
    words, panel = (loops.known(extent, call.name) for extent in weight.shape[-3:-1])
    depth = words * (32 // attrs.bits)
    rows = loops.product(data.shape[:-1])
    lanes = tiles.vector_lanes(panel, target, "float32")
    if data_scale is None:
        tile_rows = tiles.rows_for(loops.static(rows), min(2, panel // lanes), target.vector_registers, target.costs)
        row_bytes = 4 * depth + tiles.CACHE_LINE
    else:
        tile_rows = max(1, (target.vector_registers - OTHER_REGISTERS) // 2 - 1)
        row_bytes = depth + tiles.CACHE_LINE + 8 * (depth // attrs.block_size)
    if row_bytes > tiles.STACK_LIMIT:
        raise CompileError(f"{call.name}: packed dense of blocks; got a depth of {depth}, of which no row fits on the stack")
    tile_rows = min(tile_rows, loops.static(rows) or tile_rows, tiles.STACK_LIMIT // row_bytes)
    block = gemm.row_block(rows, tile_rows, min(ROW_BLOCK, tiles.STACK_LIMIT // 2 // row_bytes))
    return BlocksPlan(
        data=data, data_scale=data_scale, weight=weight.memory, scale=scale, zero=call.operand(4),
        table=None if table is None else table.memory, result=call.results[0], target=target, rows=rows, depth=depth,
        units=attrs.units, bits=attrs.bits, block_size=attrs.block_size, panel=panel, lanes=lanes, tile_rows=tile_rows,
        row_block=block)


def _elements(plan: BlocksPlan, rows: Rows, dtype: str) -> tuple[Stmt, Buffer, Callable[[Expr], Expr]]:
    """The data as ``dtype``: where they lie, or a copy of the rows of a task; and where a row begins there."""
    data, depth = plan.data, plan.depth
    if data.buffer is not None and data.dtype == dtype:
        return seq(), data.buffer, lambda row: row * depth
    stride = depth + tiles.CACHE_LINE // dtypes.itemsize(dtype)  # rows whose distance is a power of two share lines of the cache

    def read(row: Expr, k: Expr, mask: Expr | None) -> Expr:
        return E.broadcast(E.cast(gemm.read_flat(data, row, k, mask), dtype), k.lanes)

    stage, copy = gemm.copied_rows(rows, dtype, depth, stride, plan.lanes, read)
    return stage, copy, lambda row: (row - rows.begin) * stride


# --- data of int8 ---


def _integers(plan: BlocksPlan, rows: Rows) -> tuple[Stmt, PanelOf]:
    stage, codes, begin = _elements(plan, rows, "int8")
    summed, factor, origin = _block_values(plan, rows, codes, begin)

    def data(row: Expr, k: Expr) -> Expr:
        return FOUR_BYTES.words(codes, begin(row) + k)

    def panel(plan: BlocksPlan, rows: Rows, place: Expr) -> Stmt:
        def tile(first: Expr, count: int, limit: Expr | None) -> Stmt:
            parts = _IntegerTile(plan, place, data, factor, origin, 1, count)
            return loops.serial("vector", plan.tiles(place, 1), lambda v: parts.statement(first, v, limit))

        one = _IntegerTile(plan, place, data, factor, origin, plan.vectors, 1).statement(rows.begin, E.const(0), None)
        return _any_rows(plan, rows, one, lambda: gemm.tiled_rows(rows, plan.tile_rows, tile))

    return seq(stage, summed), panel


def _any_rows(plan: BlocksPlan, rows: Rows, one: Stmt, more: Callable[[], Stmt]) -> Stmt:
    if E.is_const(plan.rows, 1):
        return one
    return more() if rows.total is not None else loops.guard(rows.count.eq(1), one, more())


def _block_values(plan: BlocksPlan, rows: Rows, codes: Buffer, begin: Callable[[Expr], Expr]) -> tuple[Stmt, Element, Element]:
    """For each block of the rows of a task: its scale, and the sum of its data, of float32.

    Where all zero points are the same: what they add to the sums of products, of int32.
    """
    assert plan.data_scale is not None
    scale, count = plan.data_scale, plan.row_block * plan.blocks
    factors = loops.local("factors", "float32", count)
    sums = loops.local("sums", "int32" if plan.zero is None else "float32", count)
    lanes = tiles.vector_lanes(plan.block_size // 4, plan.target, "int32")
    pieces = plan.block_size // (4 * lanes)

    def of_block(row: Expr, block: Expr) -> Stmt:
        total: Expr = E.const(0, "int32", lanes)
        for piece in range(pieces):
            first = begin(rows.begin + row) + block * plan.block_size + piece * 4 * lanes
            total = E.call("dot_u8s8", total, E.const(1, "uint8", 4 * lanes), E.load(codes, E.ramp(first, 1, 4 * lanes)))
        whole = total if lanes == 1 else E.call("reduce_add", total)
        value = whole * E.const(-(1 << (plan.bits - 1)), "int32") if plan.zero is None else E.cast(whole, "float32")
        place, factor = row * plan.blocks + block, E.cast(gemm.read_flat(scale, rows.begin + row, block), "float32")
        return seq(store(sums, place, value), store(factors, place, factor))

    stage = loops.serial("row", rows.count, lambda row: loops.serial("block", plan.blocks, lambda block: of_block(row, block)))

    def value(of: Buffer) -> Element:
        return lambda row, block: E.load(of, (row - rows.begin) * plan.blocks + block)

    return seq(Allocate(factors), Allocate(sums), stage), value(factors), value(sums)


@dataclass(frozen=True)
class _IntegerTile:
    """``rows`` rows times ``vectors`` vectors of a panel; sums of a block of int32, and of all blocks of float32."""

    plan: BlocksPlan
    panel: Expr
    data: Element
    factor: Element
    origin: Element
    vectors: int
    rows: int

    def statement(self, first: Expr, vector: Expr, limit: Expr | None) -> Stmt:
        """The rows from ``first`` on; those from ``limit`` on are computed from the last real row and not written."""
        plan = self.plan
        tile = RegisterTile(self.rows, self.vectors, plan.lanes, "float32")
        sums, totals = Accumulators(RegisterTile(self.rows, self.vectors, plan.lanes, "int32")), Accumulators(tile)
        lets, base = loops.bind("first_row", first)

        def source(row: Expr) -> Expr:
            return base + row if limit is None else E.binary("min", base + row, limit - 1)

        def block(number: Expr) -> Stmt:
            per_block = plan.block_size // plan.codes
            factor = tiles.unroll_for(self.rows * self.vectors * plan.codes // 4, per_block, BODY)
            steps = loops.unroll_by("word", per_block, factor,
                                    lambda word: self._step(sums, source, number * per_block + word, vector))
            return seq(self._start(sums, source, number), steps, self._finish(sums, totals, source, number, vector))

        def write(row: Expr) -> Stmt:
            written = _writer(plan, tile, self.panel, vector)(base + row, lambda v: totals.get(row, v))
            return written if limit is None else loops.guard(base + row < limit, written)

        return seq(sums.allocate(), totals.allocate(), lets, totals.clear(), loops.serial("block", plan.blocks, block),
                   loops.unroll("row", self.rows, write))

    def _start(self, sums: Accumulators, source: Callable[[Expr], Expr], block: Expr) -> Stmt:
        if self.plan.zero is not None:
            return sums.clear()
        return sums.each(lambda row, v: sums.set(row, v, E.broadcast(self.origin(source(row), block), self.plan.lanes)))

    def _step(self, sums: Accumulators, source: Callable[[Expr], Expr], word: Expr, vector: Expr) -> Stmt:
        """One word: all its codes times as many data."""
        plan, parts = self.plan, list[Stmt]()
        micro = micro_kernel(Group(4, "int8", small=plan.bits < 8), plan.target)
        words = [loops.bound(plan.word(self.panel, word, vector + v), parts, f"word{v}") for v in range(self.vectors)]

        def part(number: int) -> Stmt:
            return micro.step(sums, lambda row: self.data(source(row), word * plan.codes + 4 * number),
                              lambda v: _codes(words[v], number, plan.bits))

        return seq(parts, map(part, range(plan.codes // 4)))

    def _finish(
        self, sums: Accumulators, totals: Accumulators, source: Callable[[Expr], Expr], block: Expr, vector: Expr
    ) -> Stmt:
        """Adds the sums of a block."""
        plan = self.plan
        parts: list[Stmt] = []
        scales = [loops.bound(plan.parameter(plan.scale, self.panel, block, vector + v), parts) for v in range(self.vectors)]
        zeros = [None if plan.zero is None else loops.bound(plan.parameter(plan.zero, self.panel, block, vector + v), parts)
                 for v in range(self.vectors)]

        def add(row: Expr) -> Stmt:
            lets, factor = loops.bind("factor", E.broadcast(self.factor(source(row), block), plan.lanes))
            changed: list[Stmt] = []
            for v, (scale, zero) in enumerate(zip(scales, zeros)):
                whole = E.cast(sums.get(row, v), "float32")
                if zero is not None:
                    origin = E.broadcast(-self.origin(source(row), block), plan.lanes)
                    whole = E.call("fma", zero, origin, whole)
                changed.append(totals.set(row, v, E.call("fma", whole, scale * factor, totals.get(row, v))))
            return seq(lets, changed)

        return seq(parts, loops.unroll("row", self.rows, add))


def _codes(words: Expr, part: int, bits: int) -> Expr:
    """Four codes of each word, a byte each."""
    shifted = E.binary("shr", words, part * bits) if part else words
    return shifted & int.from_bytes(bytes([(1 << bits) - 1]) * 4, "little") if bits < 8 else shifted


# --- data of float ---


def _floats(plan: BlocksPlan, rows: Rows) -> tuple[Stmt, PanelOf]:
    stage, data, begin = _elements(plan, rows, "float32")

    def scalar(row: Expr, k: Expr) -> Expr:
        return E.load(data, begin(row) + k)

    def panel(plan: BlocksPlan, rows: Rows, place: Expr) -> Stmt:
        tile = RegisterTile(1, plan.vectors, plan.lanes, "float32")
        product = Product(tile, E.const(plan.depth), scalar, lambda k, v: _number(plan, place, k, E.const(v)),
                          micro_kernel(Group(1, "float32"), plan.target), _writer(plan, tile, place, E.const(0)))
        return _any_rows(plan, rows, gemm.single_row(product, rows.begin), lambda: _tile_columns(plan, rows, place, scalar))

    return stage, panel


def _number(plan: BlocksPlan, panel: Expr, k: Expr, vector: Expr) -> Expr:
    """What codes k of a vector of columns stand for."""
    shift = E.cast(k % 4 * 8 + k % plan.codes // 4 * plan.bits, FOUR_BYTES.word)
    word = plan.word(panel, k // plan.codes, vector)
    code = E.binary("shr", word, E.broadcast(shift, plan.lanes)) & ((1 << plan.bits) - 1)
    block = k // plan.block_size
    if plan.table is not None:
        return E.load(plan.table, E.cast(code, E.INDEX)) * plan.parameter(plan.scale, panel, block, vector)
    middle = E.const(float(1 << (plan.bits - 1)), "float32", plan.lanes)
    zero = middle if plan.zero is None else plan.parameter(plan.zero, panel, block, vector)
    real = E.cast(E.call("reinterpret", code, dtype="int32"), "float32")
    return (real - zero) * plan.parameter(plan.scale, panel, block, vector)


def _writer(plan: BlocksPlan, tile: RegisterTile, panel: Expr, vector: Expr) -> gemm.FinishRow:
    column = panel * plan.panel + vector * plan.lanes
    return lambda row, value: gemm.write_units(plan.result, tile, plan.units, row, column, value)


def _tile_columns(plan: BlocksPlan, rows: Rows, panel: Expr, scalar: Element) -> Stmt:
    """A panel, tile by tile of its columns; each takes parts of the depth one after the other."""
    vectors = min(2, plan.vectors)
    tile = RegisterTile(plan.tile_rows, vectors, plan.lanes, "float32")
    part = tiles.even_blocks(plan.depth, max(plan.codes, tiles.part_bytes(plan.target) // (4 * tile.width)))
    copy = loops.local("numbers", "float32", part * tile.width)

    def columns(number: Expr) -> Stmt:
        lets, vector = loops.bind("vector", number * vectors)

        def of_part(first: Expr, steps: int, finish: gemm.FinishRow, start: gemm.Start, is_last: bool) -> Stmt:
            def fill(k: Expr) -> Stmt:
                return seq(store(copy, k * tile.width + E.ramp(v * plan.lanes, 1, plan.lanes),
                                 _number(plan, panel, first + k, vector + v)) for v in range(vectors))

            product = Product(tile, E.const(steps), lambda row, k: scalar(row, first + k),
                              lambda k, v: E.load(copy, k * tile.width + E.ramp(v * plan.lanes, 1, plan.lanes)),
                              micro_kernel(Group(1, "float32"), plan.target), finish, start)
            return seq(loops.unroll_by("k", steps, plan.codes, fill), gemm.row_tiles(product, rows))

        return seq(lets, gemm.in_parts(tile, rows, plan.depth, part, of_part, _writer(plan, tile, panel, vector)))

    return seq(Allocate(copy), loops.serial("columns", plan.tiles(panel, vectors), columns))
