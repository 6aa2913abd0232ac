"""Reductions down the columns of a matrix, row by row.

Vectors lie along the columns; their accumulators are a row in the first-level cache, so that memory is read in order. A tall
matrix is cut into chunks of rows, whose number depends on the sizes alone: results are the same for every number of threads::

    for r in R: for c in C: acc[c] += x[r, c]
    -->  parallel k in K: for r in chunk k: for c in C: partial[k, c] += x[r, c]
         for c in C: out[c] = partial[0, c] + .. + partial[K - 1, c]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from forge import dtypes, loops
from forge.loops import PARALLEL_WORK, Loop, Vectorizer
from forge.schedule.access import UNIT, pattern
from forge.schedule.problem import Problem
from forge.schedule.stages import Reduction
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.stmt import Allocate, Let, Stmt, loop, seq, store

# This many rows are read side by side: an accumulator is loaded and stored once for all of them.
ROWS: Final = 4

# A tall matrix is cut into at most this many chunks of rows, each of at least MIN_ROWS.
CHUNKS: Final = 16
MIN_ROWS: Final = 32
# The partial results of chunks take at most this many bytes of stack.
MAX_PARTIAL_BYTES: Final = 1 << 18


@dataclass(frozen=True, eq=False)
class _Plan:
    """``blocks`` of ``width`` columns each, ``chunks`` of ``height`` rows each."""

    width: int
    blocks: Expr
    chunks: int
    height: Expr


def reduce_columns(problem: Problem, axis: Loop) -> Stmt | None:
    """Returns the loop nest with vectors along outer axis ``axis``; None where rows are short or the shape is another."""
    if len(problem.reductions) != 1 or problem.rest:
        return None
    (r,) = problem.reductions
    strides = problem.accesses(r).strides(problem.algebra, axis.var)
    lanes = axis.lanes(problem.lanes)
    wide = axis.assumed > 4 * lanes and len(r.axes) == 1 and r.axes[0].assumed >= MIN_ROWS
    if not wide or not any(pattern(s) == UNIT for s in strides):
        return None
    return _Columns(problem, axis, r, lanes).build()


class _Columns:
    def __init__(self, problem: Problem, axis: Loop, r: Reduction, lanes: int) -> None:
        self.problem = problem
        self.axis = axis
        self.r = r
        self.lanes = lanes
        self.others = [other for other in problem.outer if other is not axis]
        self.plan = self._plan()
        self.block = Loop(E.var("b"), self.plan.blocks)
        self.places = [*self.others, self.block]
        self.accumulators = Buffer("acc", r.result.dtype, (E.const(self._elements()),), scope="local", alignment=64)

    def _plan(self) -> _Plan:
        step = 4 * self.lanes
        most = max(step, self.problem.target.l1_cache // (4 * dtypes.itemsize(self.r.result.dtype)) // step * step)
        static = self.axis.static
        width = loops.round_up(static, self.lanes) if static is not None and static <= 2 * most else most
        blocks = loops.ceildiv(self.axis.extent, width)
        height = self.r.axes[0].extent
        chunks = self._chunks(width, blocks)
        return _Plan(width, blocks, chunks, loops.ceildiv(height, chunks))

    def _chunks(self, width: int, blocks: Expr) -> int:
        """More than 1 where blocks of columns are too few for threads, and rows are worth it."""
        around = math.prod(o.static or 0 for o in self.others) * (Loop(self.axis.var, blocks).static or 0)
        rows = self.r.axes[0].assumed
        work = around * rows * width // self.lanes * self.r.step_cost
        if around == 0 or around >= CHUNKS or work < 4 * PARALLEL_WORK:
            return 1
        room = MAX_PARTIAL_BYTES // (around * width * dtypes.itemsize(self.r.result.dtype))
        return max(1, min(CHUNKS, rows // MIN_ROWS, room))

    def _elements(self) -> int:
        if self.plan.chunks == 1:
            return self.plan.width
        return self.plan.chunks * self.plan.width * math.prod(loop_.static or 1 for loop_ in self.places)

    def build(self) -> Stmt:
        places = self.places
        cost = self.plan.height * (self.plan.width // self.lanes * self.r.step_cost)
        if self.plan.chunks == 1:
            whole = self._accumulate(E.const(0), E.const(0), self.plan.height)
            return loops.parallel_nest(places, seq(Allocate(self.accumulators), whole, self._finish(E.const(0))), cost)
        chunk = Loop(E.var("k"), E.const(self.plan.chunks))
        first = chunk.var * self.plan.height
        rows = E.binary("max", E.binary("min", self.plan.height, self.r.axes[0].extent - first), E.const(0))
        place = loops.ravel(places)
        at = (place * self.plan.chunks + chunk.var) * self.plan.width
        passes = loops.parallel_nest([*places, chunk], self._accumulate(at, first, rows), cost)
        finish = loops.nest(places, self._finish(place * (self.plan.chunks * self.plan.width)))
        return seq(Allocate(self.accumulators), passes, finish)

    @property
    def _start(self) -> Expr:
        return self.block.var * self.plan.width

    @property
    def _extent(self) -> Expr:
        if self.axis.static is not None and self.axis.static <= self.plan.width:
            return self.axis.extent
        return E.binary("min", E.const(self.plan.width), self.axis.extent - self._start)

    def _accumulate(self, at: Expr, first: Expr, rows: Expr) -> Stmt:
        """Reduces ``rows`` rows from ``first`` on into the accumulators from ``at`` on."""
        start = loops.identity(self.r.kind, self.r.result.dtype, self.lanes)
        vector = E.var("v")
        slot = E.ramp(at + vector * self.lanes, 1, self.lanes)
        fill = loop(vector, loops.ceildiv(self._extent, self.lanes), store(self.accumulators, slot, start))
        long = loops.is_long(self.r.kind, self.r.result.dtype, self.plan.height)
        return seq(fill, loops.guard(long, self._in_blocks(at, first, rows), self._all_rows(at, first, rows)))

    def _all_rows(self, at: Expr, first: Expr, rows: Expr) -> Stmt:
        many, one = E.var("r"), E.var("r")
        together = self._rows(at, [first + many * ROWS + k for k in range(ROWS)])
        single = self._rows(at, [first + rows // ROWS * ROWS + one])
        return seq(loop(many, rows // ROWS, together), loop(one, rows % ROWS, single))

    def _in_blocks(self, at: Expr, first: Expr, rows: Expr) -> Stmt:
        """Blocks of rows; all but the last are added to two rows, of totals and of what rounding takes from them."""
        block, start, extent = loops.blocks(rows, loops.BLOCK, "k")
        vector, dtype = E.var("v"), self.r.result.dtype
        high, low = (Buffer(name, dtype, (E.const(self.plan.width),), scope="local", alignment=64) for name in ("high", "low"))
        own = E.ramp(vector * self.lanes, 1, self.lanes)
        slot = E.ramp(at + vector * self.lanes, 1, self.lanes)
        parts: list[Stmt] = []
        total, lost = loops.two_sum(E.load(high, own), E.load(low, own) + E.load(self.accumulators, slot), parts)
        collect = seq(parts, store(high, own, total), store(low, own, lost),
                      store(self.accumulators, slot, E.const(0, dtype, self.lanes)))
        clear = seq(store(part, own, E.const(0, dtype, self.lanes)) for part in (high, low))
        finish = store(self.accumulators, slot, E.load(high, own) + (E.load(low, own) + E.load(self.accumulators, slot)))

        def each(body: Stmt) -> Stmt:
            return loop(vector, loops.ceildiv(self._extent, self.lanes), body)

        body = seq(loops.guard(block.var > 0, each(collect)), self._all_rows(at, first + start, extent))
        return seq(Allocate(high), Allocate(low), each(clear), loops.nest([block], body),
                   each(finish))

    def _rows(self, at: Expr, rows: Sequence[Expr]) -> Stmt:
        def step(column: Expr, lanes: int, mask: Expr | None) -> Stmt:
            return self._step(at, rows, column, lanes, mask)

        return loops.vector_loop(self._extent, self.lanes, step, 2, self.problem.masked)

    def _step(self, at: Expr, rows: Sequence[Expr], column: Expr, lanes: int, mask: Expr | None) -> Stmt:
        slot = E.ramp(at + column, 1, lanes)
        total = E.load(self.accumulators, slot)
        vectorizers = [self._vectorizer(column, lanes, mask, {self.r.axes[0].var: row}) for row in rows]
        values = [E.broadcast(v.expr(self.r.value), lanes) for v in vectorizers]
        if self.r.kind in ("max", "min"):
            values = [loops.tree(values, lambda a, b: loops.combine(self.r.kind, a, b))]
        for value in values:
            total = loops.combine(self.r.kind, total, value, self.problem.target)
        return store(self.accumulators, slot, total)

    def _vectorizer(self, column: Expr, lanes: int, mask: Expr | None, bound: Mapping[Var, Expr]) -> Vectorizer:
        return Vectorizer(self.axis.var, self._start + column, lanes, mask, bound)

    def _finish(self, at: Expr) -> Stmt:
        """Hands the totals to the body."""

        def result(column: Expr, lanes: int, mask: Expr | None) -> Stmt:
            return self._result(at, column, lanes, mask)

        return loops.vector_loop(self._extent, self.lanes, result, 1, self.problem.masked)

    def _result(self, at: Expr, column: Expr, lanes: int, mask: Expr | None) -> Stmt:
        chunks = [E.ramp(at + k * self.plan.width + column, 1, lanes) for k in range(self.plan.chunks)]
        parts = [E.load(self.accumulators, chunk) for chunk in chunks]
        total = reduce(lambda a, b: loops.combine(self.r.kind, a, b), parts)
        result = E.Var(self.r.result.dtype, lanes, self.r.result.name)
        body = self._vectorizer(column, lanes, mask, {self.r.result: result}).stmt(self.problem.body)
        return seq(Let(result, total), body)
