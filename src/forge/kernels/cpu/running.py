"""Running sums, products, extremes with their positions, and log-sums of exponentials, along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forge import dtypes
from forge.loops import Cell, axes, blocks, parallel_nest, places, rows_along, supports_masks, vector_loop
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store

OPERATIONS = {"cumsum": ("add", 0), "cumprod": ("mul", 1)}

# This many rows run side by side, as every step of a row waits for the step before.
ROWS: Final = 4


@kernel("cumulative", complex_numbers=True)
def cumulative(call: KernelCall) -> Function:
    """Family of ``cumsum`` and ``cumprod``: operand data; attributes axis and exclusive. Rows are independent of one another.

    Elements are added in order. Along the last axis several rows run side by side; along another one a step takes vectors of
    its neighbours on the last axis, whose totals stay in the first-level cache.
    """
    running = _Running(call)
    by_vectors = running.axis != running.rank - 1 and dtypes.itemsize(running.dtype) <= 8
    return call.function(running.columns() if by_vectors else running.rows())


class _Running:
    def __init__(self, call: KernelCall) -> None:
        data, result = call.readers[0], call.results[0]
        self.call = call
        self.data = data
        self.result = result
        self.dtype = result.dtype
        self.rank = len(data.shape)
        self.axis = call.attrs.axis % self.rank
        self.operation, self.neutral = OPERATIONS[call.operator]
        self.length = data.shape[self.axis]
        self.loops = axes([extent for k, extent in enumerate(data.shape) if k != self.axis])

    def _start(self, lanes: int = 1) -> Expr:
        return E.const(self.neutral, self.dtype, lanes)

    def _step(self, totals: Buffer, slot: Expr, indices: Sequence[Expr], mask: Expr | None = None) -> Stmt:
        """Adds the element(s) at ``indices`` to the totals at ``slot`` and writes the totals, before or after."""
        value = E.cast(self.data.read(indices, mask), self.dtype)
        before = E.Var(self.dtype, slot.lanes, "before")
        after = E.Var(self.dtype, slot.lanes, "after")
        write = self.result.write(indices, before if self.call.attrs.exclusive else after, mask)
        return seq(
            Let(before, E.load(totals, slot)),
            Let(after, E.binary(self.operation, before, E.broadcast(value, slot.lanes))),
            store(totals, slot, after),
            write,
        )

    def rows(self) -> Stmt:
        if not self.loops or E.is_const(self.loops[-1].extent, 1):
            return parallel_nest(self.loops, self._rows(places(self.loops), 1), self.length * 4)
        *around, last = self.loops
        strip, first, _ = blocks(last.extent, ROWS)
        outer, row = places(around), E.var("row")
        rest = loop(row, last.extent - first, self._rows([*outer, first + row], 1))
        body = If(first + ROWS <= last.extent, self._rows([*outer, first], ROWS), rest)
        return parallel_nest([*around, strip], body, self.length * (4 * ROWS))

    def _rows(self, outer: Sequence[Expr], count: int) -> Stmt:
        """``count`` rows from ``outer`` on, neighbours on the last axis of the others."""
        totals = Buffer("total", self.dtype, (E.const(count),), scope="local")
        place = E.var("place")
        steps = []
        for k in range(count):
            at = [*outer[:-1], outer[-1] + k] if outer else []
            steps.append(self._step(totals, E.const(k), (*at[: self.axis], place, *at[self.axis :])))
        starts = [store(totals, k, self._start()) for k in range(count)]
        return seq(Allocate(totals), *starts, loop(place, self.length, seq(*steps)))

    def columns(self) -> Stmt:
        target, size = self.call.target, max(dtypes.itemsize(self.dtype), dtypes.itemsize(self.data.dtype), 4)
        lanes = target.vector_bits // (8 * size)
        *around, last = self.loops
        width = max(4 * lanes, target.l1_cache // (4 * size) // (4 * lanes) * (4 * lanes))
        if last.static is not None:
            width = min(width, -(-last.static // lanes) * lanes)
        block, start, extent = blocks(last.extent, width)
        totals = Buffer("totals", self.dtype, (E.const(width),), scope="local", alignment=64)
        place, vector, outer = E.var("place"), E.var("v"), places(around)

        def step(at: Expr, width: int, mask: Expr | None) -> Stmt:
            column = E.ramp(start + at, 1, width)
            indices = (*outer[: self.axis], place, *outer[self.axis :], column)
            return self._step(totals, E.ramp(at, 1, width), indices, mask)

        fill = loop(vector, width // lanes, store(totals, E.ramp(vector * lanes, 1, lanes), self._start(lanes)))
        masked = supports_masks(target, {dtypes.itemsize(self.dtype), dtypes.itemsize(self.data.dtype)})
        body = seq(Allocate(totals), fill, loop(place, self.length, vector_loop(extent, lanes, step, 2, masked)))
        return parallel_nest([*around, block], body, self.length * (4 * width // lanes))


@kernel("running_extreme")
def running_extreme(call: KernelCall) -> Function:
    """Family of ``cummax`` and ``cummin``: operand data; attribute axis; results the extremes and their positions."""
    (data,) = call.readers
    values, positions = call.results
    best, where = Cell("best", data.dtype), Cell("where")
    place, value = E.var("place"), E.Var(data.dtype, 1, "value")
    loops, at = rows_along(data.shape, call.attrs.axis % len(data.shape))
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
    return call.function(parallel_nest(loops, body, length * 4))


@kernel("running_logsumexp")
def running_logsumexp(call: KernelCall) -> Function:
    """Family of ``logcumsumexp``: operand data; attribute axis."""
    (data,), (result,) = call.readers, call.results
    total, place, value = Cell("total", data.dtype), E.var("place"), E.Var(data.dtype, 1, "value")
    loops, at = rows_along(data.shape, call.attrs.axis % len(data.shape))
    step = seq(
        Let(value, data.read(at(place))),
        total.set(_log_of_sum(total.value, value)),
        result.write(at(place), total.value),
    )
    length = data.shape[call.attrs.axis]
    return call.function(parallel_nest(loops, seq(total.start(float("-inf")), loop(place, length, step)), length * 24))


def _log_of_sum(a: Expr, b: Expr) -> Expr:
    """ln(exp(a) + exp(b)); the larger one where it is infinite."""
    larger, smaller = E.binary("max", a, b), E.binary("min", a, b)
    infinite = E.compare("eq", E.call("abs", larger), float("inf"))
    result = larger + E.call("log1p", E.call("exp", smaller - larger))
    return E.select(infinite, larger, result)
