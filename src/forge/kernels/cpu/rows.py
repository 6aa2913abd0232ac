"""Kernels that work row by row: what softmax, normalisations and searches along an axis share.

A *row* is what one reduction runs over. Vectors lie along the row where it is contiguous (``Rows``), else across rows that are
neighbours in memory (one row a lane). Both offer the same steps: loops over the row, reductions, a scratch copy of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forge.kernels.contract import KernelCall
from forge.schedule.access import OTHER, analyse, collapse, pattern
from forge.schedule.accumulate import Accumulators
from forge.schedule.algebra import Algebra
from forge.schedule.loops import (
    Loop,
    element_size,
    group_loop,
    memory_sizes,
    nest,
    next_power_of_two,
    parallel_nest,
    product,
    round_up,
    supports_masks,
)
from forge.schedule.rewrite import IndexSimplifier, Rewriter, Vectorizer, map_expressions
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.stmt import Allocate, Evaluate, Function, If, Let, Stmt, loop, seq, store

SCRATCH_BYTES = 16384
"""Longest row that is copied to the stack."""

ACCUMULATORS = 4


@dataclass(frozen=True, eq=False)
class RowProblem:
    """One row as scalar expressions: what is read at each of its elements, and how a result is written.

    Attributes:
        outer: loops over rows.
        row: loops over the elements of a row, innermost last.
        reads: element-wise values by name.
        write: stores variable ``result`` at the element.
    """

    target: Target
    algebra: Algebra
    outer: tuple[Loop, ...]
    row: tuple[Loop, ...]
    reads: Mapping[str, Expr]
    result: Var
    write: Stmt

    @property
    def length(self) -> Expr:
        """Elements of a row."""
        return product(axis.extent for axis in self.row)


def row_problem(call: KernelCall, axes: Sequence[int], reads: Callable[[Sequence[Expr]], Mapping[str, Expr]]) -> RowProblem:
    """Rows of the first result along ``axes``; ``reads(indices)`` gives the values at an element.

    Indices are brought to canonical form, and axes that are contiguous everywhere are merged.
    """
    algebra = Algebra()
    loops = [Loop(E.var(f"i{k}"), extent) for k, extent in enumerate(call.results[0].shape)]
    for axis in loops:
        axis.declare(algebra)
    indices = [axis.var for axis in loops]
    result = E.Var(call.results[0].dtype, 1, "y")
    simplify = IndexSimplifier(algebra)
    values = {name: simplify.expr(x) for name, x in reads(indices).items()}
    write = simplify.stmt(call.results[0].write(indices, result))
    accesses = analyse(values.values(), (write,), algebra)
    outer = collapse([axis for k, axis in enumerate(loops) if k not in axes], accesses, algebra)
    row = collapse([loops[k] for k in axes], accesses, algebra)
    gone = {**outer.substitution, **row.substitution}
    rename = Rewriter(lambda x: gone.get(x) if isinstance(x, Var) else None)
    values = {name: simplify.expr(rename(x)) for name, x in values.items()}
    write = simplify.stmt(map_expressions(write, rename))
    one = Loop(E.var("one"), E.const(1))
    return RowProblem(call.target, algebra, outer.loops, row.loops or (one,), values, result, write)


@dataclass(frozen=True, eq=False)
class Rows:
    """Vectors along the innermost row axis, or across rows along ``across``.

    Values in a body are made by ``read`` and handed to ``reduce`` and ``write``; a body gets a ``Position``.
    """

    problem: RowProblem
    dtype: str
    across: Loop | None

    @staticmethod
    def create(problem: RowProblem, dtype: str) -> Rows:
        """``dtype``: of the values that the kernel computes with."""
        return Rows(problem, dtype, _across_axis(problem))

    @property
    def lanes(self) -> int:
        sizes = [element_size(x) for x in self.problem.reads.values()]
        axis = self.problem.row[-1] if self.across is None else self.across
        widest = max(*sizes, *memory_sizes(self.problem.write), element_size(E.Var(self.dtype, 1, "x") + 0))
        return min(self.problem.target.vector_bits // (8 * widest), next_power_of_two(axis.assumed))

    @property
    def masked(self) -> bool:
        reads = seq(self.problem.write, *(Evaluate(x) for x in self.problem.reads.values()))
        return supports_masks(self.problem.target, memory_sizes(reads))
