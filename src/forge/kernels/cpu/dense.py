"""Kernel family ``dense_pack``: rows of any number times a weight matrix that was packed at compile time.

Operands: data [..., K] and weight [ceil(N / n)][K][n], the last panel padded, or in pairs of k: [ceil(N / n)][K / 2][n][2] of
bfloat16 or float16, or of int8 with data of int16 or uint8, or in fours with data of uint8: [ceil(N / n)][K / 4][n][4]; result
[..., N] with N = ``attrs.units``.

One task is a block of rows and one column tile (``vectors`` registers wide); inside it register tiles of rows run over K, so
accumulators never leave registers. Where the weights of a column tile are too many for the first-level cache, one part of K
follows the other, with partial sums on the stack, while the weights of the next one are on their way. A prologue is applied
once per element into a local copy of the rows. One row is a matrix-vector product: accumulators split over K instead of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.gemm import Ahead, FinishRow, Product, Rows, Start
from forge.kernels.cpu.micro import COLUMNS, MIN_WORDS, Left, OuterProduct, TileProduct, micro_kernel, step_words
from forge.loops import RegisterTile
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.loops.dots import Group
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq

# This many rows share one pass over a column tile: enough that weights may come from main memory at full speed.
ROW_BLOCK: Final = 256

# A part of K has at least this many steps.
MIN_PART: Final = 64

# A part of K has at most this many steps, whose rounding errors add up.
MAX_PART: Final = 4096

# Fewer register tiles read weights, however many, from the second-level cache about as fast as from the first.
FEW_TILES: Final = 5

# Column tiles in tile registers share parts of rows that stay in the second-level cache, at most this many.
SHARED_TILES: Final = 8

# Register tiles have at most this many vectors.
MAX_VECTORS: Final = 3

# Tuning tries register tiles of at most this many rows.
MAX_TILE_ROWS: Final = 14


@dataclass(frozen=True, kw_only=True)
class DensePlan:
    """Sizes of one call: ``rows`` x ``depth`` times ``depth`` x ``units``. A step of the sum takes a ``group`` of k."""

    data: Reader
    weight: Reader
    result: Writer
    target: Target
    rows: Expr
    depth: int
    units: int
    panel: int
    tile: RegisterTile
    row_block: int
    staged: bool
    group: Group
    micro: OuterProduct

    @property
    def width(self) -> int:
        """Columns of a column tile, of which the last may have fewer."""
        if self.micro.in_tiles:
            return self.tile.width
        return tiles.divisors(self.panel // self.tile.lanes, MAX_VECTORS)[0] * self.tile.lanes

    @property
    def last(self) -> DensePlan:
        """The plan of the last column tile."""
        if self.micro.in_tiles:
            return self
        left = tiles.computed_vectors(self.units, self.tile.vectors, self.tile.lanes) % self.tile.vectors
        return replace(self, tile=replace(self.tile, vectors=left)) if left else self

    @property
    def steps(self) -> int:
        return self.depth // self.group.size

    @property
    def part(self) -> int:
        """Steps whose weights stay in the first-level cache; where one register tile reads them, what an accumulator may add.

        Of tile registers: those over which the rows of a task take half of the second-level cache.
        """
        if isinstance(self.micro, TileProduct):
            rows = min(self.row_block, self.static_rows or self.row_block)
            most = self.target.l2_cache // 2 // (rows * self.group.size * dtypes.itemsize(self.group.copied))
            return tiles.even_blocks(self.steps // self.micro.words, most // self.micro.words) * self.micro.words
        if self.row_block <= self.tile.rows:
            splits = gemm.splits_of_row(self.tile) if self.static_rows == 1 else 1
            return tiles.even_blocks(self.steps, MAX_PART * splits)
        step = self.width * dtypes.itemsize(self.weight.dtype) * self.group.size
        return tiles.even_blocks(self.steps, max(MIN_PART, tiles.part_bytes(self.target) // step))

    @property
    def few_tiles(self) -> int:
        """Fewer register tiles of rows, of a number known at run time only, take all of K at once."""
        if self.in_shared_parts:
            return self.row_block // 2 // self.tile.rows
        weights = self.steps * self.width * dtypes.itemsize(self.weight.dtype) * self.group.size
        return gemm.MANY_TILES if weights <= tiles.prefetch_bytes(self.target) else FEW_TILES

    @property
    def static_rows(self) -> int | None:
        return loops.static(self.rows)

    @property
    def column_tiles(self) -> int:
        return -(-self.units // self.width)

    @property
    def in_shared_parts(self) -> bool:
        """Whether a task takes one part of K after the other of all its column tiles."""
        return self.micro.in_tiles and self.part < self.steps

    @property
    def column_groups(self) -> int:
        """Tasks per row block. A staged block is copied by every task, so then there are only as many as cores."""
        if self.in_shared_parts:
            return -(-self.column_tiles // min(SHARED_TILES, -(-self.column_tiles // self.target.num_cores)))
        return gemm.groups_of(self.rows, self.row_block, self.column_tiles, self.target) if self.staged else self.column_tiles


def plan_dense(call: KernelCall) -> DensePlan:
    """Chooses tile and blocks.

    Raises:
        CompileError: the weight is absent or has no static shape.
    """
    data, weight, result = call.operands[0], call.operands[1], call.results[0]
    shape = [loops.static(extent) for extent in weight.shape] if weight is not None else []
    if data is None or weight is None or len(shape) not in (3, 4) or None in shape:
        raise CompileError(f"{call.name}: packed dense; got weight shape {shape}; expected static [panels][K][n] or "
                           "[panels][K / g][n][g]")
    steps, panel, size = (int(extent or 1) for extent in (*shape, 1)[1:4])
    depth = size * steps
    units = int(call.attrs.units)
    dtype = tiles.accumulator_dtype(data.dtype, weight.dtype)
    group = Group.of(weight.dtype, size, dtype)
    lanes = tiles.vector_lanes(panel, call.target, dtype)
    vectors = tiles.divisors(panel // lanes, MAX_VECTORS)[0]
    rows = loops.product(data.shape[:-1])
    whole = panel % COLUMNS == 0 and step_words(steps) >= MIN_WORDS
    micro = micro_kernel(group, call.target, tiles=whole and not E.is_const(rows, 1))
    registers = call.target.vector_registers - group.registers
    tile_rows = tiles.rows_for(loops.static(rows), vectors, registers, call.target.costs)
    if isinstance(micro, TileProduct):
        micro = replace(micro, words=step_words(steps))
        vectors, tile_rows = gemm.tile_of_registers(loops.static(rows), COLUMNS if panel % (2 * COLUMNS) else None, lanes)
    depth_bytes = depth * dtypes.itemsize(group.copied)
    ready = data.buffer is not None and (data.dtype not in loops.HALF if size == 1 else data.dtype == group.dtype)
    staged = not ready and tile_rows * depth_bytes <= tiles.STACK_LIMIT // 2
    most = tiles.STACK_LIMIT // 2 // depth_bytes if staged else 4 * ROW_BLOCK
    call.target.choices.note(panel_key(loops.static(rows) or 0, depth, units, data.dtype), call.name)
    key = f"dense tasks {loops.static(rows)} x {depth} x {units} {panel} {lanes} {dtype} {staged} {size}"
    default = _rows(rows, tile_rows, min(ROW_BLOCK, most))
    tile_rows, block = default if micro.in_tiles else call.target.choices.pick(
        key, default, lambda: _alternatives(rows, tile_rows, most, vectors, registers), call.name)
    return DensePlan(
        data=data, weight=weight, result=result, target=call.target, rows=rows, depth=depth, units=units, panel=panel,
        tile=RegisterTile(tile_rows, vectors, lanes, dtype), row_block=block, staged=staged, group=group,
        micro=micro)


def panel_key(rows: int, depth: int, units: int, dtype: str) -> str:
    """Returns the name of the choice of a panel; 0 rows: known at run time only."""
    return f"dense panel {rows} x {depth} x {units} {dtype}"


def _rows(rows: Expr, tile_rows: int, most: int) -> tuple[int, int]:
    """Rows of a register tile and of a task."""
    return tile_rows, gemm.row_block(rows, tile_rows, most)


def _alternatives(rows: Expr, tile_rows: int, most: int, vectors: int, registers: int) -> Iterator[tuple[int, int]]:
    """Other tasks for the best register tile, then other tiles."""
    yield from (_rows(rows, tile_rows, min(block, most)) for block in (ROW_BLOCK, 64, 128, 512, 1024))
    largest = min(tiles.largest_rows(vectors, registers), MAX_TILE_ROWS, loops.static(rows) or MAX_TILE_ROWS)
    yield from (_rows(rows, other, min(ROW_BLOCK, most)) for other in range(largest, 3, -1) if other != tile_rows)


@kernel("dense_pack")
def dense_pack(call: KernelCall) -> Function:
    """data @ weight, the weight in panels."""
    plan = plan_dense(call)
    groups = plan.column_groups
    work = plan.depth * -(-plan.column_tiles // groups) * plan.width
    return call.function(gemm.group_tasks(plan.rows, plan.row_block, groups, work, partial(_task, plan)))


def _task(plan: DensePlan, rows: Rows, group: Expr) -> Stmt:
    stage, left = _data_element(plan, rows)
    if plan.in_shared_parts and plan.static_rows is not None:
        return seq(stage, _in_shared_parts(plan, rows, group, left))

    def column_tile(number: Expr) -> Stmt:
        bound, tile = loops.bind("column_tile", number)
        last = E.const(plan.column_tiles - 1)
        whole = _column_tile(plan, rows, tile, left)
        if plan.last is plan:
            return seq(bound, whole)
        return seq(bound, loops.guard(tile.eq(last), _column_tile(plan.last, rows, last, left), whole))

    groups = plan.column_groups
    if groups == plan.column_tiles:
        return seq(stage, column_tile(group))
    each = gemm.tiles_of_group(group, groups, plan.column_tiles, column_tile)
    if plan.in_shared_parts:
        each = loops.guard(_has_few(plan), each, _in_shared_parts(plan, rows, group, left))
    return seq(stage, each)


def _has_few(plan: DensePlan) -> Expr:
    """Whether there are few rows, where their number is known at run time only."""
    return plan.rows < plan.few_tiles * plan.tile.rows


def _in_shared_parts(plan: DensePlan, rows: Rows, group: Expr, left: Left) -> Stmt:
    """A block of rows times the column tiles of a group: of all of them a part of K, whose rows stay in the cache."""
    groups = plan.column_groups
    most, before = -(-plan.column_tiles // groups) * rows.block, -(-plan.steps // plan.part) - 1
    sums = gemm.PartialSums(plan.tile, Rows(E.const(0), E.const(most), None, most))

    def part(first: Expr, steps: int, is_last: bool) -> Stmt:
        def column_tile(number: Expr) -> Stmt:
            bound, tile = loops.bind("column_tile", number)
            own = sums.from_row(rows.begin - (tile - group * plan.column_tiles // groups) * rows.block)
            following = _ahead(plan, tile + 1, first, steps)
            product = _product(plan, tile, left, first, steps, _write(plan, tile) if is_last else own.keep, own.load, following)
            return seq(bound, gemm.row_tiles(product, rows))

        return gemm.tiles_of_group(group, groups, plan.column_tiles, column_tile)

    inner = loops.serial("part", before, lambda n: part(n * plan.part, plan.part, False))
    return seq(sums.start(), inner, part(E.const(before * plan.part), plan.steps - before * plan.part, True))


def _column_tile(plan: DensePlan, rows: Rows, tile: Expr, left: Left) -> Stmt:
    """A block of rows times the weights of a column tile."""
    write = _write(plan, tile)
    product = _product(plan, tile, left, E.const(0), plan.steps, write, None, _ahead(plan, tile + 1, E.const(0), plan.steps))

    def part(first: Expr, steps: int, finish: FinishRow, start: Start, is_last: bool) -> Stmt:
        lets, begin = loops.bind("first_k", first)
        following = (tile + 1, E.const(0)) if is_last else (tile, begin + steps)
        own = _product(plan, tile, left, begin, steps, finish, start, _ahead(plan, *following, plan.part))
        return seq(lets, gemm.single_row(own, E.const(0)) if plan.static_rows == 1 else gemm.row_tiles(own, rows))

    whole = plan.part >= plan.steps
    many = gemm.row_tiles(product, rows) if whole else gemm.in_parts(plan.tile, rows, plan.steps, plan.part, part, write)
    if plan.static_rows is None:
        few = gemm.any_rows(product, rows, plan.rows)
        return few if plan.in_shared_parts else loops.guard(_has_few(plan), few, many)
    return gemm.single_row(product, E.const(0)) if plan.static_rows == 1 and whole else many


def _product(plan: DensePlan, tile: Expr, left: Left, first: Expr, steps: int, finish: FinishRow, start: Start | None,
             ahead: Ahead | None) -> Product:
    """The products of a column tile of ``steps`` steps from the first one on."""
    return Product(
        plan.tile, E.const(steps), lambda row, k: left(row, first + k), lambda k, v: _weight_vector(plan, tile, first + k, v),
        plan.micro, finish, start, ahead=ahead)


def _write(plan: DensePlan, tile: Expr) -> FinishRow:
    """What writes a row of a column tile."""
    return lambda row, value: gemm.write_units(plan.result, plan.tile, plan.units, row, tile * plan.width, value)


def _data_element(plan: DensePlan, rows: Rows) -> tuple[Stmt, Left]:
    """What copies the rows of a task, and the function that gives a (row, k) element in the accumulators' dtype."""
    if not plan.staged:
        return seq(), lambda row, k: _unstaged(plan, row, k)

    def read(row: Expr, k: Expr, mask: Expr | None) -> Expr:
        return E.broadcast(plan.group.copy(gemm.read_flat(plan.data, row, k, mask)), k.lanes)

    stage, copy = gemm.copied_rows(rows, plan.group.copied, plan.depth, plan.depth, plan.target.lanes(plan.tile.dtype), read)
    return stage, lambda row, k: plan.group.load(copy, (row - rows.begin) * plan.depth + k * plan.group.size)


