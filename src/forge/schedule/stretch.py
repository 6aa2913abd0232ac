"""Operands that are perhaps stretched: whether a size is 1 or that of the result is asked once, outside of the loops.

``for i in X: A[i] = f(B[max(min(i, n - 1), 0)])``  -->  ``if n == X: for i in X: A[i] = f(B[i])``, ``else if n == 1: .. B[0]``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from forge.loops import Loop
from forge.schedule.algebra import ONE, Algebra
from forge.schedule.simplify import IndexSimplifier
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import Rewriter, map_expressions
from forge.tir.stmt import Stmt
from forge.tir.visit import free_variables, nodes, roots

# Of at most this many sizes the vector axis is told apart.
MAX_SIZES: Final = 3


@dataclass(frozen=True, eq=False)
class _Stretch:
    """Index ``node``: ``axis`` where it is below ``extent``, else ``extent - 1``."""

    node: Expr
    axis: Loop
    extent: Expr

    @property
    def is_whole(self) -> Expr:
        return E.compare("eq", self.extent, self.axis.extent)

    @property
    def is_single(self) -> Expr:
        return E.compare("eq", self.extent, 1)


Case = tuple[Expr, Stmt]
"""A condition of sizes, and what a body is where it holds."""


def unstretched(body: Stmt, axes: Sequence[Loop], algebra: Algebra) -> Case | None:
    """Returns the case in which no operand is stretched; None where none may be."""
    found = _stretches(body, axes, algebra)
    if not found:
        return None
    condition = reduce(E.logical_and, {(s.axis, algebra.poly(s.extent)): s.is_whole for s in found}.values())
    values: dict[Expr, Expr] = {s.node: s.axis.var for s in found}
    sizes = {s.extent: s.axis.extent for s in found if isinstance(s.extent, Var)}
    return condition, _replaced(_replaced(body, values, algebra), sizes, algebra)


def cases(body: Stmt, axis: Loop, algebra: Algebra) -> list[Case]:
    """Returns the cases in which all operands step along ``axis``, and in which all but one do."""
    found = _stretches(body, [axis], algebra)
    sizes = {algebra.poly(s.extent): s for s in found}
    if not 0 < len(sizes) <= MAX_SIZES:
        return []
    result = []
    for single in (None, *sizes):
        conditions = (s.is_single if size == single else s.is_whole for size, s in sizes.items())
        values = {s.node: E.const(0) if algebra.poly(s.extent) == single else axis.var for s in found}
        result.append((reduce(E.logical_and, conditions), _replaced(body, values, algebra)))
    return result


def _stretches(body: Stmt, axes: Sequence[Loop], algebra: Algebra) -> list[_Stretch]:
    by_variable = {axis.var: axis for axis in axes}
    found = (_stretch(x, by_variable, algebra) for root in roots(body) for x in nodes(root))
    return list({s.node: s for s in found if s is not None}.values())


def _stretch(x: Expr, axes: dict[Var, Loop], algebra: Algebra) -> _Stretch | None:
    if not isinstance(x, E.Binary) or x.op != "max" or x.lanes > 1 or not E.is_const(x.b, 0):
        return None
    inner = x.a
    if not isinstance(inner, E.Binary) or inner.op != "min":
        return None
    for a, b in ((inner.a, inner.b), (inner.b, inner.a)):
        if isinstance(a, Var) and a in axes and b.dtype == "int64" and free_variables(b).isdisjoint(algebra.extents):
            return _Stretch(x, axes[a], algebra.expr(algebra.poly(b) + ONE))
    return None


def _replaced(body: Stmt, values: Mapping[Any, Expr], algebra: Algebra) -> Stmt:
    rewrite = Rewriter(values.get)
    return IndexSimplifier(algebra).stmt(map_expressions(body, rewrite))
