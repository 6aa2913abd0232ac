"""Loop nests of reductions with element-wise code after them.

Output axes that a reduction depends on are *outer*; the others (a reduction that is broadcast back) are *rest*. Two shapes::

    inner: for outer: for each reduction: vector accumulators along a reduction axis, summed up at the end
                      for rest: body
    outer: for outer, a vector of one axis at a time: for each reduction: for its axes: one accumulator per vector
                      for rest: body
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Final

from forge import loops
from forge.loops import PARALLEL_WORK, Accumulators, AxisAccumulators, Loop, RegisterTile, Vectorizer
from forge.loops.contract import KernelCall
from forge.schedule.access import INVARIANT, UNIT, analyse, pattern, vector_cost
from forge.schedule.algebra import Algebra, Poly
from forge.schedule.columns import reduce_columns
from forge.schedule.injective import serial_nest
from forge.schedule.pairs import pair_along, reduced_pairs
from forge.schedule.problem import Problem, prepare
from forge.schedule.simplify import renaming
from forge.schedule.stages import Reduction
from forge.schedule.windows import reduce_windows
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.stmt import Allocate, Let, Stmt, loop, seq, store
from forge.tir.visit import free_variables

# Reductions of at most this many steps in all are written out.
UNROLLED_STEPS: Final = 9

# Vectors along a reduction axis have at most this many independent accumulators.
INNER_ACCUMULATORS: Final = 4
# Along an outer axis, at most this many vectors are reduced side by side,
OUTER_VECTORS: Final = 4
# and at most this many together with the steps of a register block.
MAX_ACCUMULATORS: Final = 12

# Rows of a length that is known at run time only are mostly short: their vectors have at most this many lanes.
ROW_LANES: Final = 32

# A long reduction to few results is cut into at most this many chunks.
CHUNKS: Final = 16
# Chunks of a single axis are multiples of this.
CHUNK_ELEMENTS: Final = 1024


def schedule_reductions(
    call: KernelCall, axes: Sequence[Loop], reductions: Sequence[Reduction], body: Stmt, algebra: Algebra
) -> Stmt:
    """Builds loops around ``body``, which uses the results of ``reductions``."""
    windows = reduce_windows(call.target, axes, reductions, body, algebra)
    if windows is not None:
        return windows
    problem = prepare(call, axes, reductions, body, algebra)
    axis = _outer_vector_axis(problem)
    if axis is None:
        return _inner_vectors(problem)
    by_columns = reduce_columns(problem, axis)
    return _OuterVectors(problem, axis).build() if by_columns is None else by_columns


def _outer_vector_axis(problem: Problem) -> Loop | None:
    """The outer axis to vectorize, or None where vectors along the reduction axes are cheaper."""
    if not problem.outer:
        return None
    best = min(reversed(problem.outer), key=lambda axis: _outer_cost(problem, axis))
    return best if _outer_cost(problem, best) < _inner_cost(problem) else None


def _outer_cost(problem: Problem, axis: Loop) -> float:
    """Per output element of the outer axes."""
    lanes = axis.lanes(problem.lanes)
    after = vector_cost(analyse((), (problem.body,), problem.algebra), axis, lanes, problem.algebra)
    total = after * math.prod(r.assumed for r in problem.rest)
    for r in problem.reductions:
        total += r.steps * _step_cost(problem, r, axis, lanes)
    return total


def _inner_cost(problem: Problem) -> float:
    total = 1.0
    for r in problem.reductions:
        axis = _reduction_vector_axis(problem, r)
        if axis is None:
            total += r.steps * (1 + loops.expression_cost(r.value))
            continue
        lanes = axis.lanes(problem.lanes)
        total += r.steps * _step_cost(problem, r, axis, lanes) + 2 * lanes.bit_length()
    return total


def _step_cost(problem: Problem, r: Reduction, axis: Loop, lanes: int) -> float:
    """Of one element, in vectors along ``axis``."""
    return vector_cost(problem.accesses(r), axis, lanes, problem.algebra) + loops.expression_cost(r.value) / lanes


def _reduction_vector_axis(problem: Problem, reduction: Reduction) -> Loop | None:
    if not reduction.axes:
        return None
    accesses = problem.accesses(reduction)
    return min(reversed(reduction.axes), key=lambda axis: vector_cost(accesses, axis, problem.lanes, problem.algebra))


def _reduction_nest(axes: Sequence[Loop], body: Stmt) -> Stmt:
    """Loops over reduction axes; few steps are written out."""
    steps = math.prod(axis.static if axis.static is not None else UNROLLED_STEPS + 1 for axis in axes)
    if steps > UNROLLED_STEPS:
        return loops.nest(axes, body)
    for axis in reversed(axes):
        body = loop(axis.var, axis.extent, body, "unrolled")
    return body


def _inner_vectors(problem: Problem) -> Stmt:
    chunks = _chunks(problem)
    if chunks > 1:
        return _inner_chunks(problem, chunks)
    work: Expr = E.const(0)
    for r in problem.reductions:
        work = work + r.cost // problem.lanes
    after = loops.product(axis.extent for axis in problem.rest) * loops.statement_cost(problem.body)
    work = work + after // (problem.lanes if problem.rest else 1) + 1

    def rows(long: bool) -> Stmt:
        parts = [part for group in _passes(problem) for part in _inner_reductions(problem, group, long)]
        return loops.parallel_nest(problem.outer, seq(*parts, rest_loops(problem)), work)

    return _by_length([_is_long_inside(problem, r) for r in problem.reductions], rows)


def _by_length(long: Sequence[Expr], build: Callable[[bool], Stmt]) -> Stmt:
    """``build(True)`` where a sum is long, else ``build(False)``: short rows do not pay for what blocks need."""
    perhaps = [x for x in long if not E.is_const(x, False)] or [E.const(False, "bool")]
    certain = next((x for x in perhaps if E.is_const(x)), reduce(partial(E.binary, "or"), perhaps))
    return loops.guard(certain, build(True), build(False))


def _passes(problem: Problem) -> list[list[Reduction]]:
    """The reductions in passes over memory: neighbours over equal axes, none of which needs another, share loops."""
    passes = list[list[Reduction]]()
    for r in problem.reductions:
        first = passes[-1][0] if passes else None
        if first is not None and _extents(problem, first) == _extents(problem, r) and free_variables(r.value).isdisjoint(
                before.result for before in passes[-1]):
            rename = renaming({own.var: axis.var for own, axis in zip(r.axes, first.axes, strict=True)})
            passes[-1].append(replace(r, value=rename(r.value), axes=first.axes))
        else:
            passes.append([r])
    return passes


def _extents(problem: Problem, r: Reduction) -> list[Poly]:
    return [problem.algebra.poly(axis.extent) for axis in r.axes]


def _chunks(problem: Problem) -> int:
    """How many parts a long reduction to few results is cut into, for threads; 1 where that does not pay."""
    passes = _passes(problem)
    if len(passes) != 1 or not passes[0][0].axes:
        return 1
    around = math.prod(axis.static or CHUNKS for axis in problem.outer)
    r = passes[0][0]
    axis = r.axes[0]
    work = around * r.steps * sum(each.step_cost for each in passes[0]) // problem.lanes
    if axis.static is None and all(other.static is not None for other in problem.outer):
        return CHUNKS if around < CHUNKS and len(r.axes) == 1 else 1
    return min(CHUNKS, axis.assumed) if around < CHUNKS and work >= 4 * PARALLEL_WORK else 1


def _inner_chunks(problem: Problem, chunks: int) -> Stmt:
    """Chunks whose bounds depend on the sizes alone, so that every number of threads gives the same result::

        parallel o in outer, k in chunks: partial[o, k] = sum over chunk k
        for o in outer: for rest: body(partial[o, 0] + partial[o, 1] + ..)
    """
    (together,) = _passes(problem)
    axis, *others = together[0].axes
    step = CHUNK_ELEMENTS if not others else 1
    height = (axis.extent + (chunks * step - 1)) // (chunks * step) * step
    chunk = Loop(E.var("k"), E.const(chunks))
    first = chunk.var * height
    left = E.binary("max", E.binary("min", height, axis.extent - first), E.const(0))
    even = axis.static is not None and axis.static % (chunks * step) == 0
    part = Loop(E.var(axis.var.name), height if even else left)
    problem.algebra.declare(part.var, part.extent)
    problem.algebra.declare(chunk.var, chunk.extent)
    moved = renaming({axis.var: first + part.var})
    own = [Reduction(E.Var(r.result.dtype, 1, "part"), r.kind, moved(r.value), [part, *others]) for r in together]
    size = chunks * math.prod(other.static or 1 for other in problem.outer)
    parts = [Buffer(f"partial{number}", r.result.dtype, (E.const(size),), scope="local") for number, r in enumerate(together)]
    place = loops.ravel(problem.outer)
    work = height * loops.product(o.extent for o in others) * sum(r.step_cost for r in together) // problem.lanes + 1
    body = seq(*_inner_reductions(problem, own, True),
               (store(buffer, place * chunks + chunk.var, r.result) for buffer, r in zip(parts, own)))
    totals = [Let(r.result, loops.tree([E.load(buffer, place * chunks + k) for k in range(chunks)],
                                       partial(loops.combine, r.kind))) for buffer, r in zip(parts, together)]
    finish = loops.nest(problem.outer, seq(totals, rest_loops(problem)))
    return seq(map(Allocate, parts), loops.parallel_nest([*problem.outer, chunk], body, work), finish)


def _inner_tile(problem: Problem, r: Reduction, axis: Loop) -> RegisterTile:
    """Accumulators of vectors along reduction axis ``axis``."""
    lanes = axis.lanes(problem.lanes)
    return RegisterTile(1, min(INNER_ACCUMULATORS, max(1, axis.assumed // lanes)), lanes, r.result.dtype)


def _is_long_inside(problem: Problem, r: Reduction) -> Expr:
    """Whether an accumulator of vectors along a reduction axis gets many terms."""
    axis = _reduction_vector_axis(problem, r)
    if axis is None:
        return E.const(False, "bool")
    steps = loops.ceildiv(axis.extent, _inner_tile(problem, r, axis).width)
    return loops.is_long(r.kind, r.result.dtype, loops.product([steps, *(o.extent for o in r.axes if o is not axis)]))


def _inner_reductions(problem: Problem, together: Sequence[Reduction], long: bool) -> list[Stmt]:
    """Reduces in one pass, with vectors along one reduction axis, and binds the results; a ``long`` sum in blocks."""
    first = together[0]
    axis = _reduction_vector_axis(problem, first)
    if axis is None:
        return [Let(r.result, r.value) for r in together]
    tile = _inner_tile(problem, first, axis)
    in_blocks = [long and not E.is_const(_is_long_inside(problem, r), False) for r in together]
    accumulators = [AxisAccumulators(replace(tile, dtype=r.result.dtype), r.kind, problem.target, problem.masked, blocks)
                    for r, blocks in zip(together, in_blocks)]

    def steps(at: Expr, width: int, mask: Expr | None, group: int) -> Stmt:
        vectors = [Vectorizer(axis.var, at + u * width, width, mask) for u in range(group)]
        return seq(each.step(u, width, vector.expr(r.value), mask)
                   for each, r in zip(accumulators, together) for u, vector in enumerate(vectors))

    def along(begin: Expr, extent: Expr) -> Stmt:
        return loops.group_loop(extent, tile.lanes, steps, tile.vectors, problem.masked, begin)

    around = [other for other in first.axes if other is not axis]
    if any(in_blocks):
        collect = seq(each.collect() for each, blocks in zip(accumulators, in_blocks) if blocks)
        passes = loops.in_blocks([*around, axis], tile.width, along, collect)
    else:
        passes = loops.nest(around, along(E.const(0), axis.extent))
    return [*(each.start() for each in accumulators), passes,
            *(Let(r.result, each.total()) for each, r in zip(accumulators, together))]


def _is_long(r: Reduction) -> Expr:
    """Whether an accumulator that gets all terms gets many."""
    return loops.is_long(r.kind, r.result.dtype, loops.product(axis.extent for axis in r.axes))


class _OuterVectors:
    """Vectors along outer axis ``axis``; several vectors, and several steps of one more axis, are reduced side by side."""

    def __init__(self, problem: Problem, axis: Loop) -> None:
        self.problem = problem
        self.axis = axis
        self.lanes = min(axis.lanes(problem.lanes), problem.lanes if axis.static is not None else ROW_LANES)
        self.others = [other for other in problem.outer if other is not axis]
        self.block_axis, self.block = self._register_block()
        most = max(1, MAX_ACCUMULATORS // (self.block * len(problem.reductions)))
        few = axis.static is None and all(r.steps <= UNROLLED_STEPS for r in problem.reductions)
        self.vectors = 1 if few else max(1, min(OUTER_VECTORS, most, axis.assumed // self.lanes))

    def _register_block(self) -> tuple[Loop | None, int]:
        """An axis along which loads repeat, and how many of its steps share them."""
        if len(self.problem.reductions) != 1 or self.problem.rest:
            return None, 1
        accesses = self.problem.accesses(self.problem.reductions[0])
        for other in reversed(self.others):
            along = [pattern(s) for s in accesses.strides(self.problem.algebra, other.var)]
            across = [pattern(s) for s in accesses.strides(self.problem.algebra, self.axis.var)]
            shared = any(a == INVARIANT and b == UNIT for a, b in zip(along, across))
            factor = next((f for f in (6, 7, 5, 4, 8, 3, 2) if other.static is not None and other.static % f == 0), 1)
            if shared and factor > 1:
                return other, factor
        return None, 1

    def build(self) -> Stmt:
        return _by_length([_is_long(r) for r in self.problem.reductions], self._nest)

    def _nest(self, long: bool) -> Stmt:
        axes = [Loop(o.var, E.const((o.static or 0) // self.block)) if o is self.block_axis else o for o in self.others]
        strip = self.lanes * self.vectors
        if self._must_cut(axes, strip):
            block, start, extent = loops.blocks(self.axis.extent, strip)
            return loops.parallel_nest([*axes, block], self._strips(extent, start, long), self._work(E.const(strip)))
        return loops.parallel_nest(axes, self._strips(self.axis.extent, None, long), self._work(self.axis.extent))

    def _must_cut(self, axes: Sequence[Loop], strip: int) -> bool:
        iterations = math.prod(o.static or 1 for o in axes)
        fixed = all(o.static is not None for o in axes)
        if self.axis.static is not None and (self.axis.static <= strip or (fixed and self._small())):
            return False
        return iterations < 16

    def _small(self) -> bool:
        total = loops.static(loops.product([*(o.extent for o in self.others), self._work(self.axis.extent)]))
        return total is not None and total < 2 * PARALLEL_WORK

    def _work(self, extent: Expr) -> Expr:
        per_element = loops.product(axis.extent for axis in self.problem.rest) * loops.statement_cost(self.problem.body)
        for r in self.problem.reductions:
            per_element = per_element + r.cost
        return per_element * loops.ceildiv(extent, self.lanes) * self.block

    def _strips(self, extent: Expr, begin: Expr | None, long: bool) -> Stmt:
        group = partial(self._group, extent if begin is None else begin + extent, long)
        return loops.group_loop(extent, self.lanes, group, self.vectors, self.problem.masked, begin, narrow=True,
                                again=self.problem.again)

    def _group(self, end: Expr, long: bool, at: Expr, lanes: int, mask: Expr | None, count: int) -> Stmt:
        """All reductions and the body for ``count`` vectors from ``at`` on, times the steps of the register block.

        ``mask``: of the vector that goes beyond ``end``. ``long`` sums are done in blocks.
        """
        slots = [(self._block_values(step), at + u * lanes) for step in range(self.block) for u in range(count)]
        bound: list[dict[Var, Expr]] = [dict(values) for values, _ in slots]
        parts: list[Stmt] = []
        for r in self.problem.reductions:
            pair = pair_along(self.problem, r, self.axis, UNROLLED_STEPS) if lanes > 1 else None
            if pair is not None:
                for (_, first), known in zip(slots, bound):
                    left = None if mask is None else end - first
                    known[r.result] = reduced_pairs(r, self.axis, pair, first, lanes, left, known, self.problem.target, parts)
                continue
            accumulators = Accumulators(RegisterTile(1, len(slots), lanes, r.result.dtype), r.kind, self.problem.target)
            vectors = [Vectorizer(self.axis.var, first, lanes, mask, known) for (_, first), known in zip(slots, bound)]
            values = [vector.expr(r.value) for vector in vectors]
            steps = seq(*(accumulators.step(k, value) for k, value in enumerate(values)))
            if long and not E.is_const(_is_long(r), False):
                nest, totals = loops.long_nest(accumulators, r.axes, steps)
            else:
                nest, totals = _reduction_nest(r.axes, steps), [accumulators.get(0, k) for k in range(len(slots))]
            parts += [accumulators.start(), nest]
            for known, total in zip(bound, totals):
                result = E.Var(r.result.dtype, lanes, r.result.name)
                parts.append(Let(result, total))
                known[r.result] = result
        for (_, first), known in zip(slots, bound):
            body = Vectorizer(self.axis.var, first, lanes, mask, known).stmt(self.problem.body)
            parts.append(loops.nest(self.problem.rest, body))
        return seq(*parts)

    def _block_values(self, step: int) -> dict[Var, Expr]:
        if self.block_axis is None:
            return {}
        return {self.block_axis.var: self.block_axis.var * self.block + step}


def rest_loops(problem: Problem) -> Stmt:
    """Returns the body over the rest axes, in vectors along the cheapest of them."""
    return serial_nest(problem.target, problem.rest, problem.body, problem.algebra) if problem.rest else problem.body
