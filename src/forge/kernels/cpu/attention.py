"""Blocks of rows of attention: two matrix products and the softmax between them, without a matrix of scores in memory.

Operands: query [..., L, D], key [..., S, D] (or [..., D, S]), value [..., S, E], mask. One task is a block of rows of one pair of
products. It packs a block of keys and their values, and then takes a few rows at a time, whose scores stay in the first-level
cache: the first product writes them scaled and masked, a pass over each row makes exponentials of them, the second product reads
those. Sums are divided as they are written.

Where the keys are more than one block, or their number is known at run time only, the largest score of a row may grow from block
to block: what was summed before is then scaled down (``exp(old - new)``).

bfloat16 is summed in groups, of k and of keys, where the target multiplies such: the copies then hold groups, and exponentials
are rounded to bfloat16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.gemm import Product, Rows, RowValue
from forge.kernels.cpu.micro import OuterProduct, micro_kernel
from forge.kernels.cpu.panels import Right, VectorElement, along_columns, broadcast_indices, panel_vector
from forge.kernels.cpu.visible_keys import SHOWING, VisibleKeys, can_hide
from forge.loops import LARGEST_NUMBER, Accumulators, RegisterTile
from forge.loops.contract import KernelCall, Reader, Writer
from forge.loops.dots import BITS, Group
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Allocate, Let, Stmt, seq, store

# A packed block of keys, and one of their values, takes at most this part of the second-level cache.
KEY_SHARE: Final = 8
# All keys are packed as one block where there are at most this many, in this part of the second-level cache.
WHOLE_KEYS: Final = 1024
WHOLE_SHARE: Final = 6
# One of several blocks of keys has at most this many.
KEY_BLOCK: Final = 512
# The scores that are in work at once take about this many bytes, in the first-level cache.
SCORE_BYTES: Final = 24 << 10
# At least this many row tiles share a packed tile of keys while it is in the first-level cache.
MIN_TILES: Final = 4
# The rows of the query that one task copies take at most this many bytes, and so do their sums.
STAGED_BYTES: Final = 64 << 10
# A task has at most this many rows.
MAX_ROWS: Final = 240
# A pass over a row has this many independent accumulators.
UNROLL: Final = 4
# The pass over a row of at most this many vectors is written out.
WRITTEN_OUT: Final = 16
# One element of the pass over a row takes as long as this many multiply-adds.
EXPONENTIAL_COST: Final = 8


@dataclass(frozen=True, kw_only=True)
class AttentionPlan:
    """Sizes and choices of one call. ``whole``: one block holds all keys."""

    query: Reader
    key: Reader
    value: Reader
    mask: Reader | None
    result: Writer
    attrs: Any
    target: Target
    batch: tuple[Expr, ...]
    rows: Expr
    keys: Expr
    depth: Expr
    size: Expr
    score_tile: RegisterTile
    out_tile: RegisterTile
    row_block: int
    few_rows: int
    key_block: int
    whole: bool
    group: Group
    micro: OuterProduct
    inner: int

    @property
    def dtype(self) -> str:
        return self.score_tile.dtype

    @property
    def lanes(self) -> int:
        return self.score_tile.lanes

    @property
    def grouped(self) -> bool:
        """Whether a step of a sum multiplies several numbers."""
        return self.group.size > 1

    def steps(self, count: Expr) -> Expr:
        """Returns the steps of a sum over ``count`` numbers."""
        return loops.ceildiv(count, self.group.size) if self.grouped else count

    def panel(self, count: Expr) -> int:
        """Rows of a packed column tile for a sum over ``count`` numbers: whole vectors, or tile registers."""
        return gemm.padded_steps(self.micro, loops.round_up(loops.known(self.steps(count), "attention: the depth"), self.lanes))

    @property
    def key_panel(self) -> int:
        """Elements of a packed column tile of keys."""
        return self.panel(self.depth) * self.score_tile.width

    @property
    def value_panel(self) -> int:
        return self.panel(E.const(self.key_block)) * self.out_tile.width

    @property
    def sum_stride(self) -> int:
        """Elements of a row of sums on the stack."""
        return loops.round_up(loops.known(self.size, "attention: the size of values"), self.out_tile.width)

    @property
    def stride(self) -> int:
        """Elements of a row of scores on the stack."""
        return loops.round_up(self.key_block, self.score_tile.width)

    def read_query(self, batch: Sequence[Expr], row: Expr, step: Expr, mask: Expr | None) -> Expr:
        """Elements of a query that one step multiplies; single numbers, times the scale."""
        if self.grouped:
            inside = None if mask is None else self.group.numbers(step) < self.depth
            return self.group.adjacent(lambda k: self.read(self.query, batch, [row, k], inside), step)
        x = self.read(self.query, batch, [row, step], mask)
        return x * E.const(self.attrs.scale, self.dtype, step.lanes)

    def keys_of(self, batch: Sequence[Expr]) -> Right:
        """Returns the right operand of the first product."""
        def read(k: Expr, n: Expr, mask: Expr | None) -> Expr:
            return self.read(self.key, batch, [n, k] if self.attrs.transpose_key else [k, n], mask)

        def read_group(step: Expr, n: Expr, mask: Expr | None) -> Expr:
            if step.lanes > 1:
                inside = None if mask is None else self.group.numbers(step) < self.depth
                return self.group.adjacent(lambda k: read(k, n, inside), step)
            return self.group.read(lambda k: read(k, n, mask), step * self.group.size)

        by_columns = along_columns(lambda k, n: read(k, n, None), self.lanes)
        return Right(read_group if self.grouped else read, by_columns, self.keys, self.steps(self.depth), self.score_tile)

    def values_of(self, batch: Sequence[Expr], first: Expr, count: Expr) -> Right:
        """Returns ``count`` values from ``first`` on, as right operand of the second product."""
        def read(k: Expr, n: Expr, mask: Expr | None) -> Expr:
            return self.read(self.value, batch, [first + k, n], mask)

        def read_group(step: Expr, n: Expr, mask: Expr | None) -> Expr:
            size = self.group.size
            places = [step * size + i for i in range(size)]
            if not E.is_const(count % size, 0):
                places[1:] = [E.binary("min", place, count - 1) for place in places[1:]]
            return self.group.joined([read(place, n, mask) for place in places])

        by_columns = not self.grouped and along_columns(lambda k, n: read(k, n, None), self.lanes)
        return Right(read_group if self.grouped else read, by_columns, self.size, self.steps(count), self.out_tile)

    def read(self, operand: Reader, batch: Sequence[Expr], matrix: Sequence[Expr], mask: Expr | None = None) -> Expr:
        """Reads numbers of an operand, in their own dtype or, one by one, in the accumulators'.

        A constant of one element is read as a scalar.
        """
        value = operand.read([*broadcast_indices(batch, operand.shape[:-2]), *matrix], mask)
        return E.broadcast(value if self.grouped else E.cast(value, self.dtype), max(i.lanes for i in matrix))


def blocks_of_rows(call: KernelCall) -> Stmt:
    """Computes all rows, in tasks of their own for each block of rows and pair of products."""
    plan = plan_attention(call, call.attrs.inner)

    def body(plan: AttentionPlan) -> Stmt:
        return tasks(plan, lambda batch, rows: Task(plan, batch, rows))

    if loops.static(plan.keys) is not None:
        return body(plan)
    return loops.guard(plan.keys <= plan.key_block, body(replace(plan, whole=True)), body(plan))


def tasks(plan: AttentionPlan, make: Callable[[Sequence[Expr], Rows], Task]) -> Stmt:
    """Makes the parallel loop over the tasks of a plan."""
    work = plan.keys, plan.depth + plan.size + EXPONENTIAL_COST
    return gemm.batch_tasks(
        plan.batch, plan.rows, plan.row_block, 1, work, lambda batch, rows, _: make(batch, rows).statement())


def plan_attention(call: KernelCall, inner: int) -> AttentionPlan:
    """Chooses tiles and blocks; rows of the result stand before ``inner`` of its leading axes.

    Raises:
        CompileError: query, key or value is absent, or has no static depth.
    """
    query, key, value, mask = map(call.operand, range(4))
    if query is None or key is None or value is None:
        raise CompileError(f"{call.name}: attention; got no query, key or value; expected all three")
    result = call.results[0]
    place = len(result.shape) - 2 - inner
    rows, size = result.shape[place], result.shape[-1]
    keys = value.shape[-2]
    dtype = tiles.accumulator_dtype(query.dtype, key.dtype)
    data = "bfloat16" if query.dtype == key.dtype == value.dtype == "bfloat16" else dtype
    group = Group.chosen(call.target, data, data, query.shape[-1], dtype)
    lanes, registers, item = call.target.lanes(dtype), call.target.vector_registers, dtypes.itemsize(dtype)
    micro = micro_kernel(group, call.target, tiles=not E.is_const(rows, 1))
    vectors, tile_rows = tiles.product_tile(loops.static(rows), loops.static(size), lanes, call.target)
    wide = max(v for v in range(1, tiles.MAX_VECTORS + 1) if v == 1 or tiles.fits(tile_rows, v, registers))
    if micro.in_tiles:
        known = loops.static(rows)
        (vectors, tile_rows), (wide, _) = (gemm.tile_of_registers(known, n, lanes) for n in (loops.static(size), None))
    depth = loops.known(query.shape[-1], "attention: the depth")
    widest = max(1, depth, loops.known(size, "attention: the size of values")) * item
    known = loops.static(keys)
    cache = min(call.target.l2_cache, 2 * tiles.STACK_LIMIT) // widest
    whole = known is not None and known <= min(WHOLE_KEYS, cache // WHOLE_SHARE)
    key_block = max(1, known) if known is not None and whole else _key_block(known, wide * lanes, cache // KEY_SHARE)
    few_rows = gemm.row_block(rows, tile_rows, max(MIN_TILES * tile_rows, SCORE_BYTES // (key_block * item)))
    batch = (*result.shape[:place], *result.shape[place + 1:-1])
    return AttentionPlan(
        query=query, key=key, value=value, mask=mask, result=result, attrs=call.attrs, target=call.target, batch=batch, rows=rows,
        keys=keys, depth=query.shape[-1], size=size, score_tile=RegisterTile(tile_rows, wide, lanes, dtype),
        out_tile=RegisterTile(tile_rows, vectors, lanes, dtype), few_rows=few_rows, key_block=key_block, whole=whole, group=group,
        micro=micro, inner=inner, row_block=gemm.row_block(rows, few_rows, min(MAX_ROWS, STAGED_BYTES // widest)))


def _key_block(keys: int | None, width: int, fitting: int) -> int:
    """Keys of one of several blocks: whole column tiles."""
    most = max(width, min(KEY_BLOCK, fitting) // width * width)
    return most if keys is None else min(most, loops.round_up(tiles.even_blocks(keys, most), width))


class Task:
    """A block of rows of one pair of products.

    On the stack it keeps copies, the scores of a few rows, and of each row the largest score, the sum, and the factor of what
    was summed so far.
    """

    packs = True
    """Whether it copies keys and values; otherwise they are read where they lie."""

    def __init__(self, plan: AttentionPlan, batch: Sequence[Expr], rows: Rows) -> None:
        self.plan, self.batch, self.rows = plan, batch, rows
        dtype, scores = plan.dtype, plan.few_rows * plan.stride
        self.depth = gemm.padded_steps(plan.micro, plan.steps(plan.depth))
        self.query = loops.local("query", plan.group.word, plan.row_block * loops.known(self.depth, "attention: the depth"))
        self.keys = loops.local("keys", plan.group.word, plan.stride * plan.panel(plan.depth))
        self.values = loops.local("values", plan.group.word, plan.panel(E.const(plan.key_block)) * plan.sum_stride)
        self.scores = loops.local("scores", dtype, scores)
        self.weights = loops.local("weights", BITS, scores) if plan.grouped else self.scores
        self.sums = loops.local("sums", dtype, plan.row_block * plan.sum_stride)
        self.largest, self.total, self.factor = (
            loops.local(name, dtype, plan.row_block) for name in ("largest", "total", "factor")
        )

    def statement(self) -> Stmt:
        """Returns all that the task does."""
        plan = self.plan
        begin = seq(self._allocate(), self._stage_query())
        if plan.whole:
            return seq(begin, self._keys_of_rows(E.const(0), plan.keys))

        def block(index: Expr) -> Stmt:
            lets, first = loops.bind("first_key", index * plan.key_block)
            lets_count, count = loops.bind("key_count", E.binary("min", E.const(plan.key_block), plan.keys - first))
            return seq(lets, lets_count, self._keys_of_rows(first, count))

        blocks = loops.serial("key_block", loops.ceildiv(plan.keys, plan.key_block), block)
        return seq(begin, self._clear(), blocks, self._write_sums())

    def _allocate(self) -> Stmt:
        kept = [self.query, *([self.keys, self.values] if self.packs else []), self.scores, self.factor]
        kept += [self.weights] if self.plan.grouped else []
        return seq(Allocate(b) for b in (kept if self.plan.whole else (*kept, self.sums, self.largest, self.total)))

    def _stage_query(self) -> Stmt:
        """Copies the rows of query."""

        def read(row: Expr, k: Expr, mask: Expr | None) -> Expr:
            return self.plan.read_query(self.batch, row, k, mask)

        steps, micro = self.plan.steps(self.plan.depth), self.plan.micro
        copied = gemm.copy_rows(self.query, self.rows, steps, self.depth, self.plan.lanes, read)
        zeros = loops.serial("row", self.rows.count, lambda row: gemm.zero_steps(self.query, row * self.depth, steps, micro))
        return seq(copied, zeros) if micro.in_tiles else copied

    def _keys_of_rows(self, first: Expr, count: Expr) -> Stmt:
        """All that a block of keys adds to a block of rows: a few rows at a time, and the keys that they see."""
        plan, rows = self.plan, self.rows

        def few(number: Expr) -> Stmt:
            lets, begin = loops.bind("few_begin", rows.begin + number * plan.few_rows)
            left = rows.count - number * plan.few_rows
            lets_count, found = loops.bind("few_count", E.binary("min", E.const(plan.few_rows), left))
            some = Rows(begin, found, rows.total, plan.few_rows)
            look, seen = self._seen(some, first, count)
            passes = loops.serial("row", found, lambda row: self._exponentials(begin - rows.begin, row, seen))
            work = seq(self._scores(some, first, seen), passes, self._weighted(some, first, seen))
            return seq(lets, lets_count, look, work if plan.whole or seen is count else loops.guard(seen > 0, work))

        packed = self._pack(first, count) if self.packs else seq()
        return seq(packed, loops.serial("few", loops.ceildiv(rows.count, plan.few_rows), few))

    def _seen(self, few: Rows, first: Expr, count: Expr) -> tuple[Stmt, Expr]:
        """How many keys of a block matter to a few rows, after a statement that looks at the mask."""
        plan = self.plan
        if plan.mask is None or not can_hide(plan.mask, plan.attrs.fill):
            return seq(), count
        visible = VisibleKeys(plan.mask, plan.attrs.fill, plan.lanes, self.batch, few, first, count)
        if plan.whole:
            look, found = visible.find(None)
        else:
            least = loops.local("least", plan.dtype, 1)

            def lower(row: Expr) -> Stmt:
                largest = E.load(self.largest, few.begin - self.rows.begin + row)
                return store(least, 0, E.binary("min", E.load(least, 0), largest))

            fewest = loops.serial("row", few.count, lower)
            look, found = visible.find(E.load(least, 0) > E.const(SHOWING, plan.dtype))
            look = seq(Allocate(least), store(least, 0, E.const(math.inf, plan.dtype)), fewest, look)
        lets, seen = loops.bind("seen", found)
        return seq(look, lets), seen

    def _pack(self, first: Expr, count: Expr) -> Stmt:
        """Copies a block of keys and their values in column tiles."""
        plan = self.plan

        def keys(number: Expr, column: Expr) -> Stmt:
            base, steps = number * plan.key_panel, plan.steps(plan.depth)
            packed = plan.keys_of(self.batch).pack(self.keys, base, column)
            return seq(packed, gemm.zero_steps(self.keys, base, steps, plan.micro, plan.score_tile.width))

        def values(number: Expr, column: Expr) -> Stmt:
            base = number * plan.value_panel
            packed = plan.values_of(self.batch, first, count).pack(self.values, base, column)
            return seq(packed, gemm.zero_steps(self.values, base, plan.steps(count), plan.micro, plan.out_tile.width))

        packed_keys = gemm.column_tiles(plan.score_tile, count, keys, first)
        return seq(packed_keys, gemm.column_tiles(plan.out_tile, plan.size, values))

    def _scores(self, few: Rows, first: Expr, count: Expr) -> Stmt:
        """The first product; scores of a vector's lanes past the last key are -inf."""
        plan, tile = self.plan, self.plan.score_tile

        def column_tile(number: Expr, column: Expr) -> Stmt:
            lets, base = loops.bind("panel", number * plan.key_panel)

            def finish(row: Expr, value: RowValue) -> Stmt:
                def write(v: int, mask: Expr | None) -> Stmt:
                    x = self._biased(row, column + v * tile.lanes, self._bent(value(v)), mask)
                    at = (row - few.begin) * plan.stride + (column - first) + v * tile.lanes
                    return store(self.scores, E.ramp(at, 1, tile.lanes), x)

                return gemm.column_vectors(tile, column, plan.keys, write)

            def element(row: Expr, k: Expr) -> Expr:
                return E.load(self.query, (row - self.rows.begin) * self.depth + k)

            product = Product(tile, self.depth, element, panel_vector(self.keys, tile, base), plan.micro, finish)
            return seq(lets, gemm.any_rows(product, few, plan.rows))

        return gemm.column_tiles(tile, count, column_tile, first)

    def _bent(self, x: Expr) -> Expr:
        """With the soft cap; of groups the scale too."""
        plan = self.plan
        if plan.grouped and plan.attrs.scale != 1.0:
            x = x * E.const(plan.attrs.scale, plan.dtype, x.lanes)
        bound = plan.attrs.softcap
        if not bound:
            return x
        cap = E.const(bound, plan.dtype, x.lanes)
        return E.call("tanh", x / cap) * cap

    def _biased(self, row: Expr, column: Expr, x: Expr, inside: Expr | None) -> Expr:
        """With the mask applied."""
        mask, dtype = self.plan.mask, self.plan.dtype
        if mask is not None:
            indices = broadcast_indices([*self.batch, row, E.ramp(column, 1, x.lanes)], mask.shape)
            lanes = max((i.lanes for i in indices), default=1)
            value = mask.read(indices, inside if lanes > 1 else None)
            if mask.dtype == "bool":
                x = E.select(E.broadcast(value, x.lanes), x, E.const(self.plan.attrs.fill, dtype, x.lanes))
            else:
                x = x + E.broadcast(E.cast(value, dtype), x.lanes)
        return x if inside is None else E.select(inside, x, E.const(-math.inf, dtype, x.lanes))

    def _exponentials(self, before: Expr, few_row: Expr, count: Expr) -> Stmt:
        """Scores of a row become exponentials of their distance to the largest; NaN and +inf make the row's sum NaN."""
        plan, dtype, lanes = self.plan, self.plan.dtype, self.plan.lanes
        highest = Accumulators(RegisterTile(1, UNROLL, lanes, dtype), LARGEST_NUMBER, plan.target)
        added = Accumulators(RegisterTile(1, UNROLL, lanes, dtype), "sum", plan.target)
        lets, base = loops.bind("row_base", few_row * plan.stride)
        lets_row, row = loops.bind("row_of_task", before + few_row)

        def score(offset: Expr) -> Expr:
            return E.load(self.scores, E.ramp(base + offset, 1, lanes))

        found, shift = E.Var(dtype, 1, "largest"), E.Var(dtype, 1, "shift")
        find = _vector_pass(count, lanes, lambda offset, slot: highest.step(slot, score(offset)))
        largest = highest.total()
        if not plan.whole:
            old = E.load(self.largest, row)
            largest = E.select(E.compare("gt", old, largest), old, largest)
        # In a row of nothing but -inf, -inf - -inf would be NaN.
        shifted = E.select(E.compare("eq", found, E.const(-math.inf, dtype)), E.const(0, dtype), found)

        def exponential(offset: Expr, slot: int) -> Stmt:
            e = E.Var(dtype, lanes, "e")
            # Without groups, the second product reads them where the scores were.
            kept = store(self.weights, E.ramp(base + offset, 1, lanes), plan.group.bits(e) if plan.grouped else e)
            return seq(Let(e, E.call("exp", score(offset) - E.broadcast(shift, lanes))), kept, added.step(slot, e))

        return seq(
            lets,
            lets_row,
            highest.start(),
            find,
            Let(found, largest),
            Let(shift, shifted),
            added.start(),
            _vector_pass(count, lanes, exponential),
            self._zero_weights(base, count),
            self._keep(row, found, shift, added.total()),
        )

    def _zero_weights(self, base: Expr, count: Expr) -> Stmt:
        """Writes zeros behind the exponentials of a row that begins at ``base``, as far as tile registers read them."""
        plan = self.plan
        if not plan.micro.in_tiles:
            return seq()
        done, zero = loops.ceildiv(count, plan.lanes), E.const(0, BITS, plan.lanes)
        end = gemm.padded_steps(plan.micro, plan.steps(count)) * plan.group.size // plan.lanes
        return loops.serial("zero", end - done, lambda v: store(
            self.weights, E.ramp(base + v * plan.lanes, 1, plan.lanes), zero), done)

    def _keep(self, row: Expr, largest: Expr, shift: Expr, added: Expr) -> Stmt:
        """Remembers the sum of a row; with one block, the factor of its results."""
        if self.plan.whole:
            return store(self.factor, row, self._inverse(added))
        factor = E.Var(self.plan.dtype, 1, "factor")
        return seq(
            Let(factor, E.call("exp", E.load(self.largest, row) - shift)),
            store(self.total, row, E.load(self.total, row) * factor + added),
            store(self.largest, row, largest),
            store(self.factor, row, factor),
        )

    def _inverse(self, total: Expr) -> Expr:
        """1 / total; 0 for a row without keys, and for one that sees none if the operator says so."""
        plan = self.plan
        one, zero = E.const(1, plan.dtype), E.const(0, plan.dtype)
        if plan.attrs.zero_unseen or E.is_const(plan.keys, 0):
            return E.select(E.compare("eq", total, zero), zero, one / total)
        return one / total if loops.static(plan.keys) is not None else E.select(plan.keys.eq(0), zero, one / total)

    def _values(self, first: Expr, number: Expr, column: Expr) -> tuple[list[Stmt], VectorElement]:
        """What reads the values from ``first`` on, in the column tile of this number, after statements."""
        lets, base = loops.bind("panel", number * self.plan.value_panel)
        return lets, panel_vector(self.values, self.plan.out_tile, base)

    def _weighted(self, few: Rows, first: Expr, count: Expr) -> Stmt:
        """The second product: exponentials times values."""
        plan, tile = self.plan, self.plan.out_tile

        def column_tile(number: Expr, column: Expr) -> Stmt:
            lets, values = self._values(first, number, column)

            def slot(row: Expr, v: int) -> Expr:
                return self._sum_slot(row - self.rows.begin, column, v)

            def factor(row: Expr) -> Expr:
                return E.broadcast(E.load(self.factor, row - self.rows.begin), tile.lanes)

            def weight(row: Expr, step: Expr) -> Expr:
                return plan.group.load(self.weights, (row - few.begin) * plan.stride + step * plan.group.size)

            def finish(row: Expr, value: RowValue) -> Stmt:
                if not plan.whole:
                    return seq(store(self.sums, slot(row, v), value(v)) for v in range(tile.vectors))
                scale, share = loops.bind("share", factor(row))
                return seq(scale, self._write_row(row, column, lambda v: value(v) * share))

            start = None if plan.whole else lambda row, v: E.load(self.sums, slot(row, v)) * factor(row)
            steps = gemm.padded_steps(plan.micro, plan.steps(count))
            product = Product(tile, steps, weight, values, plan.micro, finish, start)
            return seq(lets, gemm.any_rows(product, few, plan.rows))

        return gemm.column_tiles(tile, plan.size, column_tile)

    def _sum_slot(self, row: Expr, column: Expr, vector: int) -> Expr:
        """Where a vector of sums of a row of the task lies."""
        tile = self.plan.out_tile
        return E.ramp(row * self.plan.sum_stride + column + vector * tile.lanes, 1, tile.lanes)

    def _clear(self) -> Stmt:
        plan = self.plan
        zero, lowest = E.const(0, plan.dtype), E.const(-math.inf, plan.dtype)

        def row_start(row: Expr) -> Stmt:
            def clear(v: Expr) -> Stmt:
                place = E.ramp(row * plan.sum_stride + v * plan.lanes, 1, plan.lanes)
                return store(self.sums, place, E.broadcast(zero, plan.lanes))

            sums = loops.serial("v", plan.sum_stride // plan.lanes, clear)
            return seq(store(self.largest, row, lowest), store(self.total, row, zero), sums)

        return loops.serial("row", self.rows.count, row_start)

    def _write_sums(self) -> Stmt:
        """Divides what all blocks of keys summed, and writes it."""
        tile = self.plan.out_tile

        def write(row: Expr) -> Stmt:
            lets, share = loops.bind("share", E.broadcast(self._inverse(E.load(self.total, row)), tile.lanes))

            def column_tile(_: Expr, column: Expr) -> Stmt:
                def value(v: int) -> Expr:
                    return E.load(self.sums, self._sum_slot(row, column, v)) * share

                return self._write_row(self.rows.begin + row, column, value)

            return seq(lets, gemm.column_tiles(tile, self.plan.size, column_tile))

        return loops.serial("row", self.rows.count, write)

    def _write_row(self, row: Expr, column: Expr, value: RowValue) -> Stmt:
        """Writes one row of a column tile."""
        plan, result = self.plan, self.plan.result
        place = len(self.batch) - plan.inner

        def write(columns: Expr, x: Expr, mask: Expr | None) -> Stmt:
            return result.write([*self.batch[:place], row, *self.batch[place:], columns], E.cast(x, result.dtype), mask)

        return gemm.write_row(plan.out_tile, column, plan.size, value, write)


def _vector_pass(count: Expr, lanes: int, body: Callable[[Expr, int], Stmt]) -> Stmt:
    """``body(offset, slot)`` for every vector of a row; neighbours have different slots."""
    vectors = loops.ceildiv(count, lanes)
    known = loops.static(vectors)
    if known is not None and known <= WRITTEN_OUT:
        return seq(body(E.const(v * lanes), v % UNROLL) for v in range(known))
    groups = vectors // UNROLL
    main = loops.serial("group", groups, lambda g: seq(body((g * UNROLL + u) * lanes, u) for u in range(UNROLL)))
    if known is None:
        return seq(main, loops.serial("v", vectors - groups * UNROLL, lambda i: body(i * lanes, 0), groups * UNROLL))
    rest = seq(body(E.const((known // UNROLL * UNROLL + u) * lanes), u) for u in range(known % UNROLL))
    return seq(main, rest)
