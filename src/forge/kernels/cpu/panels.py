"""The right operand of a matrix product that is known at run time only: column tiles of it, copied into local panels.

An operand whose columns are contiguous is transposed in registers, square by square.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge import loops
from forge.kernels.cpu import gemm
from forge.loops import RegisterTile
from forge.schedule.transpose import transpose
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Stmt, seq, store

VectorElement = Callable[[Expr, int], Expr]
ReadStep = Callable[[Expr, Expr, "Expr | None"], Expr]


@dataclass(frozen=True)
class Right:
    """Rows [0, count) of a right operand, each what one step of the sum multiplies.

    Attributes:
        read: ``read(step, column, mask)``; one of them may have lanes. A mask has those of the step, or of the column.
        by_columns: whether the columns are contiguous, and the rows are not.
        columns: extent of a row.
        count: number of steps.
        tile: of the product.
    """

    read: ReadStep
    by_columns: bool
    columns: Expr
    count: Expr
    tile: RegisterTile

    def pack(self, panel: Buffer, base: Expr, column: Expr) -> Stmt:
        """Copies the tile at ``column`` to ``panel``, from element ``base`` on."""
        return self._pack_squares(panel, base, column) if self.by_columns else self._pack_rows(panel, base, column)

    def _pack_rows(self, panel: Buffer, base: Expr, column: Expr) -> Stmt:
        """Row by row; columns past the last are zero."""
        tile = self.tile

        def row(k: Expr) -> Stmt:
            def vector(v: int, mask: Expr | None) -> Stmt:
                value = self.read(k, E.ramp(column + v * tile.lanes, 1, tile.lanes), mask)
                return store(panel, E.ramp(base + k * tile.width + v * tile.lanes, 1, tile.lanes), value)

            return gemm.column_vectors(tile, column, self.columns, vector)

        return loops.unroll_by("k", self.count, 2, row)

    def _pack_squares(self, panel: Buffer, base: Expr, column: Expr) -> Stmt:
        """In transposed squares. Columns past the last repeat it: they are never written."""
        tile, lanes = self.tile, self.tile.lanes

        def square(v: Expr, k: Expr, mask: Expr | None) -> Stmt:
            def source(i: int) -> Expr:
                wanted = column + v * lanes + i
                inside = E.is_const(self.columns % tile.width, 0)
                n = wanted if inside else E.binary("min", wanted, self.columns - 1)
                return self.read(k, n, mask)

            first = k.base if isinstance(k, E.Ramp) else k
            parts: list[Stmt] = []
            rows = transpose([loops.bound(source(i), parts) for i in range(lanes)], parts)
            stores = [
                store(panel, E.ramp(base + (first + i) * tile.width + v * lanes, 1, lanes), row) for i, row in enumerate(rows)
            ]
            return seq(parts, stores)

        return loops.serial("v", tile.vectors,
                            lambda v: loops.each_vector(self.count, lanes, lambda k, mask: square(v, k, mask)))


def panel_vector(panels: Buffer, tile: RegisterTile, base: Expr) -> VectorElement:
    """Reads what `Right.pack` wrote: vector v of step k."""
    return lambda k, v: E.load(panels, E.ramp(base + k * tile.width + v * tile.lanes, 1, tile.lanes))


def along_columns(read: Callable[[Expr, Expr], Expr], lanes: int) -> bool:
    """Returns whether ``read(k, n)`` finds neighbours along k, and not along n, side by side in memory."""
    n, k = E.var("n"), E.var("k")
    return lanes > 1 and contiguous(lambda i: read(i, n), lanes) and not contiguous(lambda i: read(k, i), lanes)


def broadcast_indices(batch: Sequence[Expr], shape: Sequence[Expr]) -> list[Expr]:
    """Indices of an operand whose axes of 1 are repeated."""
    aligned = batch[len(batch) - len(shape):] if shape else []
    return [E.const(0) if E.is_const(extent, 1) else i for i, extent in zip(aligned, shape, strict=True)]


def contiguous(read: Callable[[Expr], Expr], lanes: int) -> bool:
    """Returns whether neighbouring values of the index are neighbours in memory."""
    value = loaded(read(E.ramp(E.var("i"), 1, lanes)))
    if value is None:
        return False
    return lanes == 1 or isinstance(value.index, E.Ramp) and E.is_const(value.index.stride, 1)


def loaded(value: Expr) -> E.Load | None:
    """Finds the load that is all of a value, but for conversions of its type and operations with constants."""
    while not isinstance(value, E.Load):
        inner = [x for x in E.children(value) if not isinstance(x, E.Const)]
        if len(inner) != 1 or not isinstance(value, (E.Cast, E.Binary, E.Call)):
            return None
        (value,) = inner
    return value
