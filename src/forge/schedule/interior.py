"""The part of a vector loop in which comparisons of its variable with constants hold: there they cost nothing.

``for i in 1026: A[i] = select(1 <= i <= 1024, B[i - 1] where .., 0)``  -->  the first and the last vector as written,
and between them ``A[i] = B[i - 1]``.
"""

from __future__ import annotations

from dataclasses import dataclass

from forge.loops import Loop
from forge.schedule.blocks import difference
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.rewrite import Rewriter, map_expressions
from forge.tir.stmt import Stmt
from forge.tir.visit import nodes, roots


@dataclass(frozen=True)
class Interior:
    """``body`` for the whole vectors of the axis in ``range(begin, end)``."""

    begin: int
    end: int
    body: Stmt


def interior(body: Stmt, axis: Loop, lanes: int) -> Interior | None:
    """The interior of a loop over ``axis`` in vectors; None where it is not at least two vectors, or no comparison is saved."""
    if axis.static is None:
        return None
    held: dict[Expr, tuple[int, int]] = {}
    for x in {x for root in roots(body) for x in nodes(root)}:
        bounds = _bounds(x, axis, axis.static)
        if bounds is not None:
            held[x] = bounds
    begin = max((low for low, _ in held.values()), default=0)
    end = min((high for _, high in held.values()), default=0)
    begin, end = -(-begin // lanes) * lanes, end // lanes * lanes
    if end - begin < 2 * lanes:
        return None
    true = E.const(True, "bool")
    return Interior(begin, end, map_expressions(body, Rewriter(lambda x: true if x in held else None)))


def _bounds(x: Expr, axis: Loop, extent: int) -> tuple[int, int] | None:
    """The range of the axis in which comparison ``x`` holds, where it depends on nothing else."""
    terms = difference(x)
    if terms is None:
        return None
    step, start = terms.pop(axis.var, 0), terms.pop(None, 0)
    if step == 0 or any(terms.values()):
        return None
    if step > 0:
        return max(0, -(start // step)), extent
    return 0, min(extent, start // -step + 1)
