"""The part of a loop in which comparisons of its variable hold and indices need no limits: there they cost nothing.

``for i in n + 2: A[i] = select(1 <= i <= n, B[i - 1] where .., 0)``  -->  ends as written, and between them ``A[i] = B[i - 1]``.
``for i in n + 2: A[i] = B[max(min(i - 1, n - 1), 0)]``  -->  the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from forge.loops import Loop
from forge.schedule.algebra import ONE, Algebra, Poly
from forge.schedule.guards import NARROW, conjuncts
from forge.schedule.simplify import IndexSimplifier
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import Rewriter, map_expressions
from forge.tir.stmt import Stmt
from forge.tir.visit import free_variables, nodes, roots, stores

# At most this many comparisons are decided before a loop.
MAX_CONDITIONS: Final = 8


@dataclass(frozen=True)
class Part:
    """``body`` for ``begin <= axis < end``; as expressions they may lie outside of the axis."""

    begin: Expr
    end: Expr
    body: Stmt


@dataclass(frozen=True)
class Interior:
    """A body in the interior of an axis, and before and after it, where it is the same at all places there."""

    inside: Part
    before: Part | None
    after: Part | None


@dataclass(frozen=True)
class _Choice:
    """Where ``margin`` is at least 0, the expression is ``value``, else ``other``."""

    margin: Poly
    value: Expr
    other: Expr


def depends_on_places(body: Stmt) -> bool:
    """Returns whether the functions of this module have anything to decide."""
    return next(_places(body), None) is not None


def interior(body: Stmt, axis: Loop, algebra: Algebra, inner: Sequence[Loop] = ()) -> Interior | None:
    """Returns the interior of ``axis``; None where no expression of ``body`` depends on where in the axis it is.

    ``max`` is taken to be what it is at the end of the axis, ``min`` what it is at its start, a comparison to hold. Where it
    begins and ends does not depend on variables of ``inner`` loops.
    """
    variables = frozenset(loop.var for loop in inner)
    inside = _Decisions(axis, algebra, None, variables)
    found = inside.part(body)
    if not inside.begins and not inside.ends:
        return None
    before, after = (_outside(body, axis, algebra, margins, variables) for margins in (inside.begins, inside.ends))
    return Interior(found, before, after)


def _outside(body: Stmt, axis: Loop, algebra: Algebra, margins: dict[Poly, Expr], inner: frozenset[Var]) -> Part | None:
    """The part in which the one margin of an end of the interior is negative."""
    if len(margins) != 1:
        return None
    (margin,) = margins
    if algebra.least(margin) != margin:
        return None
    decisions = _Decisions(axis, algebra, margin, inner)
    part = decisions.part(body)
    step = algebra.coefficient(margin, axis.var)
    assert step is not None and step.constant is not None
    return None if (decisions.begins if step.constant > 0 else decisions.ends) else part


class _Decisions:
    """Replaces what depends on the place along ``axis``, and keeps from and to where that holds.

    ``negative``: a margin that is below 0. What depends on ``inner`` variables stays as it is.
    """

    def __init__(self, axis: Loop, algebra: Algebra, negative: Poly | None, inner: frozenset[Var]) -> None:
        self.axis, self.algebra, self.negative, self.inner = axis, algebra, negative, inner
        self.begins: dict[Poly, Expr] = {}
        self.ends: dict[Poly, Expr] = {}

    def part(self, body: Stmt) -> Part:
        while chosen := {x: value for x in _places(body) if (value := self._decide(x)) is not None}:
            body = _replaced(body, chosen, self.algebra)
        begin: Expr = E.const(0)
        end = self.axis.extent
        for limit in self.begins.values():
            begin = E.binary("max", begin, limit)
        for limit in self.ends.values():
            end = E.binary("min", end, limit)
        return Part(begin, end, body)

    def _decide(self, x: Expr) -> Expr | None:
        choice = _choice(x, self.axis, self.algebra)
        step = None if choice is None else self.algebra.coefficient(choice.margin, self.axis.var)
        if choice is None or step is None or not step.constant:
            return None
        if choice.margin == self.negative:
            return choice.other
        least = self.algebra.least(choice.margin - step * self.algebra.poly(self.axis.var))
        if least is None or not self.inner.isdisjoint(self.algebra.variables(least)):
            return None
        rest = self.algebra.expr(least)
        if step.constant > 0:
            self.begins[choice.margin] = (E.const(step.constant - 1) - rest) // step.constant
        else:
            self.ends[choice.margin] = rest // -step.constant + 1
        return choice.value


def decided(body: Stmt, inner: Sequence[Loop], algebra: Algebra) -> tuple[Expr, Stmt, Stmt] | None:
    """Returns comparisons of variables but ``inner`` that choose data all along these, and ``body`` where all of them hold.

    And where they do not: there nothing is read that is not chosen, not even under a mask, as lanes that are all off take
    hundreds of cycles where no memory is.
    """
    chosen: dict[Expr, Expr] = {}
    condition: Expr = E.const(True, "bool")
    known: set[Poly] = set()
    for x in _places(body, indices=False):
        margin = _margin(x, algebra) if isinstance(x, E.Compare) else None
        used = set() if margin is None else algebra.variables(margin)
        if margin is None or used.isdisjoint(algebra.extents) or not used.isdisjoint(axis.var for axis in inner):
            continue
        chosen[x] = E.const(True, "bool")
        if margin not in known:
            known.add(margin)
            condition = E.logical_and(condition, algebra.expr(margin) >= 0)
    if not 0 < len(known) <= MAX_CONDITIONS:
        return None

    def other(x: Expr) -> Expr | None:
        if not isinstance(x, E.Select):
            return None
        needed = {_margin(part, algebra) for part in conjuncts(x.condition) if isinstance(part, E.Compare)}
        return rewrite(x.b) if known <= needed else None

    rewrite = Rewriter(other)
    otherwise = map_expressions(body, rewrite)
    is_exact = chosen.keys().isdisjoint(_places(otherwise))
    return condition, _replaced(body, chosen, algebra), otherwise if is_exact else body


def fixed(body: Stmt, algebra: Algebra) -> tuple[Expr, Stmt] | None:
    """Returns comparisons of sizes, and ``body`` where all of them hold."""
    chosen: dict[Expr, Expr] = {x: E.const(True, "bool") for x in _places(body)
              if isinstance(x, E.Compare) and free_variables(x) and free_variables(x).isdisjoint(algebra.extents)}
    if not 0 < len(chosen) <= MAX_CONDITIONS:
        return None
    return reduce(E.logical_and, chosen), _replaced(body, chosen, algebra)


def _places(body: Stmt, indices: bool = True) -> Iterator[Expr]:
    """Scalar integer comparisons and extrema that read no data; without ``indices`` those of masks and of data."""

    def parts(x: Expr) -> Sequence[Expr]:
        return E.children(x) if indices or not isinstance(x, E.Load) else E.children(x)[1:]

    held = [root for s in stores(body) for root in (s.value, s.mask) if root is not None] if not indices else roots(body)
    for x in list(nodes(*held, children=parts)):
        if isinstance(x, E.Compare) or isinstance(x, E.Binary) and x.op in ("min", "max"):
            is_place = x.a.dtype in ("int32", "int64") and x.lanes == 1
            if is_place and not any(isinstance(part, E.Load) for part in nodes(x)):
                yield x


def _choice(x: Expr, axis: Loop, algebra: Algebra) -> _Choice | None:
    if isinstance(x, E.Compare):
        margin = _margin(x, algebra)
        return None if margin is None else _Choice(margin, E.const(True, "bool"), E.const(False, "bool"))
    assert isinstance(x, E.Binary)
    a, b = _poly(x.a, algebra), _poly(x.b, algebra)
    if a is None or b is None:
        return None
    difference = a - b
    step = algebra.coefficient(difference, axis.var)
    if step is None or not step.constant:
        return None
    first = step.constant > 0
    value, other = (x.a, x.b) if first else (x.b, x.a)
    return _Choice(difference if first == (x.op == "max") else -difference, value, other)


def _margin(x: E.Compare, algebra: Algebra) -> Poly | None:
    """What is at least 0 where ``x`` holds."""
    if x.op not in ("ge", "gt", "le", "lt"):
        return None
    a, b = _poly(x.a, algebra), _poly(x.b, algebra)
    if a is None or b is None:
        return None
    return {"ge": a - b, "gt": a - b - ONE, "le": b - a, "lt": b - a - ONE}[x.op]


def _poly(x: Expr, algebra: Algebra) -> Poly | None:
    """``x`` as a polynomial; None where int32 may wrap, and of other types than indices have."""
    if x.dtype == "int64":
        return algebra.poly(x)
    if x.dtype != "int32":
        return None
    found = algebra.poly(Rewriter(_widened)(x))
    bounds = algebra.bounds(found)
    return None if bounds is None or max(map(abs, bounds)) > NARROW else found


def _widened(x: Expr) -> Expr | None:
    if isinstance(x, E.Cast) and x.dtype == "int32" and x.x.dtype == "int64":
        return x.x
    return E.const(int(x.value), "int64") if isinstance(x, E.Const) and x.dtype == "int32" else None  # type: ignore[arg-type]


def _replaced(body: Stmt, chosen: dict[Expr, Expr], algebra: Algebra) -> Stmt:
    """``body`` with expressions in the place of others, which may lie in each other."""
    rewrite = Rewriter(lambda x: rewrite(chosen[x]) if x in chosen else None)
    return IndexSimplifier(algebra).stmt(map_expressions(body, rewrite))
