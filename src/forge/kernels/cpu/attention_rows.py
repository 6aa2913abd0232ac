"""Kernel family ``attention``: blocks of rows over packed keys, or a few rows over keys and values where they lie.

One row of each head is what a decoder asks for with each token. Heads that share keys are rows of one product then, so that
every key and value is read once, at the speed of memory: a key makes one score for each row, its elements along the vectors;
then values are added up, their elements along the vectors too. The values of a block of keys stay in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from forge import dtypes, loops
from forge.kernels.cpu import tiles
from forge.kernels.cpu.attention import AttentionPlan, Task, blocks_of_rows, plan_attention, tasks
from forge.kernels.cpu.gemm import Rows
from forge.kernels.cpu.panels import VectorElement, broadcast_indices, contiguous, loaded
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.loops.values import multiply_add
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Prefetch, Stmt, seq, store

# At most this many rows share keys.
MAX_ROWS: Final = 8
# Accumulators of scores, or of sums of values, that are in registers at once.
ACCUMULATORS: Final = 12
# Keys are prefetched this many rows ahead, the values of a block while its keys are read: the processor does not do it by
# itself where the heads lie between the rows of one.
AHEAD: Final = 32
# The values of a block of keys take about this part of the first-level cache.
VALUE_SHARE: Final = 2


@kernel("attention")
def attention(call: KernelCall) -> Function:
    """Family of ``nn.contrib_attention``."""
    rows = call.results[0].shape[-2 - call.attrs.inner]
    known = loops.static(rows)
    joined = _with_joined_heads(call, 1 if known is None else known)
    plan = None if joined is None else _plan(joined)
    if plan is None:
        return call.function(blocks_of_rows(call))
    few = tasks(plan, lambda batch, some: _FewRows(plan, batch, some))
    if known is not None:
        return call.function(few)
    return call.function(loops.guard(rows.eq(1), few, blocks_of_rows(call)))


def _with_joined_heads(call: KernelCall, rows: int) -> KernelCall | None:
    """The call with the rows of all heads that share keys as those of one; None: they are too many, or of unknown number."""
    query, key, value, mask = map(call.operand, range(4))
    result, inner = call.results[0], call.attrs.inner
    if query is None or key is None or value is None:
        return None
    place, rank = len(result.shape) - 2 - inner, len(result.shape)
    batch = (*result.shape[:place], *result.shape[place + 1:-1])
    shared = 0
    while shared < len(batch) and all(E.is_const(_aligned(v, rank)[-3 - shared], 1) for v in (key, value)):
        shared += 1
    kept, split = batch[:len(batch) - shared], (*batch[len(batch) - shared:], E.const(rows))
    count = loops.static(loops.product(split))
    if count is None or not 0 < count <= MAX_ROWS:
        return None

    def joined(operand: Reader, has_rows: bool) -> Reader:
        def read(indices: Sequence[Expr], mask: Expr | None = None) -> Expr:
            *lead, row, last = indices
            matrix = [*loops.unravel(row, split), last] if has_rows else [*[E.const(0)] * shared, row, last]
            return operand.read(broadcast_indices([*lead, *matrix], operand.shape), mask)

        shape = _aligned(operand, rank)
        return Reader((*shape[:len(kept)], E.const(count) if has_rows else shape[-2], shape[-1]), operand.dtype, read, None)

    def write(indices: Sequence[Expr], x: Expr, mask: Expr | None = None) -> Stmt:
        *lead, row, last = indices
        *heads, inner_row = [*lead, *loops.unravel(row, split)]
        return result.write([*heads[:place], inner_row, *heads[place:], last], x, mask)

    operands = (joined(query, True), joined(key, False), joined(value, False), None if mask is None else joined(mask, True))
    writer = Writer((*kept, E.const(count), result.shape[-1]), result.dtype, write)
    return replace(call, operands=operands, results=(writer,))


def _aligned(operand: Reader, rank: int) -> list[Expr]:
    """The shape of an operand with axes of 1 in front."""
    return [*[E.const(1)] * (rank - len(operand.shape)), *operand.shape]


def _plan(call: KernelCall) -> AttentionPlan | None:
    """The plan for all rows that share keys; None: vectors along the last axes of the operands are not loads."""
    plan = plan_attention(call, 0)
    rows, depth, size = (loops.known(e, "attention") for e in (plan.rows, plan.depth, plan.size))
    lanes = plan.lanes
    if plan.grouped or not plan.attrs.transpose_key or depth % lanes or size % lanes:
        return None
    places = [E.var(f"b{k}") for k in range(len(plan.batch) + 1)]
    for operand in (plan.key, plan.value):
        if not contiguous(lambda k, operand=operand: operand.read([*places, k]), lanes):  # type: ignore[misc]
            return None
    vectors = tiles.divisors(size // lanes, max(1, ACCUMULATORS // rows))[0]
    known, item = loops.static(plan.keys), dtypes.itemsize(plan.dtype)
    block = max(lanes, plan.target.l1_cache // VALUE_SHARE // (size * item) // lanes * lanes)
    whole = known is not None and known <= block
    return replace(
        plan, score_tile=RegisterTile(rows, 1, lanes, plan.dtype), out_tile=RegisterTile(rows, vectors, lanes, plan.dtype),
        row_block=rows, few_rows=rows, key_block=max(1, known) if known is not None and whole else block, whole=whole)


class _FewRows(Task):
    """All rows that share keys, which are not packed."""

    packs = False

    def _scores(self, few: Rows, first: Expr, count: Expr) -> Stmt:
        keys = max(1, ACCUMULATORS // self.plan.few_rows)
        whole = count // keys
        several = loops.serial("keys", whole, lambda i: self._dots(first, i * keys, keys))
        single = loops.serial("key", count - whole * keys, lambda i: self._dots(first, i, 1), whole * keys)
        return seq(several, single, loops.serial("row", few.count, lambda row: self._finish_scores(row, first, count)))

    def _prefetch(self, row: Expr) -> Stmt:
        """The value of this number, and the key that comes later."""
        plan = self.plan
        found: list[Stmt] = []
        for operand, extent, at in ((plan.value, plan.size, row), (plan.key, plan.depth, row + AHEAD)):
            for first in range(0, loops.known(extent, "attention"), tiles.CACHE_LINE // dtypes.itemsize(plan.dtype)):
                vector = loaded(plan.read(operand, self.batch, [at, E.ramp(E.const(first), 1, plan.lanes)]))
                if vector is not None and isinstance(vector.index, E.Ramp):
                    found.append(Prefetch(vector.buffer, vector.index.base))
        return seq(found)

    def _dots(self, first: Expr, offset: Expr, keys: int) -> Stmt:
        """Scores of some keys, and of all rows."""
        plan, tile = self.plan, self.plan.score_tile
        sums = Accumulators(RegisterTile(tile.rows, keys, tile.lanes, tile.dtype))
        lets, place = loops.bind("place", offset)

        def key(k: Expr, n: int) -> Expr:
            return plan.read(plan.key, self.batch, [first + place + n, k])

        def step(v: Expr) -> Stmt:
            at = E.ramp(v * tile.lanes, 1, tile.lanes)
            parts: list[Stmt] = []
            vectors = [loops.bound(key(at, n), parts, f"k{n}") for n in range(keys)]

            def row(r: Expr) -> Stmt:
                query, q = loops.bind("q", E.load(self.query, E.ramp(r * self.depth + v * tile.lanes, 1, tile.lanes)))
                return seq(query, (sums.set(r, n, multiply_add(q, x, sums.get(r, n))) for n, x in enumerate(vectors)))

            return seq(parts, loops.unroll("r", tile.rows, row))

        def write(r: Expr) -> Stmt:
            return seq(store(self.scores, r * plan.stride + place + n, E.call("reduce_add", sums.get(r, n))) for n in range(keys))

        steps = loops.serial("v", loops.known(self.depth, "attention") // tile.lanes, step)
        ahead = [self._prefetch(first + place + n) for n in range(keys)]
        return seq(lets, ahead, sums.start(), steps, loops.unroll("r", tile.rows, write))

    def _finish_scores(self, row: Expr, first: Expr, count: Expr) -> Stmt:
        """Soft cap and mask; lanes past the last key become -inf."""
        plan, lanes = self.plan, self.plan.lanes

        def vector(v: Expr) -> Stmt:
            lets, at = loops.bind("at", v * lanes)
            place = E.ramp(row * plan.stride + at, 1, lanes)
            inside = E.ramp(at, 1, lanes) < count
            score = self._bent(E.load(self.scores, place))
            return seq(lets, store(self.scores, place, self._biased(row, first + at, score, inside)))

        return loops.serial("v", loops.ceildiv(count, lanes), vector)

    def _values(self, first: Expr, number: Expr, column: Expr) -> tuple[list[Stmt], VectorElement]:
        plan = self.plan
        return [], lambda k, v: plan.read(
            plan.value, self.batch, [first + k, E.ramp(column + v * plan.lanes, 1, plan.lanes)])
