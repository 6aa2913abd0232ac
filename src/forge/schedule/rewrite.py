"""Rewriting of expressions and statements that keeps shared sub-expressions shared, and vectorisation of one variable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from forge.errors import CompileError
from forge.schedule.algebra import Algebra, free_variables
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir import visit
from forge.tir.expr import Expr, Var
from forge.tir.stmt import Stmt

Rule = Callable[[Expr], "Expr | None"]


class Rewriter:
    """Applies ``rule`` top down to expressions, each shared sub-expression once.

    Where ``rule`` returns an expression it is taken as is, else the children are visited. The rule may call the rewriter on
    parts.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._done: dict[int, tuple[Expr, Expr]] = {}  # keeps the key's object alive

    def __call__(self, x: Expr) -> Expr:
        known = self._done.get(id(x))
        if known is not None:
            return known[1]
        result = self._rule(x)
        if result is None:
            result = self.children(x)
        self._done[id(x)] = (x, result)
        return result

    def children(self, x: Expr) -> Expr:
        """``x`` with its children rewritten."""
        old = E.children(x)
        new = [self(c) for c in old]
        return x if all(a is b for a, b in zip(old, new)) else E.rebuild(x, new)


def substitute(x: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Replaces variables."""
    return Rewriter(lambda e: values.get(e) if isinstance(e, Var) else None)(x)


def map_expressions(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """``s`` with ``f`` applied to every expression in it."""
    match s:
        case S.Seq(body=body):
            return S.Seq(tuple(map_expressions(b, f) for b in body))
        case S.For(var=var, begin=begin, extent=extent, body=inner):
            return S.For(var, f(begin), f(extent), map_expressions(inner, f), s.kind, s.grain)
        case S.Store(buffer=buffer, index=index, value=value, mask=mask):
            return S.Store(buffer, f(index), f(value), None if mask is None else f(mask))
        case S.If(condition=condition, then=then, otherwise=otherwise):
            return S.If(f(condition), map_expressions(then, f), None if otherwise is None else map_expressions(otherwise, f))
        case S.Let(var=var, value=value):
            return S.Let(var, f(value))
        case S.Evaluate(value=value):
            return S.Evaluate(f(value))
        case S.Prefetch(buffer=buffer, index=index):
            return S.Prefetch(buffer, f(index))
    return s


def stores(s: Stmt) -> Iterator[S.Store]:
    """All stores in ``s``."""
    return (inner for inner in visit.statements(s) if isinstance(inner, S.Store))


def own_expressions(s: Stmt) -> Iterator[Expr]:
    """Expressions that stand in ``s`` or a statement inside it."""
    for inner in visit.statements(s):
        yield from visit.own_expressions(inner)


def nodes(x: Expr) -> Iterator[Expr]:
    """Every distinct sub-expression of ``x`` once, ``x`` first."""
    seen: set[int] = set()
    stack = [x]
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        stack.extend(reversed(E.children(e)))


class IndexSimplifier:
    """Brings the index of every load and store to canonical form."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra
        self._order = tuple(algebra.extents)
        self._rewrite = Rewriter(self._rule)

    def expr(self, x: Expr) -> Expr:
        return self._rewrite(x)

    def stmt(self, s: Stmt) -> Stmt:
        return map_statements(s, self._leaf)

    def _index(self, index: Expr) -> Expr:
        index = self._rewrite(index)
        return index if index.lanes > 1 else self._algebra.expr(self._algebra.poly(index), self._order)

    def _rule(self, x: Expr) -> Expr | None:
        if not isinstance(x, E.Load):
            return None
        return E.load(x.buffer, self._index(x.index), None if x.mask is None else self._rewrite(x.mask))

    def _leaf(self, s: Stmt) -> Stmt:
        if isinstance(s, S.Store):
            mask = None if s.mask is None else self._rewrite(s.mask)
            return S.Store(s.buffer, self._index(s.index), self._rewrite(s.value), mask)
        return map_expressions(s, self._rewrite)


def map_statements(s: Stmt, leaf: Callable[[Stmt], Stmt]) -> Stmt:
    """``s`` with ``leaf`` applied to every statement that contains no others, and to loop and branch headers by themselves."""
    match s:
        case S.Seq(body=body):
            return S.Seq(tuple(map_statements(b, leaf) for b in body))
        case S.For():
            header = leaf(S.For(s.var, s.begin, s.extent, S.Seq(()), s.kind, s.grain))
            assert isinstance(header, S.For)
            return S.For(s.var, header.begin, header.extent, map_statements(s.body, leaf), s.kind, s.grain)
        case S.If(then=then, otherwise=otherwise):
            header = leaf(S.If(s.condition, S.Seq(())))
            assert isinstance(header, S.If)
            other = None if otherwise is None else map_statements(otherwise, leaf)
            return S.If(header.condition, map_statements(then, leaf), other)
    return leaf(s)


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
        match s:
            case S.Seq(body=body):
                return S.Seq(tuple(self.stmt(b) for b in body))
            case S.Let(var=var, value=value):
                return self._let(var, self.expr(value))
            case S.Store():
                return self._store(s)
            case S.For(var=var, begin=begin, extent=extent, body=inner):
                return S.For(var, self._scalar(begin), self._scalar(extent), self.stmt(inner), s.kind, s.grain)
            case S.If(condition=condition, then=then, otherwise=otherwise):
                other = None if otherwise is None else self.stmt(otherwise)
                return S.If(self._scalar(condition), self.stmt(then), other)
            case S.Evaluate(value=value):
                return S.Evaluate(self.expr(value))
            case S.Prefetch(buffer=buffer, index=index):
                return S.Prefetch(buffer, self.expr(index))
        return s

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
                f"schedule: a store to {s.buffer.name} cannot be vectorised; got a buffer of vectors; expected scalar elements"
            )
        index, mask = self._masked(index, mask)
        value = self.expr(s.value)
        if index.lanes == 1 and value.lanes == 1:
            return S.store(s.buffer, index, value, mask)
        if index.lanes == 1:
            raise CompileError(
                f"schedule: several lanes write one element of {s.buffer.name}; got an index that does not depend "
                "on the vectorised axis; expected every element to be written once"
            )
        return S.store(s.buffer, index, E.broadcast(value, index.lanes), mask)

    def _scalar(self, x: Expr) -> Expr:
        value = self.expr(x)
        if value.lanes > 1:
            raise CompileError(
                "schedule: a loop bound or branch depends on the vectorised axis; expected it to be the same for "
                "all lanes; use a select instead"
            )
        return value


def depends_on(x: Expr, variables: set[Var]) -> bool:
    """Whether ``x`` uses one of ``variables``."""
    return not free_variables(x).isdisjoint(variables)
