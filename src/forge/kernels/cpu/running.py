"""Running sums, products, extremes with their positions, and log-sums of exponentials, along one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from forge import dtypes, loops
from forge.loops import LONG, Cell, Loop, bound, local, static
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store

# A block of a running sum has fewer terms, or vectors of them, than that of a sum: each of its results is read.
BLOCK: Final = 32

OPERATIONS = {"cumsum": ("add", 0), "cumprod": ("mul", 1)}


@kernel("cumulative", complex_numbers=True)
def cumulative(call: KernelCall) -> Function:
    """Family of ``cumsum`` and ``cumprod``: operand data; attributes axis and exclusive. Rows are independent of one another.

    Along the last axis a vector of a row becomes its own running sums, in as many steps as it can be halved, to which the total
    before it is added. Along another one a step takes vectors of its neighbours on the last axis, whose totals stay in the
    first-level cache. Totals of long sums have two parts, as ``loops.Totals`` have; those of long products, each of whose factors
    rounds, are wider than the data.
    """
    running = _Running(call)
    return call.function(running.rows() if running.axis == running.rank - 1 else running.columns())


class _Running:
    """``dtype`` is that of totals; those ``in_parts`` have two."""

    def __init__(self, call: KernelCall) -> None:
        data, result = call.readers[0], call.results[0]
        self.call = call
        self.data = data
        self.result = result
        self.operation, self.neutral = OPERATIONS[call.operator]
        self.rank = len(data.shape)
        self.axis = call.attrs.axis % self.rank
        self.length = data.shape[self.axis]
        self.loops = loops.axes([extent for k, extent in enumerate(data.shape) if k != self.axis])
        rounds = not dtypes.is_integer(result.dtype) and (static(self.length) or LONG + 1) > LONG
        self.in_parts = rounds and self.operation == "add"
        self.dtype = dtypes.WIDER.get(result.dtype, result.dtype) if rounds and not self.in_parts else result.dtype
        self.size = max(dtypes.itemsize(self.dtype), dtypes.itemsize(data.dtype), 4)
        self.lanes = max(1, call.target.vector_bits // (8 * self.size))
        self.masked = loops.supports_masks(call.target, {dtypes.itemsize(data.dtype), dtypes.itemsize(result.dtype)})

    def _totals(self, count: int) -> list[Buffer]:
        """Room for the totals of ``count`` rows."""
        return [local(name, self.dtype, count) for name in ("totals", "lost")[: 2 if self.in_parts else 1]]

    def _clear(self, totals: Sequence[Buffer], slot: Expr) -> Stmt:
        return seq(store(buffer, slot, E.const(x, self.dtype, slot.lanes)) for buffer, x in zip(totals, (self.neutral, 0)))

    def _collect(self, totals: Sequence[Buffer], slot: Expr) -> Stmt:
        """Adds the second part of totals to the first."""
        if not self.in_parts:
            return seq()
        parts: list[Stmt] = []
        joined = loops.two_sum(E.load(totals[0], slot), E.load(totals[1], slot), parts)
        return seq(parts, (store(buffer, slot, x) for buffer, x in zip(totals, joined)))

    def _along(self, size: int, body: Callable[[Expr, Expr], Stmt], collect: Stmt) -> Stmt:
        """``body(first, count)`` along the axis: blocks of ``size``, and ``collect`` between them, where totals have parts."""
        if not self.in_parts:
            return body(E.const(0), self.length)
        block, first, count = loops.blocks(self.length, size, "block")
        return loops.nest([block], seq(loops.guard(block.var > 0, collect), body(first, count)))

    def _read(self, indices: Sequence[Expr], lanes: int, mask: Expr | None) -> Expr:
        return E.broadcast(E.cast(self.data.read(indices, mask), self.dtype), lanes)

    def _join(self, a: Expr, b: Expr) -> Expr:
        return E.binary(self.operation, a, b)

    def _write(self, indices: Sequence[Expr], value: Expr, mask: Expr | None) -> Stmt:
        return self.result.write(indices, E.cast(value, self.result.dtype), mask)

    def rows(self) -> Stmt:
        outer, totals = loops.places(self.loops), self._totals(1)

        def step(at: Expr, width: int, mask: Expr | None) -> Stmt:
            parts: list[Stmt] = []
            indices = (*outer, E.ramp(at, 1, width) if width > 1 else at)
            value = self._read(indices, width, mask)
            if mask is not None:
                value = E.select(mask, value, E.const(self.neutral, self.dtype, width))
            running = self._scan(bound(value, parts), parts)
            last = E.call("lane", running, E.const(width - 1)) if width > 1 else running
            result = self._shifted(running, 1) if self.call.attrs.exclusive else running
            for buffer in reversed(totals):
                result = self._join(E.broadcast(bound(E.load(buffer, 0), parts), width), result)
            return seq(parts, store(totals[-1], 0, self._join(E.load(totals[-1], 0), last)), self._write(indices, result, mask))

        def along(first: Expr, count: Expr) -> Stmt:
            return loops.vector_loop(count, lanes, step, 1, self.masked, first)

        lanes = Loop(E.var("place"), self.length).lanes(self.lanes)
        passes = self._along(BLOCK * lanes, along, self._collect(totals, E.const(0)))
        row = seq(map(Allocate, totals), self._clear(totals, E.const(0)), passes)
        return loops.parallel_nest(self.loops, row, self.length * 8 // lanes + 1)

    def _scan(self, value: Expr, parts: list[Stmt]) -> Expr:
        """The sums of the lanes up to each one."""
        step = 1
        while step < value.lanes:
            value = bound(self._join(value, self._shifted(value, step)), parts)
            step *= 2
        return value

    def _shifted(self, value: Expr, count: int) -> Expr:
        """Lanes moved up by ``count``, after neutral ones."""
        lanes = value.lanes
        # A sum of floats begins with -0.0: an instruction that fills with 0.0 is slow.
        is_float = self.operation == "add" and dtypes.is_float(self.dtype)
        neutral = E.const(-0.0 if is_float else self.neutral, self.dtype, lanes)
        if lanes == 1:
            return neutral
        order = (lanes if k < count else k - count for k in range(lanes))
        return E.call("shuffle", value, neutral, *map(E.const, order), lanes=lanes)

    def columns(self) -> Stmt:
        *around, last = self.loops
        step = 4 * self.lanes
        width = max(step, self.call.target.l1_cache // (4 * self.size) // step * step)
        if last.static is not None:
            width = min(width, -(-last.static // self.lanes) * self.lanes)
        columns = loops.blocks(last.extent, width)
        totals, vector = self._totals(width), E.var("v")
        slot = E.ramp(vector * self.lanes, 1, self.lanes)

        def each(body: Stmt) -> Stmt:
            return loop(vector, width // self.lanes, body)

        passes = self._along(BLOCK, partial(self._rows, totals, columns), each(self._collect(totals, slot)))
        block = seq(map(Allocate, totals), each(self._clear(totals, slot)), passes)
        return loops.parallel_nest([*around, columns[0]], block, self.length * (4 * width // self.lanes))

    def _rows(self, totals: Sequence[Buffer], columns: tuple[Loop, Expr, Expr], first: Expr, count: Expr) -> Stmt:
        """The columns of a block in ``count`` rows from ``first`` on. Terms are added to the last part of totals."""
        outer, row, (_, start, extent) = loops.places(self.loops)[:-1], E.var("row"), columns

        def step(at: Expr, lanes: int, mask: Expr | None) -> Stmt:
            parts: list[Stmt] = []
            slot = E.ramp(at, 1, lanes)
            indices = (*outer[: self.axis], row, *outer[self.axis :], E.ramp(start + at, 1, lanes))
            *base, before = (bound(E.load(buffer, slot), parts) for buffer in totals)
            after = bound(self._join(before, self._read(indices, lanes, mask)), parts)
            result = before if self.call.attrs.exclusive else after
            write = self._write(indices, self._join(base[0], result) if base else result, mask)
            return seq(parts, store(totals[-1], slot, after), write)

        return loop(row, count, loops.vector_loop(extent, self.lanes, step, 2, self.masked), "serial", first)


@kernel("running_extreme")
def running_extreme(call: KernelCall) -> Function:
    """Family of ``cummax`` and ``cummin``: operand data; attribute axis; results the extremes and their positions."""
    (data,) = call.readers
    values, positions = call.results
    best, where = Cell("best", data.dtype), Cell("where")
    place, value = E.var("place"), E.Var(data.dtype, 1, "value")
    outer, at = loops.rows_along(data.shape, call.attrs.axis % len(data.shape))
    better = value >= best.value if call.operator == "cummax" else value <= best.value
    if dtypes.is_float(data.dtype):
        better = E.binary("or", better, E.call("isnan", value))
    better = E.binary("or", better, place.eq(0))
    step = seq(
        Let(value, data.read(at(place))),
        If(better, seq(best.set(value), where.set(place))),
        values.write(at(place), best.value),
        positions.write(at(place), where.value),
    )
    length = data.shape[call.attrs.axis]
    body = seq(best.allocate(), where.allocate(), best.set(0), where.set(0), loop(place, length, step))
    return call.function(loops.parallel_nest(outer, body, length * 4))


@kernel("running_logsumexp")
def running_logsumexp(call: KernelCall) -> Function:
    """Family of ``logcumsumexp``: operand data; attribute axis.

    ``shift + log(total)``, where total is the sum of ``exp(x - shift)`` in two parts. A value above shift + 1 becomes the shift:
    only then is the total scaled, which rounds it once more.
    """
    (data,), (result,) = call.readers, call.results
    dtype = data.dtype
    largest = float(np.finfo(dtype).max)
    totals, shift = loops.Totals(dtype, 1), Cell("shift", dtype)
    place, value, factor = E.var("place"), E.Var(dtype, 1, "value"), E.Var(dtype, 1, "factor")
    outer, at = loops.rows_along(data.shape, call.attrs.axis % len(data.shape))
    finite = E.binary("min", value, E.const(largest, dtype))
    rescale = seq(Let(factor, E.call("exp", shift.value - finite)), totals.scale(0, factor), shift.set(finite))
    step = seq(
        Let(value, data.read(at(place))),
        If(value - shift.value > E.const(1.0, dtype), rescale),
        totals.add(0, E.call("exp", value - shift.value)),
        result.write(at(place), shift.value + E.call("log", totals.get(0))),
    )
    length = data.shape[call.attrs.axis]
    body = seq(totals.start(), shift.start(-largest), loop(place, length, step))
    return call.function(loops.parallel_nest(outer, body, length * 24))
