"""Kernel family ``indexed_blocks_pack``: rows times those of several weights of codes of few bits that indices choose.

Operands: those of ``dense_blocks_pack``, with an axis of weights before those of weight, scales and zero points, and the index of
each row. Rows next to each other with the same index are one product with that weight: sorted rows read each weight once for
each block of rows, and a weight that no row chooses is not read. A row whose index is that of no weight is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from forge import loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm
from forge.kernels.cpu.dense_blocks import BlocksPlan, EachPanel, PanelOf, plan_of, row_tasks
from forge.kernels.cpu.gemm import Rows
from forge.loops import Cell, RegisterTile
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq

INDEX = 5
"""The number of the operand with the index of each row."""


@kernel("indexed_blocks_pack")
def indexed_blocks_pack(call: KernelCall) -> Function:
    """data @ weight[index], by blocks."""
    plan, index, weight = plan_of(call), call.operand(INDEX), call.operand(2)
    if index is None or weight is None:
        raise CompileError(f"{call.name}: got no index of rows; expected one")
    known, weights = index, weight.shape[0]

    def panels(rows: Rows, panel: PanelOf, each: EachPanel) -> Stmt:
        def product(run: Rows, chosen: Expr) -> Stmt:
            there = each(lambda place: panel(replace(plan, group=chosen), run, place))
            return loops.guard((chosen >= 0) & (chosen < weights), there, each(lambda place: _zeros(plan, run, place)))

        return _runs(plan, rows, known, product)

    return call.function(row_tasks(plan, panels))


def _runs(plan: BlocksPlan, rows: Rows, index: Reader, body: Callable[[Rows, Expr], Stmt]) -> Stmt:
    """``body(run, index)`` for rows next to each other that have the same index."""
    begin = Cell("run_begin")

    def chosen(row: Expr) -> Expr:
        return E.cast(index.read([row]), E.INDEX)

    def row(number: Expr) -> Stmt:
        lets, place = loops.bind("row", rows.begin + number)
        own_lets, own = loops.bind("chosen", chosen(place))
        following = E.binary("min", place + 1, plan.rows - 1)
        ends = (number + 1).eq(rows.count) | chosen(following).ne(own)
        first_lets, first = loops.bind("first", begin.value)
        count_lets, count = loops.bind("run_count", place + 1 - first)
        run = Rows(first, count, None, plan.row_block)
        return seq(lets, own_lets, loops.guard(ends, seq(first_lets, count_lets, body(run, own), begin.set(place + 1))))

    return seq(begin.start(rows.begin), loops.serial("row", rows.count, row))


def _zeros(plan: BlocksPlan, rows: Rows, panel: Expr) -> Stmt:
    """The rows of no weight."""
    tile = RegisterTile(1, plan.vectors, plan.lanes, "float32")
    zero = E.const(0, "float32", plan.lanes)
    return loops.serial("row", rows.count, lambda row: gemm.write_units(
        plan.result, tile, plan.units, rows.begin + row, panel * plan.panel, lambda v: zero))
