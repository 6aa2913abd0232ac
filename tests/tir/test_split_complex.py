"""Complex loop IR and what it is split into compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from forge.errors import CompileError
from forge.tir import expr as tir
from forge.tir import split_complex, stmt, visit
from forge.tir.expr import Buffer, Expr, Var, const
from forge.tir.interpret import run
from forge.tir.stmt import Function


def buffer(name: str, size: int, dtype: str = "complex64") -> Buffer:
    return Buffer(name, dtype, (const(size),))


def split(body: stmt.Stmt, *buffers: Buffer) -> Function:
    """The function without complex numbers, which is checked to have none."""
    result = split_complex.run(Function("f", buffers, (), body))
    assert not any(x.dtype.startswith("complex") for x in visit.expressions(result.body))
    assert not any(b.dtype.startswith("complex") for b in result.buffers)
    return result


def executed(f: Function, *arrays: np.ndarray) -> list[np.ndarray]:
    """Contents of the buffers, given as parts, after a run; complex again."""
    parts = [np.ascontiguousarray(a).view(a.real.dtype).copy() for a in arrays]
    run(f, parts)
    return [p.view(a.dtype) for p, a in zip(parts, arrays, strict=True)]


def numbers(count: int, dtype: type = np.complex64) -> np.ndarray:
    rng = np.random.default_rng(count)
    return (rng.normal(size=count) + 1j * rng.normal(size=count)).astype(dtype)


@pytest.mark.parametrize("lanes", [1, 4, 5])
@pytest.mark.parametrize("stride", [1, 2, -1])
def test_vectors_are_dealt_out_and_put_together(lanes: int, stride: int) -> None:
    a, out = buffer("a", 16), buffer("out", 16)
    index = tir.ramp(const(12 if stride < 0 else 1), const(stride), lanes)
    value = tir.load(a, index) * tir.load(a, index) + tir.const(2 - 1j, "complex64", lanes)
    f = split(stmt.store(out, index, value), a, out)
    given = numbers(16)
    _, result = executed(f, given, np.zeros(16, np.complex64))
    places = [(12 if stride < 0 else 1) + stride * k for k in range(lanes)]
    expected = np.zeros(16, np.complex64)
    expected[places] = given[places] ** 2 + (2 - 1j)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_masked_lanes_touch_nothing() -> None:
    a, out = buffer("a", 6), buffer("out", 6)
    index = tir.ramp(const(0), const(1), 8)
    mask = tir.compare("lt", index, const(6, lanes=8))
    f = split(stmt.store(out, index, tir.load(a, index, mask) + tir.load(a, index, mask), mask), a, out)
    given = numbers(6)
    np.testing.assert_array_equal(executed(f, given, np.zeros(6, np.complex64))[1], given + given)


@pytest.mark.parametrize("local", [False, True])
def test_an_element_may_be_overwritten_by_a_product_with_itself(local: bool) -> None:
    out = buffer("out", 1)
    place = Buffer("place", "complex64", (const(1),), scope="local") if local else out
    zero = const(0)
    steps: list[stmt.Stmt] = [stmt.Allocate(place), stmt.store(place, zero, tir.load(out, zero))] if local else []
    steps.append(stmt.store(place, zero, tir.load(place, zero) * tir.load(place, zero)))
    if local:
        steps.append(stmt.store(out, zero, tir.load(place, zero)))
    given = np.array([2 + 3j], np.complex64)
    np.testing.assert_array_equal(executed(split(stmt.seq(*steps), out), given)[0], given * given)


@pytest.mark.parametrize(("name", "reduction"), [("reduce_add", np.sum), ("reduce_mul", np.prod)])
@pytest.mark.parametrize("lanes", [2, 5, 8])
def test_lanes_are_reduced(name: str, reduction: object, lanes: int) -> None:
    a, out = buffer("a", 8, "complex128"), buffer("out", 1, "complex128")
    vector = tir.load(a, tir.ramp(const(0), const(1), lanes))
    given = numbers(8, np.complex128)
    result = executed(split(stmt.store(out, 0, tir.call(name, vector)), a, out), given, np.zeros(1, np.complex128))[1]
    np.testing.assert_allclose(result[0], reduction(given[:lanes]), rtol=1e-12)  # type: ignore[operator]


def test_variables_shuffles_and_choices_keep_both_parts() -> None:
    a, out = buffer("a", 4), buffer("out", 4)
    index = tir.ramp(const(0), const(1), 4)
    v = Var("complex64", 4, "v")
    turned = tir.call("shuffle", v, v, *(const(k) for k in (3, 2, 1, 0)), lanes=4)
    chosen = tir.select(tir.compare("eq", v, turned), v, tir.negate(turned))
    body = stmt.seq(stmt.Let(v, tir.load(a, index)), stmt.store(out, index, chosen))
    given = numbers(4)
    np.testing.assert_array_equal(executed(split(body, a, out), given, np.zeros(4, np.complex64))[1], -given[::-1])


REFUSED: dict[str, Expr] = {
    "comparison 'lt' of complex numbers": tir.Compare("bool", 1, "lt", const(1, "complex64"), const(2, "complex64")),
    "max of complex numbers": tir.binary("max", const(1, "complex64"), const(2, "complex64")),
    "erf of complex numbers": tir.call("erf", const(1, "complex64")),
    "complex variable 'v' is not bound": Var("complex64", 1, "v"),
    "complex buffer 'b' is neither": tir.load(buffer("b", 1), 0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_complex_numbers_do_not_have_is_refused(message: str) -> None:
    with pytest.raises(CompileError, match=message):
        split_complex.run(Function("f", (), (), stmt.Evaluate(REFUSED[message])))
