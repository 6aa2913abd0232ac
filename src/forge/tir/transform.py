"""Rewriting of statements: vectorised loops become vectors, constants fold, what never runs goes."""

from __future__ import annotations

from collections.abc import Callable

from forge.errors import CompileError
from forge.tir import expr as tir
from forge.tir import stmt
from forge.tir.expr import Expr, Var
from forge.tir.stmt import Stmt


def lower_vectorized(s: Stmt) -> Stmt:
    """Replaces every ``vectorized`` loop by its body on vectors.

    ``for i in vectorized(4): B[i] = A[i] + 1``  -->  ``B[ramp(0, 1, 4)] = A[ramp(0, 1, 4)] + 1``. A condition that depends on
    the variable becomes the mask of the stores and loads under it.

    Raises:
        CompileError: an extent is not constant, lanes would write one element, or an inner loop's bounds depend on the variable.
    """
    match s:
        case stmt.Seq(body=body):
            return stmt.seq([lower_vectorized(inner) for inner in body])
        case stmt.For(kind="vectorized"):
            return _vectorize(s)
        case stmt.For():
            return stmt.For(s.var, s.begin, s.extent, lower_vectorized(s.body), s.kind, s.grain)
        case stmt.If(condition=condition, then=then, otherwise=otherwise):
            other = None if otherwise is None else lower_vectorized(otherwise)
            return stmt.If(condition, lower_vectorized(then), other)
    return s


def _vectorize(loop: stmt.For) -> Stmt:
    if not isinstance(loop.extent, tir.Const) or not isinstance(loop.extent.value, int):
        raise CompileError(f"tir: vectorised loop over {loop.var.name!r} has an extent known only at run time; "
                           "split it by a constant first")
    if loop.extent.value == 0:
        return stmt.Seq(())
    lanes = tir.ramp(loop.begin, 1, loop.extent.value)
    return _Lanes({loop.var: lanes}, loop.extent.value).statement(lower_vectorized(loop.body), None)


class _Lanes:
    """Statements with some variables bound to vectors."""

    def __init__(self, bound: dict[Var, Expr], lanes: int) -> None:
        self.bound = bound
        self.lanes = lanes

    def expression(self, x: Expr, mask: Expr | None) -> Expr:
        def rule(e: Expr) -> Expr | None:
            if isinstance(e, Var):
                return self.bound.get(e)
            if isinstance(e, tir.Load) and mask is not None:
                return self._masked_load(e, mask)
            return None

        return tir.transform(x, rule)

    def _masked_load(self, load: tir.Load, mask: Expr) -> Expr | None:
        index = self.expression(load.index, mask)
        if index.lanes == load.index.lanes:
            return None
        own = None if load.mask is None else self.expression(load.mask, mask)
        return tir.load(load.buffer, index, _both(mask, own))

    def statement(self, s: Stmt, mask: Expr | None) -> Stmt:
        match s:
            case stmt.Seq(body=body):
                return stmt.seq([self.statement(inner, mask) for inner in body])
            case stmt.Store():
                return self._store(s, mask)
            case stmt.Let(var=var, value=value):
                wide = self.expression(value, mask)
                self.bound[var] = Var(var.dtype, wide.lanes, var.name)
                return stmt.Let(self.bound[var], wide)  # type: ignore[arg-type]
            case stmt.If():
                return self._if(s, mask)
            case stmt.For(var=var, begin=begin, extent=extent):
                bounds = (self._scalar(begin, var, mask), self._scalar(extent, var, mask))
                return stmt.For(var, *bounds, self.statement(s.body, mask), s.kind, s.grain)
            case stmt.Evaluate(value=value):
                return stmt.Evaluate(self.expression(value, mask))
            case stmt.Prefetch(index=index):
                return stmt.Prefetch(s.buffer, self.expression(index, mask))
        return s

    def _scalar(self, x: Expr, var: Var, mask: Expr | None) -> Expr:
        value = self.expression(x, mask)
        if value.lanes > 1:
            raise CompileError(f"tir: bounds of the loop over {var.name!r} depend on a vectorised variable around it")
        return value

    def _store(self, s: stmt.Store, mask: Expr | None) -> Stmt:
        index, value = self.expression(s.index, mask), self.expression(s.value, mask)
        own = None if s.mask is None else self.expression(s.mask, mask)
        together = _both(mask, own)
        if index.lanes == s.index.lanes and (value.lanes > s.value.lanes or mask is not None):
            raise CompileError(f"tir: lanes of a vectorised loop write one element of {s.buffer.name!r}; "
                               "expected its index to depend on the loop")
        return stmt.store(s.buffer, index, tir.broadcast(value, index.lanes * s.buffer.lanes), together)

    def _if(self, s: stmt.If, mask: Expr | None) -> Stmt:
        condition = self.expression(s.condition, mask)
        if condition.lanes == 1:
            other = None if s.otherwise is None else self.statement(s.otherwise, mask)
            return stmt.If(condition, self.statement(s.then, mask), other)
        branches = [self.statement(s.then, _both(condition, mask))]
        if s.otherwise is not None:
            branches.append(self.statement(s.otherwise, _both(tir.logical_not(condition), mask)))
        return stmt.seq(branches)


def _both(a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None:
        return a if b is None else b
    return tir.logical_and(a, b)


def map_expressions(s: Stmt, rule: Callable[[Expr], Expr]) -> Stmt:
    """``s`` with ``rule`` applied to every expression that a statement holds."""
    match s:
        case stmt.Seq(body=body):
            return stmt.seq([map_expressions(inner, rule) for inner in body])
        case stmt.For(grain=grain):
            least = None if grain is None else rule(grain)
            return stmt.For(s.var, rule(s.begin), rule(s.extent), map_expressions(s.body, rule), s.kind, least)
        case stmt.Store(mask=mask):
            return stmt.Store(s.buffer, rule(s.index), rule(s.value), None if mask is None else rule(mask))
        case stmt.If(then=then, otherwise=otherwise):
            other = None if otherwise is None else map_expressions(otherwise, rule)
            return stmt.If(rule(s.condition), map_expressions(then, rule), other)
        case stmt.Let():
            return stmt.Let(s.var, rule(s.value))
        case stmt.Evaluate():
            return stmt.Evaluate(rule(s.value))
        case stmt.Prefetch():
            return stmt.Prefetch(s.buffer, rule(s.index))
    return s


def simplify(s: Stmt) -> Stmt:
    """Drops loops that never run and branches never taken; unwraps loops that run once.

    Expressions need no pass of their own: their constructors fold constants.
    """
    match s:
        case stmt.Seq(body=body):
            return stmt.seq([simplify(inner) for inner in body])
        case stmt.For(extent=tir.Const(value=int(count))) if count <= 0:
            return stmt.Seq(())
        case stmt.For(extent=tir.Const(value=1)):
            return simplify(map_expressions(s.body, lambda x: tir.substitute(x, {s.var: s.begin})))
        case stmt.For():
            return stmt.For(s.var, s.begin, s.extent, simplify(s.body), s.kind, s.grain)
        case stmt.If(condition=tir.Const(value=value), then=then, otherwise=otherwise):
            chosen = then if value else otherwise
            return stmt.Seq(()) if chosen is None else simplify(chosen)
        case stmt.If(then=then, otherwise=otherwise):
            return stmt.If(s.condition, simplify(then), None if otherwise is None else simplify(otherwise))
    return s
