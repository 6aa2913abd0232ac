"""Tensor expressions: construction, reads, inlining."""

from __future__ import annotations

import pytest

from forge import dims, te
from forge.tir import expr as E
from forge.tir import tensor as T
from forge.tir.rewrite import substitute


def test_dimensions_become_expressions_of_one_variable_a_symbol() -> None:
    n, m = dims.symbol("n"), dims.symbol("m")
    assert T.dim(n) is T.symbol_var("n")
    assert E.is_const(T.dim(7), 7)
    variables = {T.symbol_var("n"): E.const(10), T.symbol_var("m"): E.const(3)}
    for d in (2 * n * m + 1, dims.ceildiv(n, 4), n % (m + 1), dims.minimum(n, m * m) - n, dims.maximum(m, 5)):
        value = substitute(T.dim(d), variables)
        assert E.is_const(value, dims.evaluate(d, {"n": 10, "m": 3}))


def test_a_read_has_one_index_a_dimension() -> None:
    x = te.placeholder((dims.symbol("n"), 4), "float32", "x")
    read = x[1, E.var("i")]
    assert isinstance(read, E.Read) and read.dtype == "float32" and E.is_const(read.indices[0], 1)
    with pytest.raises(ValueError, match="tensor x: got 1 indices; expected 2"):
        _ = x[0]
    assert te.placeholder((), "int8")[()].dtype == "int8"


def test_compute_checks_its_dtype() -> None:
    x = te.placeholder((4,), "float32")
    y = te.compute((4,), lambda i: x[i] * 2, "y", "float32")
    assert (y.dtype, y.ndim) == ("float32", 1)
    with pytest.raises(TypeError, match="compute y: body has dtype float32; expected int32"):
        te.compute((4,), lambda i: x[i], "y", "int32")


def test_inline_puts_indices_in() -> None:
    x = te.placeholder((4, 5), "float32", "x")
    y = te.compute((5, 4), lambda i, j: x[j, i] + 1.0, "y")
    body = te.inline(y, [E.const(3), E.const(2)])
    (read,) = te.reads(body)
    assert [i.value for i in read.indices] == [2, 3]  # type: ignore[attr-defined]
    for other in (x, te.compute((4,), lambda i: te.reduce("sum", x[i, (k := te.reduce_axis(5)).var], [k]))):
        with pytest.raises(ValueError, match="cannot be inlined"):
            te.inline(other, [E.const(0)])


def test_reads_are_found_inside_indices_and_listed_once() -> None:
    x, index = te.placeholder((4,), "float32", "x"), te.placeholder((4,), "int64", "index")
    inner = index[E.var("i")]
    value = x[inner]
    shared = value + value
    for _ in range(60):
        shared = shared + shared
    assert set(te.reads(shared)) == {value, inner}


def test_substitute_reads_gets_rewritten_indices() -> None:
    x, index = te.placeholder((4,), "float32", "x"), te.placeholder((4,), "int64", "index")
    i = E.var("i")
    replaced = te.substitute_reads(x[index[i]] + 1.0, lambda t, indices: indices[0] * 2 if t is index else None)
    (read,) = te.reads(replaced)
    assert read.tensor is x
    (position,) = read.indices
    assert isinstance(position, E.Binary) and position.op == "mul" and position.a is i


def test_broadcast_read() -> None:
    x = te.placeholder((1, dims.symbol("n")), "float32", "x")
    i, j, k = (E.var(n) for n in "ijk")
    read = te.broadcast_read(x, [i, j, k])
    assert isinstance(read, E.Read)
    assert E.is_const(read.indices[0], 0) and read.indices[1] is k


def test_reduction_over_nothing_is_the_value() -> None:
    x = te.placeholder((), "float32")[()]
    assert te.reduce("sum", x, []) is x


def test_clamp() -> None:
    for index, expected in ((-5, 0), (2, 2), (9, 3)):
        assert E.is_const(te.clamp(E.const(index), E.const(4)), expected)
