"""Windows of two elements that lie side by side: what is under them is loaded as it lies, and reduced before it is taken apart.

``max over r, q of x[2*i + r, 2*j + q]``, for 16 values of j  -->  two vectors of ``max over r of x[2*i + r, k]``, and the maximum
of their even and their odd lanes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import reduce

from forge import loops
from forge.loops import Loop, Vectorizer, tail_mask
from forge.schedule.algebra import ONE, ZERO, number
from forge.schedule.problem import Problem
from forge.schedule.stages import Reduction
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import substitute
from forge.tir.stmt import Stmt


def pair_along(problem: Problem, r: Reduction, axis: Loop, most: int) -> Loop | None:
    """Returns the axis of ``r`` whose two steps lie side by side at each place of ``axis``; others have at most ``most``."""
    accesses = problem.accesses(r)
    for tap in r.axes:
        strides = list(zip(*(accesses.strides(problem.algebra, one.var) for one in (axis, tap)), strict=True))
        is_pair = tap.static == 2 and accesses.value_uses.isdisjoint({axis.var, tap.var})
        if is_pair and (number(2), ONE) in strides and set(strides) <= {(number(2), ONE), (ZERO, ZERO)}:
            others = [other for other in r.axes if other is not tap]
            return tap if math.prod(other.static or most + 1 for other in others) <= most else None
    return None


def reduced_pairs(
    r: Reduction, axis: Loop, tap: Loop, at: Expr, lanes: int, left: Expr | None, bound: Mapping[Var, Expr], target: Target,
    parts: list[Stmt],
) -> Expr:
    """Returns the vector of ``r`` from ``at`` on along ``axis``, with ``tap`` of ``pair_along`` and ``left`` lanes, or all."""
    others = [other for other in r.axes if other is not tap]

    def join(a: Expr, b: Expr) -> Expr:
        return loops.bound(loops.combine(r.kind, a, b, target), parts)

    halves = []
    for half in range(2):
        mask = None if left is None else tail_mask(E.const(half * lanes), left * 2, lanes)
        vectorizer = Vectorizer(tap.var, at * 2 + half * lanes, lanes, mask, {**bound, axis.var: E.const(0)})
        values = []
        for places in itertools.product(*(range(other.static or 0) for other in others)):
            known = {other.var: E.const(place) for other, place in zip(others, places, strict=True)}
            values.append(E.broadcast(vectorizer.expr(substitute(r.value, known)), lanes))
        halves.append(loops.bound(reduce(join, values), parts))
    even, odd = (E.call("shuffle", *halves, *(E.const(k) for k in range(first, 2 * lanes, 2)), lanes=lanes) for first in (0, 1))
    return join(even, odd)
