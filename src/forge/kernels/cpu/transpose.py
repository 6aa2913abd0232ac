"""Transposition in registers."""

from __future__ import annotations

from collections.abc import Callable

from forge import loops
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Stmt, seq


def transpose_square(lanes: int, read: Callable[[int], Expr], write: Callable[[int, Expr], Stmt]) -> Stmt:
    """Transposes ``lanes`` vectors of ``lanes``: element j of ``read(i)`` becomes element i of what ``write(j, ...)`` gets.

    In log2(lanes) rounds, each of which swaps the off-diagonal halves of all squares of one size.
    """
    body: list[Stmt] = []

    def keep(name: str, value: Expr) -> Expr:
        lets, variable = loops.bind(name, value)
        body.extend(lets)
        return variable

    rows = [keep(f"s{i}", read(i)) for i in range(lanes)]
    half = lanes // 2
    while half:
        left = [j if not j & half else lanes + j - half for j in range(lanes)]
        right = [j + half if not j & half else lanes + j for j in range(lanes)]
        for i in range(lanes):
            if not i & half:
                upper, lower = rows[i], rows[i + half]
                rows[i] = keep(f"t{half}_{i}", _shuffle(upper, lower, left))
                rows[i + half] = keep(f"t{half}_{i + half}", _shuffle(upper, lower, right))
        half //= 2
    return seq(body, (write(i, row) for i, row in enumerate(rows)))


def _shuffle(a: Expr, b: Expr, picked: list[int]) -> Expr:
    return E.call("shuffle", a, b, *(E.const(p) for p in picked), lanes=len(picked))
