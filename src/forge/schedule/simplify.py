"""Canonical form of the indices in expressions and statements."""

from __future__ import annotations

from collections.abc import Mapping

from forge.schedule.algebra import Algebra
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import Rewriter, map_parts
from forge.tir.stmt import Stmt


def renaming(values: Mapping[Var, Expr]) -> Rewriter:
    """Replaces variables; what several expressions share stays shared."""
    return Rewriter(lambda x: values.get(x) if isinstance(x, Var) else None)


class IndexSimplifier:
    """Brings the index of every load and store to canonical form."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra
        self._order = tuple(algebra.extents)
        self._rewrite = Rewriter(self._rule)

    def expr(self, x: Expr) -> Expr:
        return self._rewrite(x)

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, S.Store):
            mask = None if s.mask is None else self._rewrite(s.mask)
            return S.Store(s.buffer, self._index(s.index), self._rewrite(s.value), mask)
        return map_parts(s, self._rewrite, self.stmt)

    def _index(self, index: Expr) -> Expr:
        index = self._rewrite(index)
        return index if index.lanes > 1 else self._algebra.expr(self._algebra.poly(index), self._order)

    def _rule(self, x: Expr) -> Expr | None:
        if not isinstance(x, E.Load):
            return None
        return E.load(x.buffer, self._index(x.index), None if x.mask is None else self._rewrite(x.mask))
