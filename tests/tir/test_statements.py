"""Text, interpreter and free names of the loop IR."""

from __future__ import annotations

import numpy as np
import pytest

from forge.tir import expr as tir
from forge.tir import interpret as interp
from forge.tir import stmt, visit
from forge.tir.expr import Buffer, Var
from forge.tir.printer import print_expression, print_function, print_statement

n, i, j = tir.var("n"), tir.var("i"), tir.var("j")
X = Buffer("x", "float32", (n,), writable=False)
Y = Buffer("y", "float32", (n,), alignment=64)


def run(body: stmt.Stmt, count: int = 12) -> list[float]:
    x, y = np.arange(count, dtype=np.float32) - 3, np.full(count, -99, np.float32)
    interp.run(stmt.Function("f", (X, Y), (n,), body), [x, y], [count])
    return y.tolist()


V = Var("float32", 1, "v")


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
