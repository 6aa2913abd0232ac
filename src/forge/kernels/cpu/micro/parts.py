"""Products of float32 in tile registers: each number is the sum of two or three bfloat16, whose largest products are added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forge import loops
from forge.kernels.cpu.micro.outer import Left, Right, no_statement
from forge.kernels.cpu.micro.tile import COLUMNS, TileProduct
from forge.loops import Accumulators
from forge.tir import expr as E
from forge.tir.expr import Expr, ExprLike
from forge.tir.stmt import Stmt, Tiles, seq

PRODUCTS: Final = {3: ((0, 2), (0, 1), (0, 0), (1, 0), (1, 1), (2, 0)), 2: ((0, 1), (0, 0), (1, 0))}
"""By the number of parts: those of the left and the right operand that are multiplied, in an order in which most loads serve
twice. What is left out is below 2^-23 of the product with three parts, and below 2^-15 with two."""


@dataclass(frozen=True)
class PartsProduct(TileProduct):
    """Multiplies float32 by their parts: groups of the next part of an operand are ``left_part`` or ``right_part`` steps further.

    With three parts a step adds six sums of 32 products to a total, where multiply-adds round 32 times: errors are smaller.
    """

    parts: int = 3
    left_part: int = 0
    right_part: int = 0

    def steps(self, sums: Accumulators, left: Left, right: Right, count: ExprLike, unroll: int,
              before: Callable[[Expr], Stmt] = no_statement) -> Stmt:
        down, across = self._registers(sums.tile)
        first_left, first_right = down * across, down * across + down
        columns, row, step = COLUMNS // sums.tile.lanes, E.var("row"), E.var("step")

        def multiply(k: Expr) -> Stmt:
            parts, held = list[Stmt](), (-1, -1)
            for pair in PRODUCTS[self.parts]:
                if pair[0] != held[0]:
                    parts += [self.move(first_left + i, left(row, k * COLUMNS + pair[0] * self.left_part), row, i * COLUMNS)
                              for i in range(down)]
                if pair[1] != held[1]:
                    parts += [self.move(first_right + j, right(step, j * columns), step, k * COLUMNS + pair[1] * self.right_part)
                              for j in range(across)]
                parts += [Tiles("dot_bf16", (i * across + j, first_left + i, first_right + j))
                          for i in range(down) for j in range(across)]
                held = pair
            return seq(parts)

        return seq(self.cleared(sums), loops.serial("k", E.as_expr(count) // COLUMNS, multiply), self.stored(sums))
