"""Softmax and log-softmax along one axis.

Three passes over a row: the largest value; exponentials and their sum; the result. With the row kept on the stack, operands
are read and exponentials computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

from forge.kernels.cpu.rows import KernelRow, Position, Step, row_function, row_problem
from forge.loops import LARGEST_NUMBER, bind
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq

COST = 24


@kernel("softmax")
def softmax(call: KernelCall) -> Function:
    """Family of ``nn.softmax`` and ``nn.log_softmax``: operand data; attribute axis.

    ``exp(x - max) / sum(exp(x - max))``, or ``x - max - log(sum(exp(x - max)))``. NaN anywhere in a row makes the whole row
    NaN, and so does a row of nothing but -inf. float16 and bfloat16 are computed in float32.
    """
    (data,) = call.readers
    axis = call.attrs.axis % len(data.shape)
    problem = row_problem(call, (axis,), lambda indices: {"data": data.read(tuple(indices))})
    dtype = data.dtype if data.dtype == "float64" else "float32"
    if call.operator.endswith("log_softmax"):
        return row_function(call, problem, dtype, _log_softmax, COST)
    return row_function(call, problem, dtype, _softmax, COST, keeps=True)


def _largest(row: KernelRow) -> tuple[Stmt, Expr]:
    return row.reduce(LARGEST_NUMBER, lambda position: row.first("data", position))


def _exponential(row: KernelRow, largest: Expr, position: Position) -> Expr:
    return E.call("exp", row.again("data", position) - largest)


def _softmax(row: KernelRow) -> list[Step]:
    first, largest = _largest(row)

    def exponentials(position: Position) -> tuple[Sequence[Stmt], Expr]:
        lets, e = bind("e", _exponential(row, largest, position))
        return [*lets, *row.keep(e, position)], e

    second, total = row.reduce("sum", exponentials)
    lets, factor = bind("factor", E.const(1.0, row.dtype, total.lanes) / total)

    def result(position: Position) -> Stmt:
        e = row.kept(position) if row.cached else _exponential(row, largest, position)
        return row.write(e * factor, position)

    return [(first, largest), (second, total), (seq(lets, row.each(result)), None)]


def _log_softmax(row: KernelRow) -> list[Step]:
    first, largest = _largest(row)
    second, total = row.reduce("sum", lambda position: ([], _exponential(row, largest, position)))
    lets, offset = bind("offset", E.call("log", total))
    result = row.each(lambda position: row.write(row.again("data", position) - largest - offset, position))
    return [(first, largest), (second, total), (seq(lets, result), None)]
