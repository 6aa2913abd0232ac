"""Vectorised loops, simplification, text and interpreter of the loop IR."""

from __future__ import annotations

import numpy as np
import pytest

from forge.errors import CompileError
from forge.tir import expr as tir
from forge.tir import interp, stmt, visit
from forge.tir.expr import Buffer, Var
from forge.tir.printer import print_expression, print_function, print_statement
from forge.tir.transform import lower_vectorized, simplify

n, i, j = tir.var("n"), tir.var("i"), tir.var("j")
X = Buffer("x", "float32", (n,), writable=False)
Y = Buffer("y", "float32", (n,), alignment=64)


def run(body: stmt.Stmt, count: int = 12) -> list[float]:
    x, y = np.arange(count, dtype=np.float32) - 3, np.full(count, -99, np.float32)
    interp.run(stmt.Function("f", (X, Y), (n,), body), [x, y], [count])
    return y.tolist()


def vectorized(inner: stmt.Stmt, lanes: int = 4) -> stmt.Stmt:
    return stmt.loop(i, n // lanes, stmt.loop(j, lanes, inner, "vectorized"))


V = Var("float32", 1, "v")
POSITION = i * 4 + j

BODIES = {
    "plain": stmt.store(Y, POSITION, tir.load(X, POSITION) * 2.0),
    "strided": stmt.store(Y, j * 3 + i, tir.load(X, POSITION)),
    "let": stmt.seq(stmt.Let(V, tir.load(X, POSITION) + 1.0), stmt.store(Y, POSITION, V * V)),
    "uniform value": stmt.store(Y, POSITION, tir.load(X, i)),
    "branch": stmt.If(tir.load(X, POSITION) > 2.0, stmt.store(Y, POSITION, tir.load(X, POSITION)),
                      stmt.store(Y, POSITION, tir.const(0.0, "float32"))),
    "guarded load": stmt.If(n > POSITION + 1, stmt.store(Y, POSITION, tir.load(X, POSITION + 1))),
    "uniform branch": stmt.If(i.eq(1), stmt.store(Y, POSITION, tir.load(X, POSITION))),
    "nested branches": stmt.If(POSITION > 2, stmt.If(POSITION < 9, stmt.store(Y, POSITION, tir.load(X, POSITION)))),
    "inner loop": stmt.loop(Var(tir.INDEX, 1, "k"), 2, stmt.store(Y, POSITION, tir.load(X, POSITION) + 1.0)),
    "masked store": stmt.Store(Y, POSITION, tir.load(X, POSITION), (j % 2).eq(0)),
}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_vectorised_loops_do_the_same(name: str) -> None:
    body = vectorized(BODIES[name])
    lowered = lower_vectorized(body)
    assert not any(isinstance(s, stmt.For) and s.kind == "vectorized" for s in visit.statements(lowered))
    serial = stmt.loop(i, n // 4, stmt.loop(j, 4, BODIES[name]))
    assert run(lowered) == run(serial)


def test_lanes_cannot_write_one_element() -> None:
    with pytest.raises(CompileError, match="write one element of 'y'"):
        lower_vectorized(vectorized(stmt.store(Y, i, tir.load(X, POSITION))))


def test_bounds_cannot_depend_on_a_lane() -> None:
    k = tir.var("k")
    with pytest.raises(CompileError, match="bounds of the loop over 'k'"):
        lower_vectorized(vectorized(stmt.loop(k, j, stmt.store(Y, POSITION, tir.load(X, POSITION)))))


def test_the_extent_must_be_constant() -> None:
    with pytest.raises(CompileError, match="extent known only at run time"):
        lower_vectorized(stmt.loop(j, n, stmt.store(Y, j, tir.load(X, j)), "vectorized"))


def test_simplify_drops_what_never_runs() -> None:
    keep = stmt.store(Y, i, tir.load(X, i))
    body = stmt.seq(stmt.loop(i, 0, keep), stmt.loop(i, 1, keep, begin=4), stmt.If(tir.const(True, "bool"), stmt.store(
        Y, 1, tir.const(5.0, "float32")), keep), stmt.If(tir.const(False, "bool"), keep))
    assert print_statement(simplify(body)) == "y[4] = x[4]\ny[1] = 5.0\n"
    assert run(simplify(body)) == run(body)


def test_text_of_a_function() -> None:
    acc = Buffer("acc", "float32", (tir.const(2),), scope="local", lanes=4)
    twin = Var("float32", 4, "v")
    line = tir.load(X, tir.ramp(i * 4, 1, 4), tir.compare("lt", tir.ramp(i * 4, 1, 4), tir.broadcast(n, 4)))
    body = stmt.loop(i, n // 4, stmt.seq(
        stmt.Allocate(acc), stmt.Let(V, tir.load(X, i)), stmt.Let(twin, line), stmt.store(acc, 0, twin),
        stmt.If(i > 2, stmt.store(Y, tir.ramp(i * 4, 2, 4), (tir.load(acc, 0) + 1.0) * tir.broadcast(V, 4)),
                stmt.Evaluate(tir.call("exp", V)))), "parallel", grain=8)
    assert print_function(stmt.Function("f", (X, Y), (n,), body)) == """\
func f(x: float32[n, readonly], y: float32[n, align 64]; n) {
  parallel for i in 0 .. n // 4 grain 8 {
    local acc: float32x4[2]
    let v = x[i]
    let v.2 = x[ramp(i * 4, 1, 4) where ramp(i * 4, 1, 4) < broadcast(n, 4)]
    acc[0] = v.2
    if i > 2 {
      y[ramp(i * 4, 2, 4)] = (acc[0] + 1.0) * broadcast(v, 4)
    } else {
      exp(v)
    }
  }
}
"""


def test_text_of_an_entry() -> None:
    address = stmt.Address(("arena", 0), n * 4)
    call = stmt.CallKernel("k", (stmt.Address(("input", 1), tir.const(0)), address), (n,))
    assert print_statement(stmt.seq(call, stmt.Fail(5, "no"))) == "call k(input1, arena+n * 4, n)\nfail 5 'no'\n"


def test_text_of_expressions() -> None:
    x = tir.load(X, 0)
    shown = tir.select(x.eq(0.0), tir.cast(i, "float32"), tir.binary("max", x, 1.0))
    assert print_expression(shown) == "select(x[0] == 0.0, float32(i), max(x[0], 1.0))"
    assert print_expression(tir.const(3, "uint8")) == "uint8(3)"


def test_the_interpreter_checks_bounds() -> None:
    with pytest.raises(IndexError, match=r"x: element 12; expected \[0, 12\)"):
        run(stmt.store(Y, 0, tir.load(X, n)))
    with pytest.raises(IndexError, match="y: element -1"):
        run(stmt.store(Y, -1, tir.const(0.0, "float32")))


def test_the_interpreter_fails_where_the_function_does() -> None:
    with pytest.raises(ValueError, match="too far"):
        run(stmt.Fail(5, "too far"))


def test_free_names() -> None:
    k = tir.var("k")
    local = Buffer("l", "float32", (tir.const(1),), scope="local")
    body = stmt.seq(stmt.Allocate(local), stmt.loop(i, n, stmt.seq(stmt.Let(V, tir.load(X, i + k)), stmt.store(local, 0, V))))
    variables, buffers = visit.free_names(body)
    assert {v.name for v in variables} == {"n", "k"} and buffers == [X]
