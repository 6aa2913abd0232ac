"""Products in tile registers: a step multiplies 16 rows by 16 columns, over 16 groups of the depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forge import loops
from forge.errors import CompileError
from forge.kernels.cpu.micro.dot import DotProduct
from forge.kernels.cpu.micro.outer import Left, Right, no_statement
from forge.loops import Accumulators, RegisterTile
from forge.loops.dots import Group
from forge.target.isa import Isa
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike
from forge.tir.rewrite import substitute
from forge.tir.stmt import TILE_BYTES, TILE_ROWS, Stmt, Tiles, seq

COLUMNS: Final = TILE_BYTES // 4
"""Sums in a row of a register, and groups in a row of a left operand: all are words."""

MIN_WORDS: Final = 4
"""A step has at least this many words of a row of the left operand: fewer leave most of the multipliers idle."""

_OPERATIONS = {"bfloat16": "dot_bf16", "float16": "dot_f16", "uint8": "dot_u8s8", "int8": "dot_s8u8"}


@dataclass(frozen=True)
class TileProduct(DotProduct):
    """Multiplies groups of 32 bits in tile registers; the sums are stored to the accumulators, which lie in memory.

    A register of the left operand has ``words`` groups of a row, one of the right operand as many rows of ``columns`` groups.
    Both operands are in memory: the groups of neighbouring rows of the left one lie equally far apart, and so do those of
    neighbouring steps of the right one. Steps are whole registers.
    """

    in_tiles = True
    words: int = COLUMNS
    columns: int = COLUMNS

    @staticmethod
    def fits(group: Group, isa: Isa) -> bool:
        return group.word == "uint32" and group.dtype in isa.tiles

    def configure(self, shape: RegisterTile, used: Expr | None = None) -> Stmt:
        """Gives the registers the shapes of a tile, of ``used`` rows if not all."""
        down, across = self._registers(shape)
        heights = [E.const(TILE_ROWS) if used is None else E.binary("min", used - i * TILE_ROWS, TILE_ROWS) for i in range(down)]
        rows = [*(h for h in heights for _ in range(across)), *heights, *[E.const(self.words)] * across]
        sizes = [*[self.columns] * (down * across), *[self.words] * down, *[self.columns] * across]
        return Tiles("configure", values=tuple(v for height, size in zip(rows, sizes) for v in (height, E.const(4 * size))))

    def release(self) -> Stmt:
        """Says that no product follows."""
        return Tiles("release")

    def _registers(self, shape: RegisterTile) -> tuple[int, int]:
        """Registers of sums: one below the other, and side by side."""
        return -(-shape.rows // TILE_ROWS), shape.vectors * shape.lanes // self.columns

    def steps(self, sums: Accumulators, left: Left, right: Right, count: ExprLike, unroll: int,
              before: Callable[[Expr], Stmt] = no_statement) -> Stmt:
        """Stores the products of steps [0, count) to the accumulators. The registers have the shapes of ``sums``."""
        shape = sums.tile
        columns, (down, across) = self.columns // shape.lanes, self._registers(shape)
        first_left, first_right = down * across, down * across + down
        operation, row, step = _OPERATIONS[self.group.dtype], E.var("row"), E.var("step")

        def multiply(k: Expr) -> Stmt:
            lefts = [self.move(first_left + i, left(row, k * self.words), row, i * TILE_ROWS) for i in range(down)]
            rights = [self.move(first_right + j, right(step, j * columns), step, k * self.words) for j in range(across)]
            products = [Tiles(operation, (i * across + j, first_left + i, first_right + j))
                        for i in range(down) for j in range(across)]
            return seq(before(k), lefts, rights, products)

        return seq(self.cleared(sums), loops.serial("k", E.as_expr(count) // self.words, multiply), self.stored(sums))

    @staticmethod
    def move(number: int, value: Expr, along: E.Var, first: ExprLike, beyond: ExprLike = 0) -> Stmt:
        """Loads a register with what ``value`` loads for ``along`` from ``first`` on, a row each, ``beyond`` elements further."""
        buffer, at, stride = strided(value, along, E.as_expr(first))
        return Tiles("load", (number,), (at + beyond, stride), buffer)

    def cleared(self, sums: Accumulators) -> list[Stmt]:
        """Sets all sums to 0."""
        down, across = self._registers(sums.tile)
        return [Tiles("zero", (number,)) for number in range(down * across)]

    def stored(self, sums: Accumulators) -> list[Stmt]:
        """Stores all sums to the accumulators."""
        (down, across), vectors = self._registers(sums.tile), sums.tile.vectors
        columns = self.columns // sums.tile.lanes
        places = [i * TILE_ROWS * vectors + j * columns for i in range(down) for j in range(across)]
        return [Tiles("store", (number,), (E.const(place), E.const(vectors)), sums.buffer) for number, place in enumerate(places)]


def step_words(run: int) -> int:
    """Returns how many of ``run`` neighbouring words of a row a step takes: the most that divide it."""
    return next(words for words in range(min(run, COLUMNS), 0, -1) if run % words == 0)


def strided(value: Expr, along: E.Var, first: Expr) -> tuple[Buffer, Expr, Expr]:
    """Returns the memory that ``value`` loads a group from, where it is for ``first``, and how far from it the next one is.

    Raises:
        CompileError: it is not loaded from one place, or not equally far apart for all values of ``along``.
    """
    while not isinstance(value, E.Load):
        if not (isinstance(value, E.Call) and value.name == "reinterpret"):
            raise CompileError("kernel: an operand of tile registers is computed; expected one in memory")
        (value,) = E.children(value)
    place = value.index.base if isinstance(value.index, E.Ramp) else value.index
    index = substitute(place, {along: E.ramp(first, 1, 2)})
    if not isinstance(index, E.Ramp):
        raise CompileError("kernel: an operand of tile registers lies in rows that are not equally far apart")
    return value.buffer, index.base, index.stride
