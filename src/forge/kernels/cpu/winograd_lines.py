"""The transformations of Winograd's algorithm, F(m x m, 3x3): of patches of inputs, and of sums to outputs, line by line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forge import loops
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike
from forge.tir.stmt import Allocate, Stmt, seq, store

ReadSquare = Callable[[int, int], Expr]
WriteSquare = Callable[[int, int, Expr], Stmt]
FillSquare = Callable[[Buffer, Expr, Expr, Expr], Stmt]
"""Of a place in a buffer, a row and a column."""
WriteLine = Callable[[Expr, int, Expr], Stmt]
Line = Callable[[Sequence[Expr]], list[Expr]]


@dataclass(frozen=True)
class Scheme:
    """F(out x out, 3x3): the transformations of one line of inputs and of sums."""

    out: int
    input_line: Line
    output_line: Line

    @property
    def patch(self) -> int:
        return self.out + 2

    @property
    def positions(self) -> int:
        return self.patch**2

    def tiles(self, extent: Expr, dilation: int = 1) -> Expr:
        """Tiles along an axis: each has ``out`` outputs, as far from each other as the taps of a dilated kernel."""
        if dilation == 1:
            return loops.ceildiv(extent, self.out)
        return extent // (self.out * dilation) * dilation + E.binary("min", extent % (self.out * dilation), dilation)

    def first(self, tile: Expr, dilation: int) -> Expr:
        """Returns the first output of a tile: neighbours begin at neighbours of a dilated axis, until between them are all."""
        return tile * self.out if dilation == 1 else tile // dilation * (self.out * dilation) + tile % dilation

    def tile_count(self, extents: Sequence[int], dilation: Sequence[int]) -> int:
        """Returns the tiles of an image of known size."""
        return math.prod(loops.known(self.tiles(E.const(extent), d), "tiles") for extent, d in zip(extents, dilation))


def place(y: ExprLike, x: int) -> Expr:
    """Returns the number of a position of a patch: those that smaller patches have, too, come first."""
    row = E.as_expr(y)
    return E.select(row <= x, row + x * x, row * row + row + (1 + x))


def square(size: int, result: int, read: ReadSquare, line: Line, write: WriteSquare) -> Stmt:
    """Applies the transformation ``line`` to the columns, then to the rows of a ``size`` x ``size`` square."""
    body: list[Stmt] = []
    columns = []
    for x in range(size):
        column = line([loops.bound(read(y, x), body) for y in range(size)])
        columns.append([loops.bound(value, body) for value in column])
    for y in range(result):
        body += [write(y, x, value) for x, value in enumerate(line([column[y] for column in columns]))]
    return seq(body)


def square_in_loops(scheme: Scheme, dtype: str, lanes: int, fill: FillSquare, write: WriteLine) -> Stmt:
    """Transforms a square as ``square`` does, in loops: shorter code for what is rare. ``fill`` puts each input into a buffer."""
    size = scheme.patch
    line, columns = loops.local("line", dtype, size, lanes), loops.local("columns", dtype, size * size, lanes)

    def column(x: Expr) -> Stmt:
        body: list[Stmt] = []
        values = scheme.input_line([loops.bound(E.load(line, E.const(y)), body) for y in range(size)])
        kept = [store(columns, x + y * size, value) for y, value in enumerate(values)]
        return seq(Allocate(line), loops.serial("y", size, lambda y: fill(line, y, y, x)), body, kept)

    def row(y: Expr) -> Stmt:
        body: list[Stmt] = []
        values = scheme.input_line([loops.bound(E.load(columns, y * size + x), body) for x in range(size)])
        return seq(body, (write(y, x, value) for x, value in enumerate(values)))

    return seq(Allocate(columns), loops.serial("x", size, column), loops.serial("y", size, row))


def _scaled(factor: float, x: Expr, plus: Expr) -> Expr:
    return loops.multiply_add(E.const(factor, x.dtype, x.lanes), x, plus)


def _input_line_4(d: Sequence[Expr]) -> list[Expr]:
    """B^T d."""
    even, odd = _scaled(-4.0, d[2], d[4]), _scaled(-4.0, d[1], d[3])
    near, far = d[4] - d[2], d[3] - d[1]
    return [_scaled(4.0, d[0], _scaled(-5.0, d[2], d[4])), even + odd, _scaled(4.0, d[1], _scaled(-5.0, d[3], d[5])),
            even - odd, _scaled(2.0, far, near), _scaled(-2.0, far, near)]


def _output_line_4(m: Sequence[Expr]) -> list[Expr]:
    """A^T m."""
    sum12, difference12, sum34, difference34 = m[1] + m[3], m[1] - m[3], m[4] + m[5], m[4] - m[5]
    return [m[0] + sum12 + sum34, _scaled(2.0, difference34, difference12), _scaled(4.0, sum34, sum12),
            _scaled(8.0, difference34, difference12) + m[2]]


def _input_line_2(d: Sequence[Expr]) -> list[Expr]:
    """B^T d."""
    return [d[0] - d[2], d[1] + d[2], d[1] - d[3], d[2] - d[1]]


def _output_line_2(m: Sequence[Expr]) -> list[Expr]:
    """A^T m, of filters in the domain of F(4x4)."""
    return [_scaled(-3.0, m[1] + m[3], m[0] * 4.0), _scaled(-3.0, m[1] - m[3], m[2] * -1.0)]


def _whole_output_line_2(m: Sequence[Expr]) -> list[Expr]:
    """A^T m, of filters in whole numbers."""
    return [m[0] + m[1] + m[3], m[1] - m[3] - m[2]]


SCHEMES = {s.positions: s for s in (Scheme(4, _input_line_4, _output_line_4), Scheme(2, _input_line_2, _output_line_2))}
"""By the number of positions of a patch, the largest first.

Rows of a patch are values at the points 0, 1, infinity, -1, 2 and -2, of which the smaller patch has the first four. So the first
16 positions of filters for 4x4 outputs are filters for 2x2.
"""

WHOLE_SCHEME_2: Final = Scheme(2, _input_line_2, _whole_output_line_2)
"""F(2x2, 3x3) of integers."""
