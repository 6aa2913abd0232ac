"""Rewriting of expressions and statements that keeps shared sub-expressions shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir.expr import Expr, Var
from forge.tir.stmt import Stmt

Rule = Callable[[Expr], "Expr | None"]


class Rewriter:
    """Applies ``rule`` top down to expressions, each shared sub-expression once; not recursive.

    Where ``rule`` returns an expression it is taken as is, else the children are visited. The rule may call the rewriter on
    parts. Extents of reduction axes are left as they are.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._done: dict[int, tuple[Expr, Expr]] = {}  # keeps the key's object alive

    def __call__(self, x: Expr) -> Expr:
        done, opened, stack = self._done, set[int](), [x]
        while stack:
            e = stack[-1]
            if id(e) in done:
                stack.pop()
            elif id(e) in opened:
                done[id(e)] = e, with_children(e, [done[id(c)][1] for c in E.children(e)])
            else:
                opened.add(id(e))
                replaced = self._rule(e)
                if replaced is not None:
                    done[id(e)] = e, replaced
                else:
                    stack.extend(c for c in reversed(E.children(e)) if id(c) not in done)
        return done[id(x)][1]


def with_children(x: Expr, new: Sequence[Expr]) -> Expr:
    """``x`` with these children, itself where they are its own."""
    return x if all(a is b for a, b in zip(E.children(x), new)) else E.rebuild(x, new)


def substitute(x: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Replaces variables. A variable replaced by a ``Ramp`` vectorises the expression around it."""
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
