"""Outer products: a step multiplies one number of each row, in all lanes of a register, by vectors of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from forge import loops
from forge.loops import Accumulators
from forge.loops.dots import Group
from forge.target.isa import Isa
from forge.tir import expr as E
from forge.tir.expr import Expr, ExprLike
from forge.tir.stmt import Stmt, seq

Left = Callable[[Expr, Expr], Expr]
"""``left(row, k)``: the group of a row that step k multiplies."""
Right = Callable[[Expr, int], Expr]
"""``right(k, v)``: vector v of the groups of columns that step k multiplies."""


def no_statement(k: Expr) -> Stmt:
    """Runs nothing before a step."""
    return seq()


@dataclass(frozen=True)
class OuterProduct:
    """Multiplies single numbers: fused multiply-adds of floats, products and sums of integers."""

    group: Group

    in_tiles: ClassVar[bool] = False
    """Whether it multiplies whole registers of rows, columns and steps, which lie in memory."""

    @staticmethod
    def fits(group: Group, isa: Isa) -> bool:
        """Returns whether it multiplies such groups with the instructions of ``isa``."""
        return group.size == 1

    def multiply_add(self, a: Expr, b: Expr, total: Expr) -> Expr:
        """Returns ``total`` plus, in each lane, the products of a group of ``a`` (of the left operand) and one of ``b``."""
        return loops.multiply_add(a, b, total)

    def step(self, sums: Accumulators, left: Callable[[Expr], Expr], right: Callable[[int], Expr]) -> Stmt:
        """Adds ``left(row) * right(v)`` to every accumulator."""
        tile, parts = sums.tile, list[Stmt]()
        vectors = [loops.bound(right(v), parts, f"b{v}") for v in range(tile.vectors)]

        def row(number: Expr) -> Stmt:
            let, a = loops.bind("a", E.broadcast(left(number), tile.lanes))
            return seq(let, (sums.set(number, v, self.multiply_add(a, b, sums.get(number, v))) for v, b in enumerate(vectors)))

        return seq(parts, loops.unroll("r", tile.rows, row))

    def steps(self, sums: Accumulators, left: Left, right: Right, count: ExprLike, unroll: int,
              before: Callable[[Expr], Stmt] = no_statement) -> Stmt:
        """Adds the products of steps [0, count), ``unroll`` in one iteration of a loop; ``before(k)`` runs before step k."""
        return loops.unroll_by("k", count, unroll, lambda k: seq(
            before(k), self.step(sums, lambda row: left(row, k), lambda v: right(k, v))))
