"""Kernel family ``dense_pack``: rows of any number times a weight matrix that was packed at compile time.

Operands: data [..., K] and weight [ceil(N / n)][K][n], the last panel padded; result [..., N] with N = ``attrs.units``.

One task is a block of rows and one column tile (``vectors`` registers wide); inside it register tiles of rows run over the whole of K,
so the weight columns stay in the second-level cache and accumulators never leave registers. A prologue is applied once per
element into a local copy of the rows. One row is a matrix-vector product: accumulators split over K instead of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forge import dtypes
from forge.errors import CompileError
from forge.kernels.contract import KernelCall, Reader, Writer, kernel
from forge.kernels.cpu import micro, tiles
from forge.kernels.cpu.micro import Accumulators
from forge.kernels.cpu.tiles import RegisterTile
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Allocate, Function, Stmt, seq, store

SMALL_TILE_ROWS = 4
ROW_BLOCK = 256
"""Rows that share one pass over a column tile: enough that weights may come from main memory at full speed."""
SERIAL_WORK = 250_000
"""Multiply-adds below which threads cost more than they save."""

Element = Callable[[Expr, Expr], Expr]


@dataclass(frozen=True)
class DensePlan:
    """Sizes of one call: ``rows`` x ``depth`` times ``depth`` x ``units``."""

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

    @property
    def static_rows(self) -> int | None:
        return micro.static(self.rows)

    @property
    def column_tiles(self) -> int:
        return -(-self.units // self.tile.width)

    @property
    def row_blocks(self) -> Expr:
        return micro.ceildiv(self.rows, self.row_block)

    @property
    def column_groups(self) -> int:
        """Tasks per row block. A staged block is copied by every task, so then there are only as many as cores."""
        if not self.staged:
            return self.column_tiles
        known = micro.static(self.row_blocks)
        needed = self.target.num_cores if known is None else -(-self.target.num_cores // known)
        return min(self.column_tiles, needed)

    @property
    def worthwhile(self) -> bool:
        """Whether the work is worth distributing over threads."""
        return self.static_rows is None or self.static_rows * self.depth * self.units > SERIAL_WORK


def plan_dense(call: KernelCall) -> DensePlan:
    """Chooses tile and blocks.

    Raises:
        CompileError: the weight is absent or has no static shape.
    """
    data, weight, result = call.operands[0], call.operands[1], call.results[0]
    shape = [micro.static(extent) for extent in weight.shape] if weight is not None else []
    if data is None or weight is None or len(shape) != 3 or None in shape:
        raise CompileError(f"{call.name}: packed dense; got weight shape {shape}; expected static [panels][K][n]")
    _, depth, panel = (int(extent) for extent in shape if extent is not None)
    units = int(call.attrs.units)
    dtype = tiles.accumulator_dtype(data.dtype, weight.dtype)
    lanes = tiles.vector_lanes(panel, call.target, dtype)
    vectors = tiles.divisors(panel // lanes, 3)[0]
    rows = micro.product(data.shape[:-1])
    tile_rows = tiles.rows_for(micro.static(rows), vectors, call.target.vector_registers)
    depth_bytes = depth * dtypes.itemsize(dtype)
    staged = data.buffer is None and tile_rows * depth_bytes <= tiles.STACK_LIMIT // 2
    return DensePlan(data, weight, result, call.target, rows, depth, units, panel, RegisterTile(tile_rows, vectors, lanes, dtype),
                     _row_block(rows, tile_rows, depth_bytes if staged else 0), staged)


def _row_block(rows: Expr, tile_rows: int, staged_depth_bytes: int) -> int:
    """Rows of one task, in whole tiles; a staged block must fit on the stack."""
    most = max(1, ROW_BLOCK // tile_rows)
    if staged_depth_bytes:
        most = min(most, max(1, tiles.STACK_LIMIT // 2 // (staged_depth_bytes * tile_rows)))
    known = micro.static(rows)
    tile_count = most if known is None else tiles.even_blocks(-(-known // tile_rows), most)
    return tile_count * tile_rows


@kernel("dense_pack")
def dense_pack(call: KernelCall) -> Function:
    """data @ weight, the weight in panels."""
    plan = plan_dense(call)
    groups = plan.column_groups

    def task(index: Expr) -> Stmt:
        lets, block = micro.bind("row_block", index // groups)
        lets_group, group = micro.bind("group", index % groups)
        return seq(lets, lets_group, _task(plan, block, group))

    return call.function(micro.parallel(plan.row_blocks * groups, task, plan.worthwhile))


def _task(plan: DensePlan, block: Expr, group: Expr) -> Stmt:
    lets, begin = micro.bind("row_begin", block * plan.row_block)
    lets_count, count = micro.bind("row_count", _rows_in_block(plan, begin))
    stage, element = _data_element(plan, begin, count)

    def column_tile(column: Expr) -> Stmt:
        bound, tile_index = micro.bind("column_tile", column)
        general = _row_tiles(plan, element, begin, count, tile_index)
        if plan.static_rows == 1:
            return seq(bound, _vector_product(plan, element, tile_index))
        if plan.static_rows is not None:
            return seq(bound, general)
        return seq(bound, micro.guarded(plan.rows.eq(1), _vector_product(plan, element, tile_index), general))

    groups = plan.column_groups
    if groups == plan.column_tiles:
        return seq(lets, lets_count, stage, column_tile(group))
    first, last = group * plan.column_tiles // groups, (group + 1) * plan.column_tiles // groups
    return seq(lets, lets_count, stage, micro.serial("column", last - first, column_tile, first))


def _rows_in_block(plan: DensePlan, begin: Expr) -> Expr:
    known = plan.static_rows
    if known is not None and known % plan.row_block == 0:
        return E.const(plan.row_block)
    return E.binary("min", E.const(plan.row_block), plan.rows - begin)


def _data_element(plan: DensePlan, begin: Expr, count: Expr) -> tuple[Stmt, Element]:
    """What copies the rows of a task, and the function that gives a (row, k) element in the accumulators' dtype."""
    lead, dtype = plan.data.shape[:-1], plan.tile.dtype
    if not plan.staged:
        return seq(), lambda row, k: E.cast(_read_row(plan.data, row, k), dtype)
    rows = micro.local("rows", dtype, plan.row_block * plan.depth)
    lanes = plan.target.lanes(dtype)

    def copy_row(row: Expr) -> Stmt:
        indices = micro.unravel(begin + row, lead)
        return micro.each_vector("k", plan.depth, lanes, lambda k, mask: store(
            rows, row * plan.depth + k, E.cast(plan.data.read([*indices, k], mask), dtype), mask))

    return (seq(Allocate(rows), micro.serial("row", count, copy_row)),
            lambda row, k: E.load(rows, (row - begin) * plan.depth + k))


