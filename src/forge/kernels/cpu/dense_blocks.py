"""Kernel family ``dense_blocks_pack``: rows times a weight of codes of few bits, with a scale for each block along the depth.

Operands: data [..., K] of float, or int8 with scales [..., K / B]; weight [panels][K / W][p][4], scales and zero points
[panels][K / B][p], as ``nn.contrib_dense_blocks_pack`` says; perhaps a table of 16 numbers. Codes are unpacked in registers.

Of integers, a register tile of sums of int32 takes one block, by dot products of codes (unsigned) and data (signed), and is
added with its scales to a tile of float32. What zero points add to a sum depends on the sum of the block's data only, which each
task takes once. Data of float are multiplied by the numbers that the codes stand for: those of one row as they are unpacked,
those of more from a copy of a part of the depth, which all rows of a task read.

In tile registers, which multiply more than one row, integers give the same results to the bit. Data of bfloat16 are multiplied
there by codes less their zero points, which bfloat16 holds exactly; sums of a block are of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.gemm import Product, Rows, RowValue
from forge.kernels.cpu.micro import COLUMNS, MIN_WORDS, TileProduct, micro_kernel, step_words
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.loops.dots import BITS, FOUR_BYTES, Group
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import TILE_ROWS, Allocate, Function, Stmt, seq, store

# This many rows share the weights of a panel.
ROW_BLOCK: Final = 256
# Registers beside the two tiles of sums: words, codes, their mask, a scale and what is loaded.
OTHER_REGISTERS: Final = 6
# A loop body has about this many dot products.
BODY: Final = 96

NUMBERS: Final = Group(1, "float32")
PAIRS: Final = Group(2, "bfloat16")

Element = Callable[[Expr, Expr], Expr]
"""(row, k or block) -> scalar"""

Unpack = Callable[[Expr, Expr, list[Stmt]], list[Expr]]
"""(word, vector of columns, what runs before) -> what the steps of a word multiply in tile registers"""

Add = Callable[[Expr, RowValue, RowValue], tuple[list[Stmt], RowValue]]
"""(row, its sums of a block, its totals before) -> its totals with that block"""


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
    tile: RegisterTile
    row_block: int
    registers: TileProduct | None = None
    """What multiplies more than one row, where tile registers do."""
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
    plan = plan_of(call, call.operand(5))

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
    lanes, vectors = tiles.vector_lanes(panel, target, "float32"), 1
    if data_scale is None:
        vectors = min(2, panel // lanes)
        tile_rows = tiles.rows_for(loops.static(rows), vectors, target.vector_registers, target.costs)
        row_bytes = 4 * depth + tiles.CACHE_LINE
    else:
        tile_rows = max(1, (target.vector_registers - OTHER_REGISTERS) // 2 - 1)
        row_bytes = depth + tiles.CACHE_LINE + 8 * (depth // attrs.block_size)
    if row_bytes > tiles.STACK_LIMIT:
        raise CompileError(f"{call.name}: packed dense of blocks; got a depth of {depth}, of which no row fits on the stack")
    tile_rows = min(tile_rows, loops.static(rows) or tile_rows, tiles.STACK_LIMIT // row_bytes)
    block = gemm.row_block(rows, tile_rows, min(ROW_BLOCK, tiles.STACK_LIMIT // 2 // row_bytes))
    return _in_registers(BlocksPlan(
        data=data, data_scale=data_scale, weight=weight.memory, scale=scale, zero=call.operand(4),
        table=None if table is None else table.memory, result=call.results[0], target=target, rows=rows, depth=depth,
        units=attrs.units, bits=attrs.bits, block_size=attrs.block_size, panel=panel, lanes=lanes,
        tile=RegisterTile(tile_rows, vectors, lanes, "float32"), row_block=block))


def _in_registers(plan: BlocksPlan) -> BlocksPlan:
    """The plan in tile registers, where they multiply such data, a step is long enough, and enough rows fit on the stack."""
    group, known, depth = _group(plan), loops.static(plan.rows), plan.depth
    micro, words = micro_kernel(group, plan.target, tiles=True), step_words(plan.block_size // group.size)
    copied = dtypes.itemsize(group.dtype) * depth + tiles.CACHE_LINE if _ready(plan.data, group) is None else 0
    most = tiles.STACK_LIMIT // 2 // max(1, copied + (0 if plan.data_scale is None else 8 * plan.blocks))
    is_small = known == 1 or plan.panel % COLUMNS or words < MIN_WORDS or most < TILE_ROWS
    if is_small or not isinstance(micro, TileProduct):
        return plan
    vectors, rows = gemm.tile_of_registers(known, COLUMNS if plan.panel % (2 * COLUMNS) else None, plan.lanes)
    rows = min(rows, most // TILE_ROWS * TILE_ROWS)
    return replace(plan, tile=RegisterTile(rows, vectors, plan.lanes, "float32"), registers=replace(micro, words=words),
                   row_block=gemm.row_block(plan.rows, rows, min(ROW_BLOCK, most)))


def _group(plan: BlocksPlan) -> Group:
    """What a step multiplies, in tile registers if there are some."""
    if plan.data_scale is not None:
        return Group(4, "int8", small=plan.bits < 8)
    return PAIRS if plan.data.dtype == "bfloat16" and plan.table is None else NUMBERS


def _ready(data: Reader, group: Group) -> Buffer | None:
    """Where the data lie as steps take them; None: nowhere."""
    return data.buffer if data.dtype == group.dtype else None


def _elements(plan: BlocksPlan, rows: Rows, group: Group) -> tuple[Stmt, Buffer, Callable[[Expr], Expr]]:
    """The data as steps take them: where they lie, or a copy of the rows of a task; and where a row begins there."""
    data, depth, dtype, ready = plan.data, plan.depth, group.copied, _ready(plan.data, group)
    if ready is not None:
        return seq(), ready, lambda row: row * depth
    stride = depth + tiles.CACHE_LINE // dtypes.itemsize(dtype)  # rows whose distance is a power of two share lines of the cache

    def read(row: Expr, k: Expr, mask: Expr | None) -> Expr:
        return E.broadcast(group.copy(gemm.read_flat(data, row, k, mask)), k.lanes)

    stage, copy = gemm.copied_rows(rows, dtype, depth, stride, plan.lanes, read)
    return stage, copy, lambda row: (row - rows.begin) * stride


# --- data of int8 ---


def _integers(plan: BlocksPlan, rows: Rows) -> tuple[Stmt, PanelOf]:
    stage, codes, begin = _elements(plan, rows, _group(plan))
    summed, factor, origin = _block_values(plan, rows, codes, begin)

    def data(row: Expr, k: Expr) -> Expr:
        return FOUR_BYTES.words(codes, begin(row) + k)

    def panel(plan: BlocksPlan, rows: Rows, place: Expr) -> Stmt:
        def tile(first: Expr, count: int, limit: Expr | None) -> Stmt:
            parts = _IntegerTile(plan, place, data, scales, 1, count)
            return loops.serial("vector", plan.tiles(place, 1), lambda v: parts.statement(first, v, limit))

        def unpack(word: Expr, vector: Expr, parts: list[Stmt]) -> list[Expr]:
            words = loops.bound(plan.word(place, word, vector), parts, "words")
            return [_codes(words, part, plan.bits) for part in range(plan.codes // 4)]

        def many() -> Stmt:
            if plan.registers is not None:
                return _RegisterPanel(plan, plan.registers, rows, place, data, unpack, scales).statement()
            return gemm.tiled_rows(rows, plan.tile.rows, tile)

        scales = _Scales(plan, place, factor, origin)
        one = _IntegerTile(plan, place, data, scales, plan.vectors, 1).statement(rows.begin, E.const(0), None)
        return _any_rows(plan, rows, one, many)

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
        def add(total: Expr, piece: Expr | int) -> Expr:
            first = begin(rows.begin + row) + block * plan.block_size + piece * 4 * lanes
            return E.call("dot_u8s8", total, E.const(1, "uint8", 4 * lanes), E.load(codes, E.ramp(first, 1, 4 * lanes)))

        total: Expr = E.const(0, "int32", lanes)
        summed = seq()
        if pieces <= BODY:
            total = reduce(add, range(pieces), total)
        else:
            many = Accumulators(RegisterTile(1, 1, lanes, "int32"))
            added = loops.unroll_by("piece", pieces, BODY, lambda piece: many.set(0, 0, add(many.get(0, 0), piece)))
            total, summed = many.get(0, 0), seq(many.start(), added)
        whole = total if lanes == 1 else E.call("reduce_add", total)
        value = whole * E.const(-(1 << (plan.bits - 1)), "int32") if plan.zero is None else E.cast(whole, "float32")
        place, factor = row * plan.blocks + block, E.cast(gemm.read_flat(scale, rows.begin + row, block), "float32")
        return seq(summed, store(sums, place, value), store(factors, place, factor))

    stage = loops.serial("row", rows.count, lambda row: loops.serial("block", plan.blocks, lambda block: of_block(row, block)))

    def value(of: Buffer) -> Element:
        return lambda row, block: E.load(of, (row - rows.begin) * plan.blocks + block)

    return seq(Allocate(factors), Allocate(sums), stage), value(factors), value(sums)


@dataclass(frozen=True)
class _Scales:
    """How the sums of a block of a panel are added to those of all blocks; ``factor`` and ``origin``: of data of int8."""

    plan: BlocksPlan
    panel: Expr
    factor: Element | None = None
    origin: Element | None = None

    def start(self, block: Expr) -> gemm.Start | None:
        """What the products of a block are added to; None: 0."""
        origin, lanes = self.origin, self.plan.lanes
        return None if origin is None or self.plan.zero is not None else lambda row, v: E.broadcast(origin(row, block), lanes)

    def add(self, block: Expr, vector: Expr, vectors: int, parts: list[Stmt]) -> Add:
        """Loads the scales of some columns; returns what adds the sums of a row."""
        plan, factor, origin = self.plan, self.factor, self.origin
        scales = [loops.bound(plan.parameter(plan.scale, self.panel, block, vector + v), parts) for v in range(vectors)]
        if factor is None or origin is None:
            return lambda row, sums, totals: ([], lambda v: E.call("fma", sums(v), scales[v], totals(v)))
        zeros = [None if plan.zero is None else loops.bound(plan.parameter(plan.zero, self.panel, block, vector + v), parts)
                 for v in range(vectors)]

        def add(row: Expr, sums: RowValue, totals: RowValue) -> tuple[list[Stmt], RowValue]:
            lets, own = loops.bind("factor", E.broadcast(factor(row, block), plan.lanes))

            def total(v: int) -> Expr:
                whole, zero = E.cast(sums(v), "float32"), zeros[v]
                if zero is not None:
                    whole = E.call("fma", zero, E.broadcast(-origin(row, block), plan.lanes), whole)
                return E.call("fma", whole, scales[v] * own, totals(v))

            return lets, total

        return add


@dataclass(frozen=True)
class _IntegerTile:
    """``rows`` rows times ``vectors`` vectors of a panel; sums of a block of int32, and of all blocks of float32."""

    plan: BlocksPlan
    panel: Expr
    data: Element
    scales: _Scales
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
        start = self.scales.start(block)
        return sums.clear() if start is None else sums.each(lambda row, v: sums.set(row, v, start(source(row), v)))

    def _step(self, sums: Accumulators, source: Callable[[Expr], Expr], word: Expr, vector: Expr) -> Stmt:
        """One word: all its codes times as many data."""
        plan, parts = self.plan, list[Stmt]()
        micro = micro_kernel(_group(plan), plan.target)
        words = [loops.bound(plan.word(self.panel, word, vector + v), parts, f"word{v}") for v in range(self.vectors)]

        def part(number: int) -> Stmt:
            return micro.step(sums, lambda row: self.data(source(row), word * plan.codes + 4 * number),
                              lambda v: _codes(words[v], number, plan.bits))

        return seq(parts, map(part, range(plan.codes // 4)))

    def _finish(
        self, sums: Accumulators, totals: Accumulators, source: Callable[[Expr], Expr], block: Expr, vector: Expr
    ) -> Stmt:
        """Adds the sums of a block."""
        parts: list[Stmt] = []
        add = self.scales.add(block, vector, self.vectors, parts)

        def add_row(row: Expr) -> Stmt:
            lets, total = add(source(row), lambda v: sums.get(row, v), lambda v: totals.get(row, v))
            return seq(lets, (totals.set(row, v, total(v)) for v in range(self.vectors)))

        return seq(parts, loops.unroll("row", self.rows, add_row))


def _codes(words: Expr, part: int, bits: int) -> Expr:
    """Four codes of each word, a byte each."""
    shifted = E.binary("shr", words, part * bits) if part else words
    return shifted & int.from_bytes(bytes([(1 << bits) - 1]) * 4, "little") if bits < 8 else shifted


# --- data of float ---


def _floats(plan: BlocksPlan, rows: Rows) -> tuple[Stmt, PanelOf]:
    group = NUMBERS if plan.registers is None else PAIRS
    stage, data, begin = _elements(plan, rows, group)

    def scalar(row: Expr, k: Expr) -> Expr:
        number = E.load(data, begin(row) + k)
        if number.dtype == BITS:
            number = E.call("reinterpret", number, dtype="bfloat16")
        return E.cast(number, "float32")

    def panel(plan: BlocksPlan, rows: Rows, place: Expr) -> Stmt:
        def many() -> Stmt:
            if plan.registers is None:
                return _tile_columns(plan, rows, place, scalar)
            return _RegisterPanel(plan, plan.registers, rows, place, lambda row, k: PAIRS.load(data, begin(row) + k),
                                  partial(_differences, plan, place), _Scales(plan, place)).statement()

        tile = RegisterTile(1, plan.vectors, plan.lanes, "float32")
        product = Product(tile, E.const(plan.depth), scalar, lambda k, v: _number(plan, place, k, E.const(v)),
                          micro_kernel(NUMBERS, plan.target), _writer(plan, tile, place, E.const(0)))
        return _any_rows(plan, rows, gemm.single_row(product, rows.begin), many)

    return stage, panel


def _number(plan: BlocksPlan, panel: Expr, k: Expr, vector: Expr) -> Expr:
    """What codes k of a vector of columns stand for."""
    shift = E.cast(k % 4 * 8 + k % plan.codes // 4 * plan.bits, FOUR_BYTES.word)
    word = plan.word(panel, k // plan.codes, vector)
    code = E.binary("shr", word, E.broadcast(shift, plan.lanes)) & ((1 << plan.bits) - 1)
    block = k // plan.block_size
    if plan.table is not None:
        return E.load(plan.table, E.cast(code, E.INDEX)) * plan.parameter(plan.scale, panel, block, vector)
    return _difference(code, _zero(plan, panel, block, vector)) * plan.parameter(plan.scale, panel, block, vector)


def _zero(plan: BlocksPlan, panel: Expr, block: Expr, vector: Expr) -> Expr:
    """Zero points of a vector of columns."""
    if plan.zero is None:
        return E.const(float(1 << (plan.bits - 1)), "float32", plan.lanes)
    return plan.parameter(plan.zero, panel, block, vector)


def _difference(code: Expr, zero: Expr) -> Expr:
    return E.cast(E.call("reinterpret", code, dtype="int32"), "float32") - zero


def _differences(plan: BlocksPlan, panel: Expr, word: Expr, vector: Expr, parts: list[Stmt]) -> list[Expr]:
    """The codes of a word of each column less their zero points, in pairs of bfloat16: 8 bits hold their magnitudes."""
    words = loops.bound(plan.word(panel, word, vector), parts, "words")
    zero = loops.bound(_zero(plan, panel, word * plan.codes // plan.block_size, vector), parts, "zero")

    def bits(k: int) -> Expr:
        code = _codes(words, k // 4, plan.bits)
        code = E.binary("shr", code, k % 4 * 8) & 0xFF
        return E.call("reinterpret", _difference(code, zero), dtype="uint32")

    return [E.binary("shr", bits(k), 16) | bits(k + 1) for k in range(0, plan.codes, 2)]


def _writer(plan: BlocksPlan, tile: RegisterTile, panel: Expr, vector: Expr) -> gemm.FinishRow:
    column = panel * plan.panel + vector * plan.lanes
    return lambda row, value: gemm.write_units(plan.result, tile, plan.units, row, column, value)


def _tile_columns(plan: BlocksPlan, rows: Rows, panel: Expr, scalar: Element) -> Stmt:
    """A panel, tile by tile of its columns; each takes parts of the depth one after the other."""
    tile, vectors = plan.tile, plan.tile.vectors
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
                              micro_kernel(NUMBERS, plan.target), finish, start)
            return seq(loops.unroll_by("k", steps, plan.codes, fill), gemm.row_tiles(product, rows))

        return seq(lets, gemm.in_parts(tile, rows, plan.depth, part, of_part, _writer(plan, tile, panel, vector)))

    return seq(Allocate(copy), loops.serial("columns", plan.tiles(panel, vectors), columns))


# --- both, in tile registers ---


class _RegisterPanel:
    """The rows of a task times a panel, in tile registers: sums of a block there, those of all blocks in memory.

    What codes of a part of the depth are unpacked to lies in memory, too, step by step of a tile's columns: all rows read it.
    """

    def __init__(self, plan: BlocksPlan, micro: TileProduct, rows: Rows, panel: Expr, data: Element, unpack: Unpack,
                 scales: _Scales) -> None:
        self.plan, self.micro, self.rows, self.panel = plan, micro, rows, panel
        self.data, self.unpack, self.scales = data, unpack, scales
        self.steps, step_bytes = plan.block_size // micro.group.size, 4 * plan.tile.width
        self.part = tiles.even_blocks(plan.blocks, max(1, tiles.part_bytes(plan.target) // (self.steps * step_bytes)))
        """Blocks of a part."""
        self.unpacked = loops.local("unpacked", micro.group.word, self.part * self.steps * plan.tile.width)
        self.totals = gemm.PartialSums(plan.tile, rows)

    def statement(self) -> Stmt:
        """Computes the columns of a tile after those of another."""
        plan, totals, first_row = self.plan, self.totals, self.rows.begin

        def columns(number: Expr) -> Stmt:
            lets, vector = loops.bind("vector", number * plan.tile.vectors)
            write = _writer(plan, plan.tile, self.panel, vector)
            parts = loops.serial("part", -(-plan.blocks // self.part), lambda n: self._part(n * self.part, vector))
            written = loops.serial("row", self.rows.count, lambda row: write(
                first_row + row, lambda v: totals.total(first_row + row, v)))
            return seq(lets, totals.start(), parts, written)

        return seq(Allocate(self.unpacked), loops.serial("columns", plan.tiles(self.panel, plan.tile.vectors), columns))

    def _part(self, first: Expr, vector: Expr) -> Stmt:
        """Unpacks the codes of the blocks of a part, and adds their products."""
        plan, lets = self.plan, list[Stmt]()
        begin, words = loops.bound(first, lets, "first_block"), plan.block_size // plan.codes
        rest = E.binary("min", E.const(self.part), plan.blocks - begin)
        count = E.const(self.part) if plan.blocks % self.part == 0 else loops.bound(rest, lets, "blocks")
        unpacked = loops.serial("word", count * words, lambda word: self._unpack(begin * words + word, word, vector))

        def tile(row: Expr, rows: int, limit: Expr | None) -> Stmt:
            return loops.serial("block", count, lambda number: self._block(begin, number, vector, row, rows, limit))

        return seq(lets, unpacked, gemm.register_tiles(self.micro, plan.tile, self.rows, tile))

    def _unpack(self, word: Expr, number: Expr, vector: Expr) -> Stmt:
        """Unpacks a word of each column, the ``number``-th of the part."""
        lets, stores = list[Stmt](), list[Stmt]()
        for v in range(self.plan.tile.vectors):
            steps = self.unpack(word, vector + v, lets)
            stores += [store(self.unpacked, self._place(number * len(steps) + k, v), step) for k, step in enumerate(steps)]
        return seq(lets, stores)

    def _place(self, step: Expr, v: int) -> Expr:
        """Where a step of the part has a vector of columns."""
        tile = self.plan.tile
        return E.ramp(step * tile.width + v * tile.lanes, 1, tile.lanes)

    def _block(self, begin: Expr, number: Expr, vector: Expr, first: Expr, rows: int, limit: Expr | None) -> Stmt:
        """Adds the products of a block, the ``number``-th of the part, and of rows as ``gemm.row_tile`` takes them."""
        plan, totals, group, lets = self.plan, self.totals, self.micro.group, list[Stmt]()
        block = loops.bound(begin + number, lets, "block")
        add = self.scales.add(block, vector, plan.tile.vectors, lets)

        def add_row(row: Expr, sums: RowValue) -> Stmt:
            bound, total = add(row, sums, lambda v: totals.load(row, v))
            return seq(bound, totals.keep(row, total))

        product = Product(
            replace(plan.tile, dtype="float32" if group == PAIRS else "int32"), E.const(self.steps),
            lambda row, k: self.data(row, block * plan.block_size + k * group.size),
            lambda k, v: E.load(self.unpacked, self._place(number * self.steps + k, v)), self.micro, add_row,
            self.scales.start(block))
        return seq(lets, gemm.row_tile(product, first, rows, limit))
