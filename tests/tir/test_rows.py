"""Loops that stand for several: the same iterations in the same order, with divisions outside of the inner loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from forge.tir import expr as tir
from forge.tir import interpret as interp
from forge.tir import rows, stmt, visit
from forge.tir.expr import Buffer, Expr

p, i, j, k, n, m, first, end = (tir.var(name) for name in ("p", "i", "j", "k", "n", "m", "first", "end"))
SEEN = Buffer("seen", "int64", (tir.const(64),))
NEXT = Buffer("next", "int64", (tir.const(1),))


def fused(*more: stmt.Stmt) -> stmt.For:
    """Iteration ``p`` of loops over i, j below m, and k below n, which notes what i, j and k are."""
    note = stmt.store(SEEN, tir.load(NEXT, 0), (i * 10 + j) * 10 + k)
    count = stmt.store(NEXT, 0, tir.load(NEXT, 0) + 1)
    quotient = p // n
    lets = stmt.Let(k, p % n), stmt.Let(j, quotient % m), stmt.Let(i, quotient // m)
    loop = stmt.loop(p, n * m * 3, stmt.seq(*lets, *more, note, count), "parallel")
    assert isinstance(loop, stmt.For)
    return loop


def seen(body: stmt.Stmt, **sizes: int) -> list[int]:
    arrays = np.zeros(64, np.int64), np.zeros(1, np.int64)
    scalars = n, m, first, end
    interp.run(stmt.Function("rows", (SEEN, NEXT), scalars, body), arrays, [sizes[v.name] for v in scalars])
    return list(arrays[0][:arrays[1][0]])


@pytest.mark.parametrize(("rows_", "columns"), [(1, 1), (2, 5), (4, 3), (3, 1), (1, 4), (2, 0), (0, 2)])
def test_iterations_keep_their_order(rows_: int, columns: int) -> None:
    body = rows.iterations(fused(), first, end)
    whole = [(a * 10 + b) * 10 + c for a, b, c in itertools.product(range(3), range(rows_), range(columns))]
    for low, high in itertools.combinations_with_replacement(range(len(whole) + 1), 2):
        assert seen(body, n=columns, m=rows_, first=low, end=high) == whole[low:high]


def test_the_inner_loop_divides_nothing() -> None:
    body = rows.iterations(fused(), first, end)
    inner = [s for s in visit.statements(body) if isinstance(s, stmt.For)][-1]
    assert inner.var is k and not _divisions(inner.body)


@pytest.mark.parametrize("more", [stmt.store(SEEN, p, p), stmt.Let(tir.var("t"), p + k)])
def test_a_loop_whose_own_number_is_used_stays_one(more: stmt.Stmt) -> None:
    body = rows.iterations(fused(more), first, end)
    assert isinstance(body, stmt.For) and body.var is p and _divisions(body.body)


def _divisions(body: stmt.Stmt) -> list[Expr]:
    return [x for x in visit.expressions(body) if isinstance(x, tir.Binary) and x.op in ("floordiv", "floormod")]
