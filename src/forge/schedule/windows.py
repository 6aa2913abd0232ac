"""Reductions over sliding windows, one axis after the other.

What lies under a window is reduced along all its axes but the last first, for a strip of neighbouring windows. That row is in the
first-level cache, with the identity of the reduction where there are no data, so that nothing depends on where the borders are::

    for h: for w: out[h, w] = max over r, q of select(inside, x[2*h + r - 1, 2*w + q - 1], -inf)
    -->  for h: for strips of w: row[k] = max over r of x[2*h + r - 1, k - 1], or -inf outside
                                 out[h, w] = max over q of row[2*w + q]

Small windows one step apart are reduced along rows first, under masks: the vectors stay in registers for all windows of which
they are a row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Final

from forge import dtypes, loops
from forge.loops import Accumulators, GroupBody, Loop, RegisterTile, Vectorizer
from forge.schedule.access import analyse
from forge.schedule.algebra import ONE, Algebra, number
from forge.schedule.interior import Interior, depends_on_places, interior
from forge.schedule.stages import Reduction
from forge.schedule.window_problem import Pair, Problem, find_windows, steps_of
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import substitute
from forge.tir.stmt import Allocate, Evaluate, If, Let, Stmt, loop, seq, store
from forge.tir.visit import nodes, roots, stores

# A row of what is reduced takes about this many bytes, and all that are reduced before they are read at most that many.
ROW_BYTES: Final = 4096
MAX_BYTES: Final = 1 << 16
# Windows of at most this many steps along an axis, or all but the last axis, are written out.
WRITTEN_OUT: Final = 16
# At most this many rows, one below the other, are reduced before they are read: what was just stored is slow to load.
ROWS: Final = 16
# Rows of at most this many bytes are computed together, one vector after the other, so that what a row costs is paid once.
NARROW_ROW: Final = 1024
# Windows one step apart of at most this many steps along both axes, two less where sizes are numbers, are reduced in registers,
# for at most this many rows one below the other; half as many where rows are not narrow, as a cache has few lines at places that
# lie far apart.
STEPS: Final = 5
TALL: Final = 32
# This many vectors are computed side by side.
VECTORS: Final = 2


VectorSink = Callable[[Expr, int, "Expr | None", Expr], Stmt]
"""(first element, lanes, mask, reduced vector) -> statement."""

Elements = Callable[[Expr, int, "Expr | None"], Vectorizer]
"""(first element, lanes, mask) -> what makes vectors of the value that is reduced."""

Rows = tuple[Var, Expr, Expr]
"""(variable, first value, number of values) of rows one below the other."""


def reduce_windows(
    target: Target, axes: Sequence[Loop], reductions: Sequence[Reduction], body: Stmt, algebra: Algebra
) -> Stmt | None:
    """Returns the loop nest of a reduction over sliding windows that overlap or overhang; None of others."""
    problem = find_windows(target, axes, reductions[0], body, algebra) if len(reductions) == 1 else None
    return None if problem is None else _Windows(target, algebra, problem).build()


def _each(rows: Rows | None, body: Stmt) -> Stmt:
    return body if rows is None else loop(rows[0], rows[2], body, begin=rows[1])


class _Windows:
    def __init__(self, target: Target, algebra: Algebra, problem: Problem) -> None:
        self.target, self.algebra, self.problem = target, algebra, problem
        self.kind, self.dtype = problem.reduction.kind, problem.reduction.result.dtype
        self.together = problem.pair is not None and problem.pair.axis.static is None and bool(problem.outer)
        self.inside = self._interior()
        sizes = loops.memory_sizes(seq(problem.body, Evaluate(problem.value)))
        self.masked = loops.supports_masks(target, sizes)
        self.down = self._down_pair()
        # What depends on places is made once for many rows, or is one number for the interior of a row: vectors need not fit it.
        alone = self.down is not None or self.together and self.inside is not None
        after = [] if alone else [loops.element_size(s.value) for s in stores(problem.body)]
        self.lanes = max(1, target.vector_bits // (8 * max(*sizes, loops.element_size(problem.value), *after)))
        self.steps = math.prod(map(steps_of, problem.rows))
        self.is_pure = not any(isinstance(e, E.Load) for root in roots(problem.body) for e in nodes(root))

    def _interior(self) -> Interior | None:
        """The interior of a row for the code after the reduction, the same for all rows that are computed together."""
        pair, tail = self.problem.pair, self.problem.tail
        if pair is None or not depends_on_places(self.problem.body):
            return None
        inner = [*([] if tail is None else [tail]), *(self.problem.outer[-1:] if self.together else ())]
        return interior(self.problem.body, pair.axis, self.algebra, inner)

    def build(self) -> Stmt | None:
        """The loop nest; None where a row is too long."""
        pair, tail = self.problem.pair, self.problem.tail
        cost, after = self.steps * (loops.expression_cost(self.problem.value) + 1), loops.statement_cost(self.problem.body)
        if pair is None:
            assert tail is not None
            work = loops.ceildiv(tail.extent, self.lanes) * (cost + after)
            return loops.parallel_nest(self.problem.outer, self._along_tail(tail), work)
        width = 1 if tail is None else steps_of(tail)
        room = ROW_BYTES // (dtypes.itemsize(self.dtype) * width)
        count = max(self.lanes, (room - pair.reach) // pair.stride // self.lanes * self.lanes)
        if pair.axis.static is not None:
            count = min(count, pair.axis.static)
        if self.down is not None:
            return _Registers(self, pair, self.down).build()
        row = _Row(self, pair, tail, width, count)
        if row.rows == 0:
            return None
        elements = E.binary("min", E.const(count), pair.axis.extent) * width
        work = loops.ceildiv(elements, self.lanes) * (cost * pair.stride + steps_of(pair.tap) + after)
        strip, start, extent = loops.blocks(pair.axis.extent, count, "s")
        around = list(self.problem.outer)
        if not self.problem.rows or not around:
            return loops.parallel_nest([*around, strip], row.build(start, extent, None), work)
        down = around.pop()
        block, first, rows = loops.blocks(down.extent, row.rows, "b")
        strips = loops.nest([strip], row.build(start, extent, (down.var, first, rows)))
        return loops.parallel_nest([*around, block], strips, work * E.binary("min", E.const(row.rows), down.extent))

    def _down_pair(self) -> Pair | None:
        """The pair down columns of small windows, one or two steps apart, that do not overlap in loaded pairs; None of others."""
        problem, most = self.problem, STEPS if self.together else STEPS - 2
        if not problem.outer or problem.tail is not None or not self.target.isa.permutes_pairs or not self.masked:
            return None
        small = [p for p in problem.pairs if p.stride <= 2 and p.dilation == 1 and steps_of(p.tap) <= most]
        down = [p for p in small if p.axis.var is problem.outer[-1].var and problem.rows == (p.tap,)]
        fits = problem.pair in small and (problem.pair.stride == 1 or self.together and problem.pair.reach == 2)
        return down[0] if down and fits else None

    def _along_tail(self, tail: Loop) -> Stmt:
        def elements(at: Expr, lanes: int, mask: Expr | None) -> Vectorizer:
            return Vectorizer(tail.var, at, lanes, mask)

        def sink(at: Expr, lanes: int, mask: Expr | None, value: Expr) -> Stmt:
            return self.finish(self.problem.body, value, lanes, lambda bound: Vectorizer(tail.var, at, lanes, mask, bound))

        return self.reduced(tail.extent, E.const(0), elements, sink, self.is_pure)

    def limits(self, tap: Loop, begin: Expr, end: Expr, parts: list[Stmt], pair: Pair | None = None) -> tuple[Expr, Expr]:
        """The part of ``range(begin, end)`` in which the bounds of ``tap`` hold; of places of ``pair``, if that is given."""
        first, last = begin, end
        for bound in self.problem.bounds:
            if bound.tap is tap:
                if pair is not None:
                    moved = number(bound.factor * pair.stride) * self.algebra.poly(pair.axis.var)
                    bound = replace(bound, rest=bound.rest - moved)
                low, high = bound.limits(self.algebra)
                first = first if low is None else E.binary("max", first, low)
                last = last if high is None else E.binary("min", last, high)
        first = loops.bound(E.binary("min", first, end), parts, "first")
        return first, loops.bound(E.binary("max", first, last), parts, "last")

    def vectors(self, extent: Expr, begin: Expr, body: GroupBody, again: bool, lanes: int) -> Stmt:
        """Vectors from ``begin`` on; ``again``: elements may be computed twice, so that the last vector is a whole one, too."""
        unroll = 1 if again and loops.static(extent) is None else VECTORS
        return loops.group_loop(extent, lanes, body, unroll, self.masked, begin, narrow=True, again=again)

    def reduced(
        self, extent: Expr, begin: Expr, elements: Elements, sink: VectorSink, again: bool, rows: Rows | None = None
    ) -> Stmt:
        """``sink`` of vectors from ``begin`` on, reduced along the taps; where all of them are inside they are written out.

        ``rows``: of all these rows; a vector of all rows that have all taps inside, then the next one.
        """
        parts: list[Stmt] = []
        ranges = {tap: self.limits(tap, E.const(0), tap.extent, parts) for tap in self.problem.rows}

        def whole(at: Expr, lanes: int, mask: Expr | None, count: int) -> Stmt:
            return seq(*(self._written_out(at + u * lanes, lanes, mask, elements, sink) for u in range(count)))

        def some(at: Expr, lanes: int, mask: Expr | None, count: int) -> Stmt:
            accumulators = Accumulators(RegisterTile(1, count, lanes, self.dtype), self.kind, self.target)
            values = (elements(at + u * lanes, lanes, mask).expr(self.problem.value) for u in range(count))
            body = seq(*(accumulators.step(u, value) for u, value in enumerate(values)))
            for tap, (first, last) in reversed(ranges.items()):
                body = loop(tap.var, last - first, body, begin=first)
            results = (sink(at + u * lanes, lanes, mask, accumulators.get(0, u)) for u in range(count))
            return seq(accumulators.start(), body, *results)

        def vectors(body: GroupBody) -> Stmt:
            return self.vectors(extent, begin, body, again, self.lanes)

        if self.steps > WRITTEN_OUT:
            return _each(rows, seq(parts, vectors(some)))
        inside: Expr = E.const(True, "bool")
        if rows is not None:
            around: list[Stmt] = []
            first, last = self.whole_rows(rows, around)
            row = rows[0]
            together = vectors(lambda *vector: loop(row, last - first, whole(*vector), begin=first))
            if all(bound.tap not in self.problem.rows for bound in self.problem.bounds):
                return seq(around, together)
            alone = If(E.logical_not(E.logical_and(row >= first, row < last)), seq(parts, vectors(some)))
            return seq(around, together, _each(rows, alone))
        for tap, (first, last) in ranges.items():
            inside = E.logical_and(inside, E.compare("eq", last - first, tap.extent))
        return seq(parts, loops.guard(inside, vectors(whole), vectors(some)))

    def whole_rows(self, rows: Rows, parts: list[Stmt]) -> tuple[Expr, Expr]:
        """The part of ``rows`` all taps of which are inside."""
        row, first, count = rows
        end = first + count
        low, high = first, end
        for bound in self.problem.bounds:
            if bound.tap not in self.problem.rows:
                continue
            margin = bound.rest + number(min(0, bound.factor * (steps_of(bound.tap) - 1)))
            step = self.algebra.coefficient(margin, row)
            if step is None or step.constant is None:
                high = first
                continue
            rest = self.algebra.expr(margin - step * self.algebra.poly(row))
            if step.constant > 0:
                low = E.binary("max", low, (E.const(step.constant - 1) - rest) // step.constant)
            elif step.constant < 0:
                high = E.binary("min", high, rest // -step.constant + 1)
            else:
                high = E.select(rest >= 0, high, first)
        low = loops.bound(E.binary("min", low, end), parts, "first")
        return low, loops.bound(E.binary("max", low, high), parts, "last")

    def _written_out(self, at: Expr, lanes: int, mask: Expr | None, elements: Elements, sink: VectorSink) -> Stmt:
        parts: list[Stmt] = []
        return seq(parts, sink(at, lanes, mask, self.written_out(elements(at, lanes, mask), lanes, parts)))

    def written_out(self, vectorizer: Vectorizer, lanes: int, parts: list[Stmt]) -> Expr:
        """The value reduced along all ``rows``."""
        variables, values = [tap.var for tap in self.problem.rows], []
        for places in itertools.product(*(range(steps_of(tap)) for tap in self.problem.rows)):
            known = dict(zip(variables, map(E.const, places), strict=True))
            values.append(E.broadcast(vectorizer.expr(substitute(self.problem.value, known)), lanes))
        return self.total(values, parts)

    def total(self, values: Sequence[Expr], parts: list[Stmt]) -> Expr:
        """``values`` reduced, one after the other."""
        return reduce(lambda a, b: loops.bound(loops.combine(self.kind, a, b, self.target), parts), values)

    def finish(self, body: Stmt, value: Expr, lanes: int, vectorizer: Callable[[Mapping[Var, Expr]], Vectorizer]) -> Stmt:
        """``body`` for elements whose reduction is ``value``."""
        result = E.Var(self.dtype, lanes, self.problem.reduction.result.name)
        return seq(Let(result, value), vectorizer({self.problem.reduction.result: result}).stmt(body))


class _Row:
    """Strips of at most ``count`` windows along the axis of ``pair``, each of ``width`` elements along ``tail``."""

    def __init__(self, windows: _Windows, pair: Pair, tail: Loop | None, width: int, count: int) -> None:
        self.windows, self.pair, self.tail, self.width = windows, pair, tail, width
        self.slack = (pair.stride + 1) * windows.lanes  # edges are stored, and windows loaded, in whole vectors
        size = loops.round_up(((count - 1) * pair.stride + pair.reach) * width, windows.lanes) + self.slack
        most = MAX_BYTES // (size * dtypes.itemsize(windows.dtype))
        self.rows = min(most, ROWS if windows.problem.rows and windows.problem.outer else 1)
        self.buffer = loops.local("row", windows.dtype, size * self.rows)

    def build(self, start: Expr, count: Expr, down: Rows | None) -> Stmt:
        """``count`` windows from ``start`` on, for all rows ``down``."""
        parts: list[Stmt] = [Allocate(self.buffer)]
        origin = loops.bound(start * self.pair.stride, parts, "origin")
        span = loops.bound((count - 1) * self.pair.stride + self.pair.reach, parts, "span")
        first, last = self.windows.limits(self.pair.tap, origin, origin + span, parts)
        low, high = first - origin, last - origin
        if down is None:
            zero = E.const(0)
            edges = self._edges(zero, low, high, span)
            return seq(parts, edges, self._down(zero, origin, low, high, None), self._along(zero, start, count, None))
        variable, begin, extent = down
        lanes, r = self.windows.lanes, E.var("r")
        pitch = loops.bound(loops.ceildiv(span * self.width, lanes) * lanes + self.slack, parts, "pitch")
        edges = self._edges(r * pitch, low, high, span)
        slot = (variable - begin) * pitch
        if not self.windows.together:
            return seq(parts, loop(r, extent, edges), _each(down, self._down(slot, origin, low, high, None)),
                       _each(down, self._along(slot, start, count, None)))
        narrow, group = pitch <= NARROW_ROW // dtypes.itemsize(self.windows.dtype), E.var("g")
        groups = loops.bound(E.select(narrow, E.const(1), extent), parts, "groups")
        rows = variable, begin + group, E.select(narrow, extent, E.const(1))
        return seq(parts, loop(r, extent, edges), loop(group, groups, self._down(slot, origin, low, high, rows)),
                   loop(group, groups, self._along(slot, start, count, rows)))

    def _edges(self, slot: Expr, low: Expr, high: Expr, span: Expr) -> Stmt:
        """Fills the places of the row at ``slot`` that are not between ``low`` and ``high``, where there may be such."""
        if all(bound.tap is not self.pair.tap for bound in self.windows.problem.bounds):
            return seq()
        return seq(self._fill(slot, low), self._fill(slot + high * self.width, span - high))

    def _fill(self, place: Expr, extent: Expr) -> Stmt:
        """Whole vectors of the identity from ``place`` on that cover ``extent`` places, one at least: mostly that is enough."""
        lanes, v = self.windows.lanes, E.var("v")
        value = loops.identity(self.windows.kind, self.windows.dtype, lanes)
        more = store(self.buffer, E.ramp(place + v * lanes, 1, lanes), value)
        return seq(store(self.buffer, E.ramp(place, 1, lanes), value), loop(v, (extent * self.width - 1) // lanes, more, begin=1))

    def _down(self, slot: Expr, origin: Expr, low: Expr, high: Expr, rows: Rows | None) -> Stmt:
        """Reduces places ``low`` to ``high`` of the row at ``slot`` along the other axes, for all ``rows``."""
        k = Loop(E.var("k"), high)
        if self.tail is None:
            return self._elements(k, self.pair.at(origin + k.var), low, high, slot, rows)
        if self._is_whole():
            values = {**self.pair.at(origin), self.tail.var: k.var}
            return self._elements(k, values, low * self.width, high * self.width, slot, rows)
        place = slot + k.var * self.width
        inner = self._elements(self.tail, self.pair.at(origin + k.var), E.const(0), self.tail.extent, place, None)
        return _each(rows, loop(k.var, high - low, inner, begin=low))

    def _is_whole(self) -> bool:
        """Whether places side by side lie side by side in all operands."""
        assert self.tail is not None
        algebra = self.windows.algebra
        accesses = analyse((self.windows.problem.value,), (), algebra)
        steps = accesses.strides(algebra, self.pair.tap.var)
        whole = number(self.width * self.pair.dilation)
        return self.tail.var not in accesses.value_uses and all(
            a == ONE and b == whole for a, b in zip(accesses.strides(algebra, self.tail.var), steps))

    def _elements(
        self, axis: Loop, values: Mapping[Var, Expr], low: Expr, high: Expr, base: Expr, rows: Rows | None
    ) -> Stmt:
        """Elements ``low`` to ``high`` along ``axis``, stored from ``base`` on; ``values`` of other variables depend on it."""

        def elements(at: Expr, lanes: int, mask: Expr | None) -> Vectorizer:
            place = {axis.var: E.ramp(at, 1, lanes)}
            return Vectorizer(axis.var, at, lanes, mask, {v: substitute(x, place) for v, x in values.items()})

        def sink(at: Expr, lanes: int, mask: Expr | None, value: Expr) -> Stmt:
            return store(self.buffer, E.ramp(base + at, 1, lanes), E.broadcast(value, lanes), mask)

        return self.windows.reduced(high - low, low, elements, sink, True, rows)

    def _along(self, slot: Expr, start: Expr, count: Expr, rows: Rows | None) -> Stmt:
        """Reduces the row at ``slot`` along its own axis, apart where the body depends on how near the ends are."""
        body, found = self.windows.problem.body, self.windows.inside
        if found is None:
            return self._results(body, slot, start, E.const(0), count, rows, self.windows.lanes)
        parts: list[Stmt] = []
        nearest = E.binary("max", found.inside.begin - start, E.const(0))
        begin = loops.bound(E.binary("min", nearest, count), parts, "begin")
        end = loops.bound(E.binary("max", begin, E.binary("min", found.inside.end - start, count)), parts, "end")
        lanes = self.windows.lanes
        edge = 1 if self.windows.together else lanes
        ranges = ((body, E.const(0), begin, edge), (found.inside.body, begin, end, lanes), (body, end, count, edge))
        return seq(parts, *(self._results(part, slot, start, first, last, rows, lanes) for part, first, last, lanes in ranges))

    def _results(self, body: Stmt, slot: Expr, start: Expr, first: Expr, last: Expr, rows: Rows | None, lanes: int) -> Stmt:
        """Windows ``first`` to ``last`` of those from ``start`` on, of all ``rows``."""
        axis, tail, stride = self.pair.axis.var, self.tail, self.pair.stride
        if tail is None:

            def along_axis(at: Expr, lanes: int, mask: Expr | None, bound: Mapping[Var, Expr]) -> Vectorizer:
                return Vectorizer(axis, start + at, lanes, mask, bound)

            return self._vectors(body, first, last - first, along_axis, slot, stride, rows, lanes)
        j, own = E.var("j"), tail.var

        def along_tail(at: Expr, lanes: int, mask: Expr | None, bound: Mapping[Var, Expr]) -> Vectorizer:
            return Vectorizer(own, at, lanes, mask, {**bound, axis: start + j})

        place = slot + j * (stride * self.width)
        inner = self._vectors(body, E.const(0), tail.extent, along_tail, place, 1, None, self.windows.lanes)
        return _each(rows, loop(j, last - first, inner, begin=first))

    def _vectors(
        self, body: Stmt, first: Expr, extent: Expr, vectorizer: Callable[..., Vectorizer], base: Expr, stride: int,
        rows: Rows | None, lanes: int,
    ) -> Stmt:
        step = self.pair.dilation * self.width

        def tap(at: Expr, lanes: int, number: Expr) -> Expr:
            return E.load(self.buffer, E.ramp(base + at * stride + number * step, stride, lanes))

        def results(at: Expr, lanes: int, mask: Expr | None, count: int) -> Stmt:
            places = [at + u * lanes for u in range(count)]
            values, parts = self._reduced_taps(tap, places, lanes)
            finished = [self.windows.finish(body, value, lanes, partial(vectorizer, place, lanes, mask))
                        for place, value in zip(places, values, strict=True)]
            return _each(rows, seq(parts, *finished))

        return self.windows.vectors(extent, first, results, self.windows.is_pure, lanes)

    def _reduced_taps(
        self, tap: Callable[[Expr, int, Expr], Expr], places: Sequence[Expr], lanes: int
    ) -> tuple[list[Expr], list[Stmt]]:
        windows, steps, parts = self.windows, steps_of(self.pair.tap), list[Stmt]()
        if steps <= WRITTEN_OUT:
            return [windows.total([tap(at, lanes, E.const(k)) for k in range(steps)], parts) for at in places], parts
        accumulators = Accumulators(RegisterTile(1, len(places), lanes, windows.dtype), windows.kind, windows.target)
        number = E.var("t")
        taps = seq(*(accumulators.step(u, tap(at, lanes, number)) for u, at in enumerate(places)))
        return [accumulators.get(0, u) for u in range(len(places))], [accumulators.start(), loop(number, steps, taps)]


class _Registers:
    """Windows one step apart along two axes: what is reduced along a row stays in registers for the rows below."""

    def __init__(self, windows: _Windows, across: Pair, down: Pair) -> None:
        self.windows, self.across, self.down, self.problem = windows, across, down, windows.problem

    def build(self) -> Stmt:
        windows, axis = self.windows, self.across.axis
        *around, down = self.problem.outer
        narrow = axis.extent <= NARROW_ROW // dtypes.itemsize(windows.dtype)
        tall = E.select(narrow, E.const(TALL), E.const(TALL // 2))
        block, start, extent = loops.blocks(down.extent, tall, "b")
        column = Loop(E.var("v"), loops.ceildiv(axis.extent, windows.lanes))
        taps = steps_of(self.across.tap) * (loops.expression_cost(self.problem.value) + 1) + steps_of(self.down.tap)
        work = column.extent * (taps + loops.statement_cost(self.problem.body))
        body = loops.nest([column], self._column(column.var * windows.lanes, start, extent))
        return loops.parallel_nest([*around, block], body, work * E.binary("min", tall, down.extent))

    def _column(self, at: Expr, start: Expr, extent: Expr) -> Stmt:
        """Vectors of windows from ``at`` on, in ``extent`` rows from ``start`` on."""
        windows, lanes, parts, body = self.windows, self.windows.lanes, list[Stmt](), list[Stmt]()
        axis, steps, row = self.across.axis, steps_of(self.down.tap), E.var("y")
        masks = self._masks(at, parts)
        kept = loops.bound(loops.tail_mask(at, axis.extent, lanes), parts, "kept")
        states = Accumulators(RegisterTile(1, steps, lanes, windows.dtype), windows.kind, windows.target)
        stride = self.down.stride
        begin, count = start * stride, (extent - 1) * stride + steps
        first, last = windows.limits(self.down.tap, begin, begin + count, parts, self.down)
        values = self._values(at, row, masks, body)
        inside = E.logical_and(row >= first, row < last)
        last_state = If(inside, seq(body, states.set(0, steps - 1, windows.total(values, body))),
                        states.set(0, steps - 1, loops.identity(windows.kind, windows.dtype, lanes)))
        results: list[Stmt] = []
        value = windows.total([states.get(0, k) for k in range(steps)], results)
        below = row - (steps - 1)
        place = {self.down.axis.var: below // stride}
        results.append(windows.finish(
            self.problem.body, value, lanes, lambda bound: Vectorizer(axis.var, at, lanes, kept, {**bound, **place})))
        shift = [states.set(0, k, states.get(0, k + 1)) for k in range(steps - 1)]
        ready = E.logical_and(below >= begin, (below % stride).eq(0))
        return seq(parts, states.start(), loop(row, count, seq(last_state, If(ready, seq(results)), shift), begin=begin))

    def _masks(self, at: Expr, parts: list[Stmt]) -> list[Expr]:
        """Which lanes have data, by the step of the window along the row."""
        lanes, stride = self.windows.lanes, self.across.stride
        span = (self.across.axis.extent - 1) * stride + self.across.reach
        first, last = self.windows.limits(self.across.tap, E.const(0), span, parts)
        masks = []
        for k in range(steps_of(self.across.tap)):
            before, below = (loops.tail_mask(at, loops.ceildiv(limit - k, stride), lanes) for limit in (first, last))
            masks.append(loops.bound(E.logical_and(E.logical_not(before), below), parts, "inside"))
        return masks

    def _values(self, at: Expr, row: Expr, masks: Sequence[Expr], parts: list[Stmt]) -> list[Expr]:
        """What is reduced in row ``row``, by the step of the window along it; the identity where there are no data."""
        windows, lanes, values = self.windows, self.windows.lanes, []
        nothing = loops.identity(windows.kind, windows.dtype, lanes)
        for k, mask in enumerate(masks):
            vectorizer = Vectorizer(self.across.axis.var, at, lanes, mask, {self.across.tap.var: E.const(k), **self.down.at(row)})
            value = E.broadcast(vectorizer.expr(self.problem.value), lanes)
            values.append(loops.bound(E.select(mask, value, nothing), parts))
        return values
