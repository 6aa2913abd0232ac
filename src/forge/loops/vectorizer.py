"""Vectorization of one variable of a statement."""

from __future__ import annotations

from collections.abc import Mapping

from forge.errors import CompileError
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import Rewriter, map_parts
from forge.tir.stmt import Stmt


class Vectorizer:
    """Runs one variable through ``lanes`` consecutive values at once.

    ``vectorize(var, base, L, mask): A[var] = f(B[var])``  -->  ``A[base : base+L] = f(B[base : base+L])``, with loads and stores
    under ``mask``. What does not depend on the variable stays scalar.
    """

    def __init__(
        self, variable: Var, base: Expr, lanes: int, mask: Expr | None = None, bound: Mapping[Var, Expr] | None = None
    ) -> None:
        """``bound``: what other variables stand for, scalars or vectors."""
        self.mask = mask
        self._bound: dict[Var, Expr] = {**(bound or {}), variable: E.ramp(base, 1, lanes)}
        self._rewrite = Rewriter(self._rule)

    def expr(self, x: Expr) -> Expr:
        """Returns ``x`` for a vector of indices."""
        return self._rewrite(x)

    def _rule(self, x: Expr) -> Expr | None:
        if isinstance(x, Var):
            return self._bound.get(x)
        if isinstance(x, E.Load):
            index = self._rewrite(x.index)
            mask = None if x.mask is None else self._rewrite(x.mask)
            return E.load(x.buffer, *self._masked(index, mask))
        return None

    def _masked(self, index: Expr, mask: Expr | None) -> tuple[Expr, Expr | None]:
        lanes = max(index.lanes, 1 if mask is None else mask.lanes)
        if lanes == 1:
            return index, mask
        own = self.mask if mask is None else E.broadcast(mask, lanes)
        both = own if mask is None or self.mask is None else E.logical_and(E.broadcast(mask, lanes), self.mask)
        return E.broadcast(index, lanes), both

    def stmt(self, s: Stmt) -> Stmt:
        """Returns ``s`` for a vector of indices."""
        match s:
            case S.Let(var=var, value=value):
                return self._let(var, self.expr(value))
            case S.Store():
                return self._store(s)
            case S.For() | S.If():
                return map_parts(s, self._scalar, self.stmt)
        return map_parts(s, self.expr, self.stmt)

    def _let(self, var: Var, value: Expr) -> Stmt:
        if value.lanes == 1:
            return S.Let(var, value)
        wide = E.Var(var.dtype, value.lanes, var.name)
        self._bound[var] = wide
        return S.Let(wide, value)

    def _store(self, s: S.Store) -> Stmt:
        index = self.expr(s.index)
        mask = None if s.mask is None else self.expr(s.mask)
        if s.buffer.lanes != 1:
            raise CompileError(
                f"schedule: a store to {s.buffer.name} cannot be vectorized; got a buffer of vectors; expected scalar elements"
            )
        index, mask = self._masked(index, mask)
        value = self.expr(s.value)
        if index.lanes == 1 and value.lanes == 1:
            return S.store(s.buffer, index, value, mask)
        if index.lanes == 1:
            raise CompileError(
                f"schedule: several lanes write one element of {s.buffer.name}; got an index that does not depend "
                "on the vectorized axis; expected every element to be written once"
            )
        return S.store(s.buffer, index, E.broadcast(value, index.lanes), mask)

    def _scalar(self, x: Expr) -> Expr:
        value = self.expr(x)
        if value.lanes > 1:
            raise CompileError(
                "schedule: a loop bound or branch depends on the vectorized axis; expected it to be the same for "
                "all lanes; use a select instead"
            )
        return value
