"""Products of float32 in tile registers: each number is the sum of two or three bfloat16, whose largest products are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from forge import loops
from forge.kernels.cpu.micro.outer import Left, Right, no_statement
from forge.kernels.cpu.micro.tile import TileProduct
from forge.loops import Accumulators
from forge.loops.dots import Group
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike
from forge.tir.stmt import TILE_ROWS, Stmt, Tiles, seq, store

PRODUCTS: Final = {3: ((0, 2), (0, 1), (0, 0), (1, 0), (1, 1), (2, 0)), 2: ((0, 1), (0, 0), (1, 0))}
"""By the number of parts: those of the left and the right operand that are multiplied, in an order in which most loads serve
twice. What is left out is below 2^-23 of the product with three parts, and below 2^-15 with two."""

SMALLEST: Final = 2.0**-70
LARGEST: Final = 2.0**64
"""Magnitudes of the largest of some neighbours of which parts are made: weights are at most 2^32. Products of smaller ones might
be subnormal, which tile registers take for 0, products of larger ones infinite."""


def split(value: Expr, parts: int, lets: list[Stmt]) -> Iterator[Expr]:
    """Yields ``parts`` bfloat16 that add up to ``value`` of float32."""
    rest = value
    for _ in range(parts):
        number = loops.bound(E.cast(rest, "bfloat16"), lets, "part")
        yield number
        rest = loops.bound(rest - E.cast(number, "float32"), lets, "rest")


def store_parts(copy: Buffer, index: Expr, value: Expr, mask: Expr | None, group: Group, parts: int, part: int) -> Stmt:
    """Stores the parts of ``value``, each ``part`` elements after the one before."""
    lets = list[Stmt]()
    stores = [store(copy, index + i * part, group.bits(number), mask) for i, number in enumerate(split(value, parts, lets))]
    return seq(lets, stores)


def is_usual(largest: Expr) -> Expr:
    """Tells whether parts may be made of numbers of which ``largest`` is the largest magnitude, or NaN where there is one."""
    zero, low, high = (E.broadcast(E.const(limit, "float32"), largest.lanes) for limit in (0.0, SMALLEST, LARGEST))
    return E.logical_and(largest <= high, E.binary("or", largest >= low, largest.eq(zero)))


def halves(parts: Sequence[Expr]) -> Iterator[Expr]:
    """Yields the float32 that the lower numbers of pairs add up to, and those of the upper ones."""
    for bits in ([E.binary("shl", p, 16) for p in parts], [p & 0xFFFF0000 for p in parts]):
        numbers = (E.call("reinterpret", b, dtype="float32") for b in reversed(bits))
        yield reduce(lambda low, high: high + low, numbers)


@dataclass(frozen=True)
class PartsProduct(TileProduct):
    """Multiplies float32 by their parts: those of the next part are ``left_part`` or ``right_part`` elements further in memory.

    With three parts a step adds six sums of 32 products to a total, where multiply-adds round 32 times: errors are smaller.
    """

    parts: int = 3
    left_part: int = 0
    right_part: ExprLike = 0

    def steps(self, sums: Accumulators, left: Left, right: Right, count: ExprLike, unroll: int,
              before: Callable[[Expr], Stmt] = no_statement) -> Stmt:
        down, across = self._registers(sums.tile)
        first_left, first_right = down * across, down * across + down
        columns, row, step = self.columns // sums.tile.lanes, E.var("row"), E.var("step")

        def multiply(k: Expr) -> Stmt:
            parts, held = [before(k)], (-1, -1)
            for pair in PRODUCTS[self.parts]:
                if pair[0] != held[0]:
                    parts += [self.move(first_left + i, left(row, k * self.words), row, i * TILE_ROWS, pair[0] * self.left_part)
                              for i in range(down)]
                if pair[1] != held[1]:
                    parts += [self.move(first_right + j, right(step, j * columns), step, k * self.words,
                                        pair[1] * self.right_part) for j in range(across)]
                parts += [Tiles("dot_bf16", (i * across + j, first_left + i, first_right + j))
                          for i in range(down) for j in range(across)]
                held = pair
            return seq(parts)

        return seq(self.cleared(sums), loops.serial("k", E.as_expr(count) // self.words, multiply), self.stored(sums))
