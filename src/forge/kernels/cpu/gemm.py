"""Rows of register tiles: the part that all matrix products share.

A ``Product`` says where the operands of one column tile come from, ``left(row, k)`` and ``right(k, v)``, which micro-kernel
multiplies them, and who takes finished rows. ``row_tiles`` runs register tiles over a range of rows; ``single_row`` is the
matrix-vector product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, TypeVar

from forge import dtypes, loops
from forge.kernels.cpu import tiles
from forge.kernels.cpu.micro import COLUMNS, Left, OuterProduct, Right, TileProduct, no_statement
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import Reader, Writer
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike
from forge.tir.stmt import TILE_ROWS, Allocate, Prefetch, Stmt, seq, store

# From this many register tiles on, each prefetches its part of the next weights.
MANY_TILES: Final = 16
# Register tiles over the rows that full tiles leave have this many rows: small ones, and middle ones after tiles of more rows.
SMALL_TILE_ROWS: Final = 4
MIDDLE_TILE_ROWS: Final = 8

Steps = TypeVar("Steps", int, Expr)
RowValue = Callable[[int], Expr]
FinishRow = Callable[[Expr, RowValue], Stmt]
Start = Callable[[Expr, int], Expr]
ReadRow = Callable[[Expr, Expr, "Expr | None"], Expr]
"""``read(row, k, mask)``: elements k of a row."""


@dataclass(frozen=True)
class Ahead:
    """Weights that are read next: ``steps`` pieces of ``size`` elements of ``buffer``, ``stride`` apart, from ``first`` on.

    Those in several ``parts`` are so in each, which begins ``part_size`` elements after the one before.

    Many register tiles that share the present weights prefetch equal parts of the next ones, each cache line once: prefetches in
    the inner loop take up to a fifth of its time. Of few tiles each prefetches all, step by step: many prefetches at once would
    wait for each other.
    """

    buffer: Buffer
    first: Expr
    steps: ExprLike
    size: int
    stride: int
    parts: int = 1
    part_size: ExprLike = 0

    @property
    def line(self) -> int:
        """Elements of a cache line."""
        return tiles.CACHE_LINE // dtypes.itemsize(self.buffer.dtype)

    def share(self, number: Expr, shares: Expr) -> Stmt:
        """Prefetches share ``number`` of ``shares``."""
        pieces, size = (1, self.steps * self.size) if self.size == self.stride else (self.steps, self.size)
        lines = loops.ceildiv(E.as_expr(size), self.line)
        count = (shares + (pieces * lines - 1)) // shares

        def prefetch(n: Expr) -> Stmt:
            lets, wanted = loops.bind("line_ahead", number * count + n)
            place = self.first + wanted // lines * self.stride + wanted % lines * self.line
            if loops.static(lines) is None:  # one piece
                place = self.first + wanted * self.line
            return seq(lets, (Prefetch(self.buffer, place + part * self.part_size) for part in range(self.parts)))

        return loops.serial("line", count, prefetch)

    def step(self, k: Expr) -> Stmt:
        """Prefetches piece ``k``."""
        return seq(Prefetch(self.buffer, self.first + k * self.stride + n) for n in range(0, self.size, self.line))


@dataclass(frozen=True)
class Product:
    """A column tile of a matrix product.

    Attributes:
        tile: the main register tile.
        depth: extent of the reduction, in steps.
        left: the group of a row that step k multiplies, ``left(row, k)``.
        right: vector v of the groups of columns that step k multiplies, ``right(k, v)``.
        micro: the micro-kernel that multiplies them.
        finish: takes one row: ``finish(row, value)`` with ``value(v)`` the sums of vector v.
        start: what is added to the sums of a row, ``start(row, v)``; None: nothing.
        prefetch: a statement at step k that prefetches what later steps read.
        ahead: what is read after this product; None: nothing is prefetched.
    """

    tile: RegisterTile
    depth: Expr
    left: Left
    right: Right
    micro: OuterProduct
    finish: FinishRow
    start: Start | None = None
    prefetch: Callable[[Expr], Stmt] = no_statement
    ahead: Ahead | None = None


@dataclass(frozen=True)
class Rows:
    """Rows [begin, begin + count) of one block; ``total`` is the number of all rows where known, ``block`` that of a block.

    Where there are several blocks, a block is whole tiles.
    """

    begin: Expr
    count: Expr
    total: int | None
    block: int

    @staticmethod
    def of_block(number: Expr, block: int, total: Expr) -> tuple[list[Stmt], Rows]:
        """Returns the rows of block ``number``, and the statements that bind them."""
        known = loops.static(total)
        lets_begin, begin = loops.bind("row_begin", number * block)
        whole = known is not None and known % block == 0
        lets_count, count = loops.bind("row_count", E.const(block) if whole else E.binary("min", E.const(block), total - begin))
        return lets_begin + lets_count, Rows(begin, count, known, block)


def row_block(total: Expr, tile_rows: int, most: int) -> int:
    """Rows of one task: at most about ``most``, in whole tiles, evenly spread."""
    tile_count = max(1, most // tile_rows)
    known = loops.static(total)
    return tile_rows * (tile_count if known is None else tiles.even_blocks(-(-known // tile_rows), tile_count))


def groups_of(rows: Expr, row_block: int, most: int, target: Target) -> int:
    """Counts the tasks of a block of rows that each of them prepares: as many as keep all cores busy, and at most ``most``."""
    blocks = loops.static(loops.ceildiv(rows, row_block))
    return min(most, target.num_cores if blocks is None else -(-target.num_cores // blocks))


def group_tasks(rows: Expr, row_block: int, groups: int, work: int, task: Callable[[Rows, Expr], Stmt]) -> Stmt:
    """Runs ``task(rows, group)`` in parallel, ``groups`` for each block of rows, of ``work`` multiply-adds a row."""

    def numbered(index: Expr) -> Stmt:
        lets, block = loops.bind("row_block", index // groups)
        lets_group, group = loops.bind("group", index % groups)
        lets_rows, some = Rows.of_block(block, row_block, rows)
        return seq(lets, lets_group, lets_rows, task(some, group))

    count = loops.ceildiv(rows, row_block) * groups
    return loops.parallel(count, E.binary("min", E.const(row_block), rows) * work, numbered)


def batch_tasks(batch: Sequence[Expr], rows: Expr, row_block: int, column_tiles: ExprLike, work: Sequence[ExprLike],
                task: Callable[[Sequence[Expr], Rows, Expr], Stmt]) -> Stmt:
    """Runs ``task(indices, rows, column_tile)`` in parallel for each matrix of a batch, block of rows and column tile.

    ``work`` has the factors of the number of multiply-adds of a row.
    """
    extents = {f"batch{k}": extent for k, extent in enumerate(batch)}
    extents |= {"row_block": loops.ceildiv(rows, row_block), "column_tile": E.as_expr(column_tiles)}

    def numbered(index: Expr) -> Stmt:
        lets, (*indices, block, column_tile) = loops.bound_indices(index, extents)
        lets_rows, some = Rows.of_block(block, row_block, rows)
        return seq(lets, lets_rows, task(indices, some, column_tile))

    multiply_adds = loops.product([E.binary("min", E.const(row_block), rows), *map(E.as_expr, work)])
    return loops.parallel(loops.product(list(extents.values())), multiply_adds, numbered)


def tiles_of_group(group: Expr, groups: int, count: int, body: Callable[[Expr], Stmt]) -> Stmt:
    """Runs ``body(number)`` for the column tiles of a group, of ``count`` that all groups share."""
    first, last = group * count // groups, (group + 1) * count // groups
    return loops.serial("column", last - first, body, first)


def row_tiles(product: Product, rows: Rows) -> Stmt:
    """Computes all rows: full tiles, then what is left over in smaller ones."""
    size = product.tile.rows
    count = rows.count // size
    if isinstance(product.micro, TileProduct):
        return _in_registers(product, product.micro, rows)

    ahead = product.ahead
    if ahead is not None and rows.block < MANY_TILES * size:
        product, ahead = replace(product, prefetch=ahead.step), None

    return tiled_rows(rows, size, lambda first, tile_rows, limit: row_tile(product, first, tile_rows, limit),
                      lambda number: seq() if ahead is None else ahead.share(number, count))


def tile_of_registers(rows: int | None, columns: int | None, lanes: int) -> tuple[int, int]:
    """Returns (vectors, rows) of a tile of two by two tile registers, or less where a product is small."""
    across = 1 if columns is not None and columns <= COLUMNS else 2
    return across * COLUMNS // lanes, TILE_ROWS if rows is not None and rows <= TILE_ROWS else 2 * TILE_ROWS


def padded_steps(micro: OuterProduct, steps: Steps) -> Steps:
    """Returns ``steps``, or as many as whole tile registers have."""
    return (steps + (TILE_ROWS - 1)) // TILE_ROWS * TILE_ROWS if micro.in_tiles else steps


def zero_steps(copy: Buffer, base: ExprLike, steps: ExprLike, micro: OuterProduct, width: int = 1) -> Stmt:
    """Writes zeros behind ``steps`` of ``width`` elements from ``base`` on, so that there are as many as whole registers have."""
    if not micro.in_tiles:
        return seq()
    count = E.as_expr(steps)
    zero, more = E.const(0, copy.dtype), (padded_steps(micro, count) - count) * width
    return loops.serial("zero", more, lambda k: store(copy, base + count * width + k, zero))


def _in_registers(product: Product, micro: TileProduct, rows: Rows) -> Stmt:
    """Computes all rows in tile registers. Each step of a full tile prefetches its share of what is read next."""
    size, steps, ahead = product.tile.rows, product.depth // micro.words, product.ahead

    def tile(first: Expr, count: int, limit: Expr | None) -> Stmt:
        if ahead is None or limit is not None:
            return row_tile(product, first, count, limit)
        lets, done = loops.bind("done", (first - rows.begin) // size * steps)
        every = rows.count // size * steps
        return seq(lets, row_tile(replace(product, prefetch=lambda k: ahead.share(done + k, every)), first, count))

    return register_tiles(micro, product.tile, rows, tile)


def register_tiles(
    micro: TileProduct, shape: RegisterTile, rows: Rows, tile: Callable[[Expr, int, Expr | None], Stmt]
) -> Stmt:
    """Runs ``tile(first, count, limit)``, as ``row_tile`` takes them, in tile registers, for all rows.

    These are full tiles of ``shape``, then registers of which the last has as many rows as there are.
    """
    size, end, last = shape.rows, rows.begin + rows.count, replace(shape, rows=TILE_ROWS)
    full = loops.serial("row_tile", rows.count // size, lambda number: tile(rows.begin + number * size, size, None))
    full = loops.guard(rows.count >= size, seq(micro.configure(shape), full))
    if rows.total is not None and rows.total % size == 0 and rows.block % size == 0:
        return seq(full, micro.release())
    lets, left = loops.bind("first_left", rows.begin + rows.count // size * size)

    def rest(number: Expr) -> Stmt:
        more, first = loops.bind("first", left + number * TILE_ROWS)
        used = E.binary("min", end - first, TILE_ROWS)
        return seq(more, micro.configure(last, used), tile(first, TILE_ROWS, end))

    return seq(full, lets, loops.serial("last_tile", loops.ceildiv(end - left, TILE_ROWS), rest), micro.release())


def tiled_rows(
    rows: Rows, size: int, tile: Callable[[Expr, int, Expr | None], Stmt], before: Callable[[Expr], Stmt] = lambda number: seq()
) -> Stmt:
    """Runs ``tile(first, count, limit)``, as ``row_tile`` takes them, for tiles of ``size`` rows, then for smaller ones.

    ``before`` gives what runs before a full tile, by its number.
    """
    def full(count: Expr) -> Stmt:
        return loops.serial("row_tile", count, lambda number: seq(before(number), tile(rows.begin + number * size, size, None)))

    if rows.total is not None:
        rest = (rows.total % rows.block or rows.block) % size
        if rest == 0:
            return full(rows.count // size)
        tail = tile(rows.begin + (rows.count - rest), rest, None)
        return seq(full(rows.count // size), loops.guard((rows.count % size).ne(0), tail))
    parts: list[Stmt] = []
    count, more = rows.count // size, 2 * MIDDLE_TILE_ROWS - size
    if 0 < more <= SMALL_TILE_ROWS // 2:  # two middle tiles take less time than a full one and a small one
        few = E.logical_and(rows.count > size, E.logical_and((rows.count % size).ne(0), rows.count % size <= more))
        count = loops.bound(count - E.select(few, E.const(1), E.const(0)), parts, "full_tiles")
    parts.append(full(count))
    left, end = loops.bound(rows.begin + count * size, parts, "first_left"), rows.begin + rows.count

    def smaller(name: str, count: Expr, small: int) -> Stmt:
        return loops.serial(name, count, lambda i: tile(left + i * small, small, end))

    if size > MIDDLE_TILE_ROWS:
        middle = loops.bound((end - left + (MIDDLE_TILE_ROWS - SMALL_TILE_ROWS - 1)) // MIDDLE_TILE_ROWS, parts, "middle_tiles")
        parts.append(smaller("middle_tile", middle, MIDDLE_TILE_ROWS))
        left = loops.bound(left + middle * MIDDLE_TILE_ROWS, parts, "first_left")
    small = min(SMALL_TILE_ROWS, size)
    return seq(parts, smaller("small_tile", loops.ceildiv(end - left, small), small))


def row_tile(product: Product, first: Expr, rows: int, limit: Expr | None = None) -> Stmt:
    """Computes ``rows`` rows from ``first``; those from ``limit`` on are computed from the last real row and not written."""
    tile = product.tile
    acc = Accumulators(RegisterTile(rows, tile.vectors, tile.lanes, tile.dtype))
    lets, base = loops.bind("first_row", first)

    in_tiles = product.micro.in_tiles

    def source_row(row: Expr) -> Expr:
        return base + row if limit is None or in_tiles else E.binary("min", base + row, limit - 1)

    def total(row: Expr, v: int) -> Expr:
        return acc.get(row, v) if product.start is None else product.start(source_row(row), v) + acc.get(row, v)

    def finish_row(row: Expr) -> Stmt:
        finished = product.finish(base + row, lambda v: total(row, v))
        return finished if limit is None else loops.guard(base + row < limit, finished)

    unroll = tiles.unroll_for(rows * tile.vectors, loops.static(product.depth))

    steps = product.micro.steps(acc, lambda row, k: product.left(source_row(row), k), product.right, product.depth, unroll,
                                product.prefetch)
    if in_tiles:
        used = E.const(rows) if limit is None else E.binary("min", limit - base, rows)
        return seq(acc.allocate(), lets, steps, loops.serial("row", used, finish_row))
    return seq(acc.start(), lets, steps, loops.unroll("row", rows, finish_row))


def splits_of_row(tile: RegisterTile) -> int:
    """Returns the number of accumulators of a vector of a single row."""
    return max(1, 8 // tile.vectors)


def single_row(product: Product, row: Expr) -> Stmt:
    """Computes one row. Consecutive steps have accumulators of their own, so that multiply-adds overlap."""
    tile = product.tile
    splits = splits_of_row(tile)
    acc = Accumulators(RegisterTile(splits, tile.vectors, tile.lanes, tile.dtype))

    def add(k: Expr, split: Expr) -> Stmt:
        lets, a = loops.bind("a", E.broadcast(product.left(row, k), tile.lanes))
        return seq(lets, (acc.set(split, v, product.micro.multiply_add(a, product.right(k, v), acc.get(split, v)))
                          for v in range(tile.vectors)))

    def total(vector: int) -> Expr:
        value = acc.get(0, vector) if product.start is None else product.start(row, vector) + acc.get(0, vector)
        for split in range(1, splits):
            value = value + acc.get(split, vector)
        return value

    whole = product.depth // splits
    main = loops.unroll_by("k", whole, 2, lambda k: loops.unroll("split", splits, lambda s: add(k * splits + s, s)))
    tail = loops.serial("k", product.depth - whole * splits, lambda k: add(k, E.const(0)), whole * splits)
    return seq(acc.allocate(), acc.clear(), main, tail, product.finish(row, total))


def any_rows(product: Product, rows: Rows, total: Expr) -> Stmt:
    """Runs ``row_tiles``, or ``single_row`` where there is one row in all, which may be known at run time only."""
    if E.is_const(total, 1):
        return single_row(product, E.const(0))
    if rows.total is not None:
        return row_tiles(product, rows)
    return loops.guard(total.eq(1), single_row(product, E.const(0)), even_tiles(product, rows))


def even_tiles(product: Product, rows: Rows) -> Stmt:
    """Computes rows, of a number known at run time only: those that full tiles leave are one tile of an even number of rows."""
    if isinstance(product.micro, TileProduct):
        return _in_registers(product, product.micro, rows)
    size, end = product.tile.rows, rows.begin + rows.count
    fetching = product if product.ahead is None else replace(product, prefetch=product.ahead.step)
    full = loops.serial("row_tile", rows.count // size, lambda number: row_tile(fetching, rows.begin + number * size, size))
    lets, first = loops.bind("first_left", rows.begin + rows.count // size * size)
    rest = row_tile(product, first, size, end)
    for few in range(size - 2, 0, -2):
        rest = loops.guard(end - first <= few, row_tile(product, first, few, end if few > 1 else None), rest)
    return seq(full, lets, loops.guard(first < end, rest))


class PartialSums:
    """Sums of the rows of a task that wait on the stack from one part of the reduction to the next.

    Those of ``many`` parts have two parts themselves, as ``loops.Totals`` have: ``load`` gives the second, what rounding took.
    """

    def __init__(self, tile: RegisterTile, rows: Rows, many: bool = False, buffers: Sequence[Buffer] = ()) -> None:
        self.tile, self.rows = tile, rows
        self.buffers = buffers or [loops.local(name, tile.dtype, rows.block * tile.vectors, tile.lanes)
                                   for name in ("partial", "lost")[: 2 if many else 1]]

    def from_row(self, begin: Expr) -> PartialSums:
        """Returns the same sums, of which the first are those of row ``begin``."""
        return PartialSums(self.tile, replace(self.rows, begin=begin), buffers=self.buffers)

    def start(self) -> Stmt:
        """Allocates the sums and clears them."""
        zero = E.const(0, self.tile.dtype, self.tile.lanes)
        clear = loops.serial("p", self.rows.count * self.tile.vectors, lambda i: seq(store(b, i, zero) for b in self.buffers))
        return seq(map(Allocate, self.buffers), clear)

    def load(self, row: Expr, vector: int) -> Expr:
        """Loads what a part adds to: a vector of the sums of a row."""
        return E.load(self.buffers[-1], self._index(row, vector))

    def keep(self, row: Expr, value: RowValue) -> Stmt:
        """Keeps the sums of a row after a part."""
        return seq(self._keep(self._index(row, v), value(v)) for v in range(self.tile.vectors))

    def _keep(self, place: Expr, value: Expr) -> Stmt:
        if len(self.buffers) == 1:
            return store(self.buffers[0], place, value)
        parts: list[Stmt] = []
        joined = loops.two_sum(E.load(self.buffers[0], place), value, parts)
        return seq(parts, (store(buffer, place, x) for buffer, x in zip(self.buffers, joined)))

    def total(self, row: Expr, vector: int) -> Expr:
        """Returns a vector of the finished sums of a row."""
        return reduce(lambda a, b: a + b, (E.load(buffer, self._index(row, vector)) for buffer in self.buffers))

    def _index(self, row: Expr, vector: int) -> Expr:
        return (row - self.rows.begin) * self.tile.vectors + vector


def in_parts(tile: RegisterTile, rows: Rows, steps: int, part: int, of_part: Callable[[Expr, int, FinishRow, Start, bool],
             Stmt], write: FinishRow) -> Stmt:
    """Reduces ``steps`` in parts of ``part``: sums wait on the stack, and the last part hands them to ``write``.

    Args:
        of_part: ``of_part(first, count, finish, start, is_last)`` gives the rows over ``count`` steps from ``first`` on.
    """
    partial = PartialSums(tile, rows)
    before = -(-steps // part) - 1
    inner = loops.serial("part", before, lambda n: of_part(n * part, part, partial.keep, partial.load, False))
    last = of_part(E.const(before * part), steps - before * part, write, partial.load, True)
    return seq(partial.start(), inner, last)


def copied_rows(rows: Rows, dtype: str, size: ExprLike, stride: int, lanes: int, read: ReadRow) -> tuple[Stmt, Buffer]:
    """Makes a local copy of the rows of a task, ``stride`` elements apart; returns what fills it, and the copy."""
    copy = loops.local("rows", dtype, rows.block * stride)
    return seq(Allocate(copy), copy_rows(copy, rows, size, stride, lanes, read)), copy


def copy_rows(copy: Buffer, rows: Rows, size: ExprLike, stride: ExprLike, lanes: int, read: ReadRow) -> Stmt:
    """Copies the rows of a task, of ``size`` elements each, to ``copy``, where they lie ``stride`` elements apart."""
    return loops.serial("row", rows.count, lambda row: loops.each_vector(
        size, lanes, lambda k, mask: store(copy, row * stride + k, read(rows.begin + row, k, mask), mask)))


def read_flat(data: Reader, row: Expr, k: Expr, mask: Expr | None = None) -> Expr:
    """Reads elements k of a row; rows are the axes before the last as one."""
    return data.read([*loops.unravel(row, data.shape[:-1]), k], mask)


def column_tiles(tile: RegisterTile, columns: Expr, body: Callable[[Expr, Expr], Stmt], first: ExprLike = 0) -> Stmt:
    """Runs ``body(number, column)`` for each tile of ``columns`` columns from ``first`` on."""

    def numbered(number: Expr) -> Stmt:
        lets, column = loops.bind("column", first + number * tile.width)
        return seq(lets, body(number, column))

    return loops.serial("column_tile", loops.ceildiv(columns, tile.width), numbered)


def write_row(
    tile: RegisterTile, column: Expr, columns: Expr, value: RowValue, write: Callable[[Expr, Expr, Expr | None], Stmt]
) -> Stmt:
    """Runs ``write(indices, value, mask)`` for each vector of a row of the tile at ``column``, of ``columns`` in all."""

    def vector(v: int, mask: Expr | None) -> Stmt:
        return write(E.ramp(column + v * tile.lanes, 1, tile.lanes), value(v), mask)

    return column_vectors(tile, column, columns, vector)


def write_units(result: Writer, tile: RegisterTile, units: int, row: Expr, column: Expr, value: RowValue) -> Stmt:
    """Writes one row of the tile at ``column``, of ``units`` columns in all; rows are the axes before the last as one."""
    lets, flat = loops.bind("row_index", row)
    indices = loops.unravel(flat, result.shape[:-1])

    def write(columns: Expr, x: Expr, mask: Expr | None) -> Stmt:
        return result.write([*indices, columns], loops.finished(x, result.dtype), mask)

    return seq(lets, write_row(tile, column, E.const(units), value, write))


def column_vectors(tile: RegisterTile, column: Expr, columns: Expr, write: Callable[[int, Expr | None], Stmt]) -> Stmt:
    """Runs ``write(v, mask)`` for each vector of the tile at ``column``; those past ``columns`` are masked or left out."""
    whole = seq(write(v, None) for v in range(tile.vectors))
    known, place = loops.static(columns), loops.static(column)
    rest = None if known is None else known % tile.width if place is None else min(known - place, tile.width)
    if known is not None and rest == (0 if place is None else tile.width):
        return whole
    last: list[Stmt] = []
    for v in range(tile.vectors):
        done = v * tile.lanes
        valid = columns - (column + done) if rest is None else E.const(rest - done)
        fixed = loops.static(valid)
        if fixed is None or fixed > 0:
            last.append(write(v, None if fixed is not None and fixed >= tile.lanes else E.ramp(0, 1, tile.lanes) < valid))
    return loops.guard(column + tile.width <= columns, whole, seq(last))
