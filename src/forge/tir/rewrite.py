"""Rewriting of expressions and statements that keeps shared sub-expressions shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

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
    """Replaces variables. A variable replaced by a ``Ramp`` vectorizes the expression around it."""
    return Rewriter(lambda e: values.get(e) if isinstance(e, Var) else None)(x)


def map_expressions(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """``s`` with ``f`` applied to every expression in it."""
    return map_parts(s, f, lambda inner: map_expressions(inner, f))


def map_parts(s: Stmt, expression: Callable[[Expr], Expr], statement: Callable[[Stmt], Stmt]) -> Stmt:
    """``s`` with the functions applied to the expressions that it holds itself and to the statements directly inside it."""
    match s:
        case S.Seq(body=body):
            return S.seq(map(statement, body))
        case S.For(var=var, begin=begin, extent=extent, body=inner):
            return S.For(var, expression(begin), expression(extent), statement(inner), s.kind, s.grain)
        case S.Store(buffer=buffer, index=index, value=value, mask=mask):
            return S.Store(buffer, expression(index), expression(value), None if mask is None else expression(mask))
        case S.If(condition=condition, then=then, otherwise=otherwise):
            return S.If(expression(condition), statement(then), None if otherwise is None else statement(otherwise))
        case S.Let(var=var, value=value):
            return S.Let(var, expression(value))
        case S.Evaluate(value=value):
            return S.Evaluate(expression(value))
        case S.Prefetch(buffer=buffer, index=index):
            return S.Prefetch(buffer, expression(index))
        case S.Tiles(values=values):
            return replace(s, values=tuple(map(expression, values)))
        case S.CallExtern(name=name, arguments=arguments, place=place):
            return S.CallExtern(name, tuple(_map_argument(a, expression) for a in arguments), place)
    return s


def _map_argument(a: S.ExternArgument, expression: Callable[[Expr], Expr]) -> S.ExternArgument:
    if isinstance(a, S.ExternTensor):
        return S.ExternTensor(a.buffer, tuple(map(expression, a.shape)), a.dtype)
    return a if isinstance(a, str) else expression(a)
