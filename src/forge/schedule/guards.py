"""Guarded reads: where a ``select`` discards what is read out of bounds, the read gets the condition as its mask.

``select(0 <= i < n, A[clamp(i, 0, n - 1)], c)``  -->  ``select(0 <= i < n, A[i] where 0 <= i < n, c)``: the index is affine
again, so that padding and windows over padded data are contiguous vector loads under a mask instead of gathers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forge import dtypes
from forge.loops import identity as identity_of
from forge.loops import supports_masks
from forge.schedule.algebra import ONE, ZERO, Algebra, Poly
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.rewrite import Rewriter
from forge.tir.visit import nodes

# Indices below this are compared as int32: a vector has twice as many lanes.
NARROW: Final = 1 << 30


class GuardedReads:
    """Rewrites the expressions of one loop nest. The indices in them are int64 scalars."""

    def __init__(self, target: Target, algebra: Algebra) -> None:
        self._target = target
        self._algebra = algebra
        self._rewrite = Rewriter(self._rule)

    def __call__(self, x: Expr) -> Expr:
        return self._rewrite(x)

    def unguarded(self, x: Expr, kind: str) -> tuple[set[Poly], Expr] | None:
        """Returns sums that are at least 0 where ``x`` is not the identity of reduction ``kind``, and its plain value there.

        None where conditions of another form choose.
        """
        outer = x.dtype
        if isinstance(x, E.Cast):
            x = x.x
        if not isinstance(x, E.Select):
            return set(), E.cast(x, outer)
        facts = self._facts(x.condition)
        parts = list(conjuncts(x.condition))
        identity = identity_of(kind, outer)
        if not isinstance(identity, E.Const) or not E.is_const(x.b, identity.value) or len(facts) != len(parts):
            return None
        true = E.const(True, "bool")
        plain = Rewriter(lambda e: self._guarded(e, facts, true))(x.a)
        return {fact for fact in facts if not self._algebra.nonnegative(fact)}, E.cast(plain, outer)

    def _rule(self, x: Expr) -> Expr | None:
        if not isinstance(x, E.Select) or x.lanes > 1:
            return None
        facts = self._facts(x.condition)
        loads = [e for e in nodes(x.a) if isinstance(e, E.Load)]
        if not facts or not loads or not supports_masks(self._target, {dtypes.itemsize(load.buffer.dtype) for load in loads}):
            return None
        condition = self._condition(x.condition)
        guard = Rewriter(lambda e: self._guarded(e, facts, condition))
        inner = guard(x.a)
        if inner is x.a:
            return None
        return E.select(condition, self._rewrite(inner), self._rewrite(x.b))

    def _facts(self, condition: Expr) -> set[Poly]:
        """What is at least 0 wherever ``condition`` holds."""
        found: set[Poly] = set()
        for part in conjuncts(condition):
            if isinstance(part, E.Compare) and part.a.dtype == "int64":
                found |= self._at_least_zero(part)
        return found

    def _at_least_zero(self, x: E.Compare) -> set[Poly]:
        a, b = self._algebra.poly(x.a), self._algebra.poly(x.b)
        return {"ge": {a - b}, "gt": {a - b - ONE}, "le": {b - a}, "lt": {b - a - ONE}}.get(x.op, set())

    def _condition(self, condition: Expr) -> Expr:
        """``condition`` without what always holds, and in int32 where that is enough."""
        total: Expr = E.const(True, "bool")
        for part in conjuncts(condition):
            found = self._at_least_zero(part) if isinstance(part, E.Compare) and part.a.dtype == "int64" else set()
            if len(found) != 1:
                total = E.logical_and(total, part)
                continue
            (difference,) = found
            if not self._algebra.nonnegative(difference):
                total = E.logical_and(total, self._comparison(difference))
        return total

    def _comparison(self, difference: Poly) -> Expr:
        """``difference >= 0``."""
        order = tuple(self._algebra.extents)
        bounds = self._algebra.bounds(difference)
        if bounds is None or max(abs(b) for b in bounds) > NARROW:
            return E.compare("ge", self._algebra.expr(difference, order), 0)
        total: Expr = E.const(0, "int32")
        rest = difference
        for variable in order:
            step = self._algebra.coefficient(difference, variable)
            if step is None or step.constant is None:
                return E.compare("ge", self._algebra.expr(difference, order), 0)
            rest = rest - step * self._algebra.poly(variable)
            if step.constant:
                total = total + E.cast(variable, "int32") * E.const(step.constant, "int32")
        return E.compare("ge", total, E.const(-(rest.constant or 0), "int32"))

    def _guarded(self, x: Expr, facts: set[Poly], condition: Expr) -> Expr | None:
        """A load of ``x``'s kind with plain index and mask; None for anything else, and where no index is clamped."""
        if not isinstance(x, E.Load) or x.mask is not None:
            return None
        index = Rewriter(lambda e: self._unclamped(e, facts))(x.index)
        if index is x.index or any(isinstance(e, E.Load) for e in nodes(index)):
            return None
        return E.load(x.buffer, index, condition)

    def _unclamped(self, x: Expr, facts: set[Poly]) -> Expr | None:
        if not isinstance(x, E.Binary) or x.op not in ("min", "max"):
            return None
        a = self._unclamped(x.a, facts) or x.a
        first, second = self._algebra.poly(a), self._algebra.poly(x.b)
        larger = first - second if x.op == "max" else second - first
        return a if larger in facts or larger == ZERO else None


def conjuncts(x: Expr) -> Iterator[Expr]:
    """Returns conditions that must all hold for ``x``; none where it always does."""
    if isinstance(x, E.Binary) and x.op == "and":
        yield from conjuncts(x.a)
        yield from conjuncts(x.b)
    elif not isinstance(x, E.Const):
        yield x
