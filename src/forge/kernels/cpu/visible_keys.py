"""Which keys of a block a few rows of attention see at all: what a mask hides from each of them needs no scores.

Causal and padded attention hide the last keys, and sliding windows whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forge import loops
from forge.kernels.cpu.gemm import Rows
from forge.kernels.cpu.panels import broadcast_indices
from forge.loops.contract import Reader
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Allocate, Stmt, seq, store

# A mask of at most this hides a key from a row that sees another one: the difference of their scores has no exponential.
HIDING: Final = -1e30
# A key with a mask above this is seen.
SHOWING: Final = -1e20


def can_hide(mask: Reader, fill: float) -> bool:
    """Returns whether a mask can hide keys; ``fill`` is the score of those that a bool mask hides."""
    if not mask.shape or E.is_const(mask.shape[-1], 1):
        return False
    return mask.dtype != "bool" or fill <= HIDING


@dataclass(frozen=True)
class VisibleKeys:
    """Reads a mask for the keys [first, first + count) of some rows of one of the matrices of scores.

    Attributes:
        mask: broadcasts to the scores.
        fill: the score of a key that a bool mask hides.
        lanes: keys that are looked at together.
    """

    mask: Reader
    fill: float
    lanes: int
    batch: Sequence[Expr]
    rows: Rows
    first: Expr
    count: Expr

    @property
    def _needs_another(self) -> bool:
        """Whether a row of nothing but hidden keys weighs them all the same; with scores of -inf it weighs none."""
        return self.mask.dtype != "bool" or self.fill > float("-inf")

    def find(self, seen_before: Expr | None) -> tuple[Stmt, Expr]:
        """Counts the keys that must be looked at: whole vectors, or all.

        ``seen_before``: whether every row saw a key of an earlier block.
        """
        end, known = loops.local("end", "int64", 1), loops.local("known", "int64", 1)
        vectors = loops.ceildiv(self.count, self.lanes)

        def backwards(i: Expr) -> Stmt:
            vector = vectors - 1 - i
            look, seen = self._seen(vector, by_all=False)
            return loops.guard(E.load(end, 0).eq(0), seq(look, loops.guard(seen, store(end, 0, vector + 1))))

        def forwards(vector: Expr) -> Stmt:
            look, seen = self._seen(vector, by_all=True)
            return loops.guard(E.load(known, 0).eq(0), seq(look, loops.guard(seen, store(known, 0, E.const(1)))))

        search = seq(store(end, 0, E.const(0)), loops.serial("v", vectors, backwards))
        found = E.binary("min", E.load(end, 0) * self.lanes, self.count)
        if not self._needs_another:
            return seq(Allocate(end), search), found
        before = E.const(0) if seen_before is None else E.select(seen_before, E.const(1), E.const(0))
        return seq(Allocate(end), Allocate(known), store(known, 0, before), loops.serial("v", vectors, forwards),
                   loops.guard(E.load(known, 0).eq(0), store(end, 0, vectors), search)), found

    def _seen(self, vector: Expr, *, by_all: bool) -> tuple[Stmt, Expr]:
        """Whether any row, or every one, sees a key of a vector; the statement comes first."""
        shown = loops.local("shown", "int64", 1)
        offset = vector * self.lanes
        inside = E.ramp(offset, 1, self.lanes) < self.count
        one_row = len(self.mask.shape) < 2 or E.is_const(self.mask.shape[-2], 1)

        def row(i: Expr) -> Stmt:
            indices = [*self.batch, self.rows.begin + i, E.ramp(self.first + offset, 1, self.lanes)]
            value = self.mask.read(broadcast_indices(indices, self.mask.shape), inside)
            visible = self._visible(value, SHOWING if by_all else HIDING)
            one = E.select(E.call("reduce_or", E.binary("and", visible, inside)), E.const(1), E.const(0))
            return store(shown, 0, E.binary("and" if by_all else "or", E.load(shown, 0), one))

        each = loops.serial("row", 1 if one_row else self.rows.count, row)
        return seq(Allocate(shown), store(shown, 0, E.const(int(by_all))), each), E.load(shown, 0).ne(0)

    def _visible(self, value: Expr, least: float) -> Expr:
        """NaN is visible."""
        if value.dtype == "bool":
            return value
        return E.logical_not(value <= E.const(least, value.dtype, value.lanes))
