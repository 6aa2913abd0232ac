"""Square tiles for loads that run across the axis of the stores: vector loads, a transposition in registers, vector stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from forge import loops
from forge.loops import Loop, Vectorizer
from forge.schedule.access import OTHER, Accesses, pattern
from forge.schedule.algebra import Algebra
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.rewrite import Rewriter, map_expressions, substitute
from forge.tir.stmt import If, Stmt, loop, seq
from forge.tir.visit import stores

# Tiles have at most this many rows and columns.
MAX_TILE: Final = 16


class TransposedLoads:
    """A nest of loops over tiles of ``axis`` (of the stores) by ``across`` (of the strided loads).

    ``for j: for i: A[j, i] = f(B[i, j])``  -->
    ``for tiles: rows = B[i:i+T, j:j+T] by rows; columns = transpose(rows); A[j+s, i:i+T] = f(columns[s]) for s in T``
    """

    def __init__(
        self, target: Target, axes: Sequence[Loop], axis: Loop, across: Loop, body: Stmt, algebra: Algebra, accesses: Accesses
    ) -> None:
        sizes = loops.memory_sizes(body)
        widest = max(*sizes, *(loops.element_size(s.value) for s in stores(body)), 1)
        self.tile = min(MAX_TILE, target.vector_bits // (8 * widest))
        self.masked = loops.supports_masks(target, sizes)
        self.outer = [other for other in axes if other not in (axis, across)]
        self.axis, self.across, self.body = axis, across, body
        strides = accesses.strides(algebra, axis.var)
        self.strided = [a.node for a, s in zip(accesses.items, strides) if a.node is not None and pattern(s) == OTHER]

    def build(self) -> Stmt:
        t = self.tile
        cost = loops.statement_cost(self.body) * t + len(self.strided) * t * (t.bit_length() + 1)
        rows, columns = (Loop(E.var(name), (a.extent + (t - 1)) // t) for name, a in (("ti", self.axis), ("tj", self.across)))
        i, j = rows.var * t, columns.var * t
        left_i, left_j = self.axis.extent - i, self.across.extent - j
        whole = seq(*self._tile(i, j, None, None))
        if all(a.static is not None and a.static % t == 0 for a in (self.axis, self.across)):
            return loops.parallel_nest([*self.outer, columns, rows], whole, E.const(cost))
        rest = self._partial(i, j, left_i, left_j)
        inside = E.logical_and(E.compare("ge", left_i, t), E.compare("ge", left_j, t))
        return loops.parallel_nest([*self.outer, columns, rows], If(inside, whole, rest), E.const(cost))

    def _partial(self, i: Expr, j: Expr, left_i: Expr, left_j: Expr) -> Stmt:
        if self.masked:
            return seq(*self._tile(i, j, left_i, left_j))
        t = E.const(self.tile)
        column, row = E.var("j"), E.var("i")
        body = map_expressions(self.body, lambda x: substitute(x, {self.axis.var: i + row, self.across.var: j + column}))
        return loop(column, E.binary("min", t, left_j), loop(row, E.binary("min", t, left_i), body))

    def _tile(self, i: Expr, j: Expr, left_i: Expr | None, left_j: Expr | None) -> list[Stmt]:
        """One tile; ``left_i`` and ``left_j`` say how many rows and columns there are, None: all."""
        parts: list[Stmt] = []
        columns = [self._transposed(node, i, j, left_i, left_j, parts) for node in self.strided]
        mask = None if left_i is None else loops.tail_mask(E.const(0), left_i, self.tile)
        for s in range(self.tile):
            known = dict(zip(self.strided, (column[s] for column in columns)))
            body = map_expressions(self.body, _replacing(known, {self.across.var: j + s}))
            body = Vectorizer(self.axis.var, i, self.tile, mask).stmt(body)
            parts.append(body if left_j is None else If(E.const(s) < left_j, body))
        return parts

    def _transposed(
        self, node: E.Load, i: Expr, j: Expr, left_i: Expr | None, left_j: Expr | None, parts: list[Stmt]
    ) -> list[Expr]:
        rows: list[Expr] = []
        mask = None if left_j is None else loops.tail_mask(E.const(0), left_j, self.tile)
        for r in range(self.tile):
            row = i + r if left_i is None else E.binary("min", i + r, self.axis.extent - 1)
            index = substitute(node.index, {self.axis.var: row})
            vector = Vectorizer(self.across.var, j, self.tile, mask).expr(E.load(node.buffer, index))
            rows.append(loops.bound(vector, parts))
        return transpose(rows, parts)


def transpose(rows: Sequence[Expr], parts: list[Stmt]) -> list[Expr]:
    """Returns the columns of a square of vectors, by exchanging blocks of halving size.

    Appends what binds intermediate vectors to ``parts``.
    """
    values = list(rows)
    block = len(values) // 2
    while block:
        for r in range(len(values)):
            if not r & block:
                a, b = values[r], values[r + block]
                values[r] = loops.bound(_exchange(a, b, block, 0), parts)
                values[r + block] = loops.bound(_exchange(a, b, block, block), parts)
        block //= 2
    return values


def lane_sums(vectors: Sequence[Expr], parts: list[Stmt]) -> Expr:
    """Returns a vector whose lane k is the sum of the lanes of ``vectors[k]``; there are as many vectors as lanes.

    Appends what binds intermediate vectors to ``parts``.
    """
    values = list(vectors)
    while len(values) > 1:
        block = len(values) // 2
        pairs = zip(values[:block], values[block:])
        values = [loops.bound(_exchange(a, b, block, 0) + _exchange(a, b, block, block), parts) for a, b in pairs]
    return values[0]


def _exchange(a: Expr, b: Expr, block: int, start: int) -> Expr:
    """Blocks of ``a`` and ``b`` alternately, from lane ``start`` of each pair of blocks."""
    lanes = a.lanes
    order = [(lane & ~block) + start + (lanes if lane & block else 0) for lane in range(lanes)]
    return E.call("shuffle", a, b, *(E.const(k) for k in order), lanes=lanes)



def _replacing(known: Mapping[E.Load, Expr], values: Mapping[E.Var, Expr]) -> Callable[[Expr], Expr]:
    def rule(x: Expr) -> Expr | None:
        if isinstance(x, E.Load) and x in known:
            return known[x]
        return values.get(x) if isinstance(x, E.Var) else None

    return lambda x: Rewriter(rule)(x)