def _unstaged(plan: DensePlan, row: Expr, k: Expr) -> Expr:
    """Element or group k of a row, from the data."""
    if plan.group.size == 1:
        return E.cast(_read_row(plan.data, row, k), plan.tile.dtype)
    first = k * plan.group.size
    if plan.data.buffer is not None and plan.data.dtype in (*loops.HALF, "uint8", "int16"):
        return plan.group.load(plan.data.buffer, row * plan.depth + first)
    return plan.group.read(lambda number: _read_row(plan.data, row, number), first)


def _read_row(data: Reader, row: Expr, k: Expr) -> Expr:
    """Element k of flat row ``row``."""
    if data.buffer is not None:
        return E.load(data.buffer, row * data.shape[-1] + k)
    return gemm.read_flat(data, row, k)


def _weight_vector(plan: DensePlan, column_tile: Expr, k: Expr, vector: int) -> Expr:
    if plan.group.size > 1:
        return plan.group.weights(plan.weight.memory, _weight_place(plan, column_tile, k, vector), plan.tile.lanes)
    panel, column = _weight_column(plan, column_tile, vector)
    return E.cast(plan.weight.read([panel, k, E.ramp(column, 1, plan.tile.lanes)]), plan.tile.dtype)


def _weight_column(plan: DensePlan, column_tile: Expr, vector: int) -> tuple[Expr, Expr]:
    """Panel and first column inside it of a vector of a column tile."""
    tiles_per_panel = plan.panel // plan.width
    return column_tile // tiles_per_panel, column_tile % tiles_per_panel * plan.width + vector * plan.tile.lanes


def _ahead(plan: DensePlan, column_tile: Expr, first: Expr, steps: int) -> Ahead | None:
    """The weights of ``steps`` steps of a column tile, from step ``first`` on."""
    weight = plan.weight.buffer
    if weight is None or plan.row_block <= plan.tile.rows:
        return None
    size = plan.group.size
    return Ahead(weight, _weight_place(plan, column_tile, first, 0), steps, plan.width * size, plan.panel * size)


def _weight_place(plan: DensePlan, column_tile: Expr, k: Expr, vector: int) -> Expr:
    """Number of the first element of a vector of weights."""
    panel, column = _weight_column(plan, column_tile, vector)
    return ((panel * plan.steps + k) * plan.panel + column) * plan.group.size
