"""Rough numbers of steps of loop programs."""

from __future__ import annotations

import math

from forge.tir import expr as tir
from forge.tir import stmt
from forge.tir.expr import Buffer
from forge.tir.steps import steps

ROW, COLUMN, SIZE = tir.var("i"), tir.var("j"), tir.var("n")
STORE = stmt.store(Buffer("y", "float32", ()), ROW, tir.const(1.0, "float32"))


def test_steps_of_loops_multiply() -> None:
    assert steps(STORE) == 1
    assert steps(stmt.loop(ROW, 7, stmt.loop(COLUMN, 3, STORE))) == 21
    assert steps(stmt.seq(STORE, stmt.loop(ROW, 5, STORE, "parallel"), stmt.If(SIZE > 0, STORE, STORE))) == 1 + 1 + 5 + 3


def test_what_is_known_at_run_time_only_has_no_number() -> None:
    assert steps(stmt.loop(ROW, SIZE, STORE)) == math.inf
    assert steps(stmt.loop(ROW, 5, stmt.CallRoutine("forge_string_rank", ()))) == math.inf
    assert steps(stmt.loop(ROW, 0, stmt.loop(COLUMN, SIZE, STORE))) == 0
