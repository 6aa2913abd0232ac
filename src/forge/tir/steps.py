"""How much a loop program does, in rough numbers."""

from __future__ import annotations

import math

from forge.tir import expr as tir
from forge.tir import stmt, visit


def steps(body: stmt.Stmt) -> float:
    """Statements that ``body`` runs at most, a vector counting as one; infinity where that is known only at run time."""
    match body:
        case stmt.For(extent=tir.Const(value=int(extent)), body=inner):
            return extent * steps(inner) if extent else 0
        case stmt.For() | stmt.CallRoutine() | stmt.CallExtern():
            return math.inf
    return 1 + sum(map(steps, visit.inner_statements(body)))