def _read_row(data: Reader, row: Expr, k: Expr) -> Expr:
    """Element k of flat row ``row``."""
    if data.buffer is not None:
        return E.load(data.buffer, row * data.shape[-1] + k)
    return data.read([*micro.unravel(row, data.shape[:-1]), k])


def _weight_vector(plan: DensePlan, column_tile: Expr, k: Expr, vector: int) -> Expr:
    tiles_per_panel = plan.panel // plan.tile.width
    panel, inner = column_tile // tiles_per_panel, column_tile % tiles_per_panel
    columns = E.ramp(inner * plan.tile.width + vector * plan.tile.lanes, 1, plan.tile.lanes)
    return E.cast(plan.weight.read([panel, k, columns]), plan.tile.dtype)


def _row_tiles(plan: DensePlan, element: Element, begin: Expr, count: Expr, column: Expr) -> Stmt:
    """All rows of a block: full tiles, then what is left over in smaller ones."""
    rows = plan.tile.rows
    full = micro.serial("row_tile", count // rows,
                        lambda i: _row_tile(plan, element, begin + i * rows, rows, None, column))
    known = plan.static_rows
    if known is not None:
        rest = known % plan.row_block % rows
        if rest == 0:
            return full
        tail = _row_tile(plan, element, begin + (count - rest), rest, None, column)
        return seq(full, micro.guarded((count % rows).ne(0), tail))
    first = begin + count // rows * rows
    small = min(SMALL_TILE_ROWS, rows)
    return seq(full, micro.serial("small_tile", micro.ceildiv(count % rows, small),
                                  lambda i: _row_tile(plan, element, first + i * small, small, begin + count, column)))


