"""Forms of loops cover their range once, whatever its size; accumulators reduce."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from forge import loops
from forge.kernels.cpu.micro import OuterProduct
from forge.loops import Accumulators, RegisterTile
from forge.loops.dots import Group
from forge.target import Target
from forge.tir import expr as E
from forge.tir import interpret as interp
from forge.tir import stmt as S
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Stmt

N = E.var("n")
Y = Buffer("y", "int64", (N,))
MOST = 40


def count(index: Expr, mask: Expr | None = None) -> Stmt:
    """One more visit of the elements at ``index``."""
    return S.store(Y, index, E.load(Y, index, mask) + 1, mask)


FORMS: dict[str, Callable[[Expr], Stmt]] = {
    "serial": lambda n: loops.serial("i", n, count),
    "parallel": lambda n: loops.parallel(n, 1, count),
    "unroll_by": lambda n: loops.unroll_by("i", n, 4, count),
    "unroll_by of multiples": lambda n: loops.unroll_by(
        "i", n * 4, 4, lambda i: loops.guard((i % 4).eq(0), count(i // 4))),
    "each_vector": lambda n: loops.each_vector(n, 8, count),
    "vectors of one lane": lambda n: loops.each_vector(n, 1, count),
    "vector_loop": lambda n: loops.vector_loop(n, 8, lambda at, lanes, mask: count(E.ramp(at, 1, lanes), mask), unroll=2),
    "without masks": lambda n: loops.vector_loop(n, 8, lambda at, lanes, _: count(E.ramp(at, 1, lanes)), masked=False),
    "nest": lambda n: loops.nest([axis := loops.Loop(E.var("i"), n)], count(axis.var)),
    "parallel_nest": lambda n: loops.parallel_nest([axis := loops.Loop(E.var("i"), n)], count(axis.var), E.const(1 << 20)),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("extent", [0, 1, 3, 8, 19, 32])
def test_every_element_is_visited_once(form: str, extent: int, known: bool) -> None:
    visits = np.zeros(MOST, np.int64)
    body = FORMS[form](E.const(extent) if known else N)
    interp.run(S.Function("f", (Y,), (N,), body), [visits], [extent])
    np.testing.assert_array_equal(visits, [1] * extent + [0] * (MOST - extent))


def test_constant_conditions_leave_no_branch() -> None:
    then, otherwise = count(E.const(0)), count(E.const(1))
    assert loops.guard(E.const(True, "bool"), then, otherwise) is then
    assert loops.guard(E.const(False, "bool"), then, otherwise) is otherwise
    assert loops.guard(E.const(False, "bool"), then) is not then


@pytest.mark.parametrize("kind, value", [("sum", 36.0), ("max", 8.0), ("min", 1.0), ("prod", 40320.0)])
def test_accumulators_reduce_slots_and_lanes(kind: str, value: float) -> None:
    x, y = Buffer("x", "float32", (E.const(8),), writable=False), Buffer("y", "float32", (E.const(1),))
    acc = Accumulators(RegisterTile(1, 2, 4, "float32"), kind, Target.parse("llvm"))
    steps = (acc.step(v, E.load(x, E.ramp(4 * v, 1, 4))) for v in range(2))
    result = np.zeros(1, np.float32)
    interp.run(S.Function("f", (x, y), (), S.seq(acc.start(), steps, S.store(y, 0, acc.total()))),
               [np.arange(1, 9, dtype=np.float32), result])
    assert result[0] == value


def test_masked_lanes_do_not_count() -> None:
    y = Buffer("y", "float32", (E.const(1),))
    acc = Accumulators(RegisterTile(1, 1, 4, "float32"), "prod")
    step = acc.step(0, E.const(5.0, "float32", 4), loops.tail_mask(E.const(0), E.const(3), 4))
    result = np.zeros(1, np.float32)
    interp.run(S.Function("f", (y,), (), S.seq(acc.start(), step, S.store(y, 0, acc.total()))), [result])
    assert result[0] == 125


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("lanes", [16, 32, 64])
@pytest.mark.parametrize("left", [-300, -1, 0, 1, 31, 64, 127, 128, 256, 300])
def test_a_tail_of_any_length(left: int, lanes: int, known: bool) -> None:
    """Also where it is more than an int8 holds."""
    y = Buffer("y", "int64", (E.const(64),))
    mask = loops.tail_mask(E.const(7), (E.const(left) if known else N) + 7, lanes)
    result = np.zeros(64, np.int64)
    interp.run(S.Function("f", (y,), (N,), S.store(y, E.ramp(0, 1, lanes), E.const(1, "int64", lanes), mask)), [result], [left])
    assert result.tolist() == [int(lane < min(left, lanes)) for lane in range(64)]


def test_an_outer_product_is_added() -> None:
    y = Buffer("y", "float32", (E.const(8),))
    acc = Accumulators(RegisterTile(2, 1, 4, "float32"))
    micro = OuterProduct(Group(1, "float32"))
    update = micro.step(acc, lambda row: E.cast(row, "float32") + 2.0, lambda _: E.const(3.0, "float32", 4))
    write = acc.each(lambda row, v: S.store(y, E.ramp(row * 4, 1, 4), acc.get(row, v)))
    result = np.zeros(8, np.float32)
    interp.run(S.Function("f", (y,), (), S.seq(acc.start(), update, update, write)), [result])
    assert result.tolist() == [12.0] * 4 + [18.0] * 4