def _row_tile(plan: DensePlan, element: Element, first: Expr, rows: int, limit: Expr | None, column: Expr) -> Stmt:
    """``rows`` rows from ``first``; those from ``limit`` on are computed from the last real row and not written."""
    acc = Accumulators(RegisterTile(rows, plan.tile.vectors, plan.tile.lanes, plan.tile.dtype))
    lets, base = micro.bind("first_row", first)

    def source_row(row: Expr) -> Expr:
        return base + row if limit is None else E.binary("min", base + row, limit - 1)

    def step(k: Expr) -> Stmt:
        return acc.update(lambda row: element(source_row(row), k), lambda v: _weight_vector(plan, column, k, v))

    def write_row(row: Expr) -> Stmt:
        written = _write(plan, base + row, column, lambda v: acc.get(row, v))
        return written if limit is None else micro.guarded(base + row < limit, written)

    unroll = tiles.unroll_for(rows * plan.tile.vectors, plan.depth)
    return seq(acc.allocate(), lets, acc.clear(), micro.reduction("k", plan.depth, unroll, step),
               micro.unrolled("row", rows, write_row))


def _vector_product(plan: DensePlan, element: Element, column: Expr) -> Stmt:
    """One row: the accumulators of consecutive k are apart, so that multiply-adds overlap."""
    vectors = plan.tile.vectors
    splits = max(1, 8 // vectors)
    acc = Accumulators(RegisterTile(splits, vectors, plan.tile.lanes, plan.tile.dtype))

    def add(k: Expr, split: Expr) -> Stmt:
        lets, a = micro.bind("a", E.broadcast(element(E.const(0), k), plan.tile.lanes))
        return seq(lets, (acc.set(split, v, micro.multiply_add(a, _weight_vector(plan, column, k, v), acc.get(split, v)))
                          for v in range(vectors)))

    def total(vector: int) -> Expr:
        value = acc.get(0, vector)
        for split in range(1, splits):
            value = value + acc.get(split, vector)
        return value

    whole, rest = divmod(plan.depth, splits)
    main = micro.reduction("k", whole, 2, lambda k: micro.unrolled("split", splits, lambda s: add(k * splits + s, s)))
    tail = micro.unrolled("split", rest, lambda s: add(s + whole * splits, s)) if rest else seq()
    return seq(acc.allocate(), acc.clear(), main, tail, _write(plan, E.const(0), column, total))


def _write(plan: DensePlan, row: Expr, column: Expr, value: Callable[[int], Expr]) -> Stmt:
    """Writes one row of a column tile; vectors past the last unit are masked or left out."""
    tile, result = plan.tile, plan.result
    lets, flat = micro.bind("row_index", row)
    indices = micro.unravel(flat, result.shape[:-1])

    def vector(v: int, mask: Expr | None) -> Stmt:
        columns = E.ramp(column * tile.width + v * tile.lanes, 1, tile.lanes)
        return result.write([*indices, columns], E.cast(value(v), result.dtype), mask)

    whole = seq(vector(v, None) for v in range(tile.vectors))
    rest = plan.units % tile.width
    if rest == 0:
        return seq(lets, whole)
    partial: list[Stmt] = []
    for v in range(tile.vectors):
        valid = rest - v * tile.lanes
        if valid > 0:
            partial.append(vector(v, None if valid >= tile.lanes else E.ramp(0, 1, tile.lanes) < valid))
    return seq(lets, micro.guarded(column.ne(plan.column_tiles - 1), whole, seq(partial)))
