"""Index algebra: canonical forms, divisions, ranges."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from forge.schedule.algebra import ONE, ZERO, Algebra, number
from forge.tir import expr as E
from forge.tir.expr import Expr, Var


def algebra(**extents: int | str) -> tuple[Algebra, dict[str, Var]]:
    """Loop variables by name; an extent that is a string is a size of that name."""
    known = Algebra()
    names: dict[str, Var] = {}
    for extent in extents.values():
        if isinstance(extent, str):
            names.setdefault(extent, E.var(extent))
    for name, extent in extents.items():
        names[name] = E.var(name)
        known.declare(names[name], names[extent] if isinstance(extent, str) else E.const(extent))
    return known, names


def test_terms_are_collected() -> None:
    a, v = algebra(i=4, j=5)
    assert a.poly(v["i"] * 5 + v["j"] - v["i"] * 4 - v["j"]) == a.poly(v["i"])
    assert a.poly((v["i"] + 1) * (v["j"] - 2)) == a.poly(v["i"] * v["j"] - v["i"] * 2 + v["j"] - 2)


Form = Callable[[Expr, Expr], Expr]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (lambda i, j: (i * 10 + j) // 10, lambda i, j: i),
        (lambda i, j: (i * 10 + j) % 10, lambda i, j: j),
        (lambda i, j: j // 10, lambda i, j: E.const(0)),
        (lambda i, j: (i * 20 + j * 2) // 4, lambda i, j: i * 5 + j // 2),
        (lambda i, j: (i * 10 + j) // 20, lambda i, j: i // 2),
        (lambda i, j: (i // 2) // 3, lambda i, j: i // 6),
        (lambda i, j: (i // 4) * 4 + i % 4, lambda i, j: i),
        (lambda i, j: (j * 4) // 2, lambda i, j: j * 2),
    ],
)
def test_divisions_by_numbers(form: Form, expected: Form) -> None:
    a, v = algebra(i=24, j=10)
    assert a.poly(form(v["i"], v["j"])) == a.poly(expected(v["i"], v["j"]))


def test_divisions_by_sizes() -> None:
    a, v = algebra(i="n", j="m")
    flat = v["i"] * v["m"] + v["j"]
    assert a.poly(flat // v["m"]) == a.poly(v["i"])
    assert a.poly(flat % v["m"]) == a.poly(v["j"])
    assert a.poly(flat // (v["n"] * v["m"])) == ZERO
    assert a.poly(v["j"] // v["n"]) != ZERO


def test_clamps_that_do_nothing_vanish() -> None:
    a, v = algebra(i=8, j="m")
    assert a.poly(_clamp(v["i"], E.const(8))) == a.poly(v["i"])
    assert a.poly(_clamp(v["j"], v["m"])) == a.poly(v["j"])
    assert a.poly(_clamp(v["i"] + 1, E.const(8))) != a.poly(v["i"] + 1)


def test_steps_along_a_variable() -> None:
    a, v = algebra(i="n", j=16)
    index = a.poly(v["i"] * v["n"] * 3 + v["j"] + v["j"] // 4)
    assert a.coefficient(index, v["i"]) == a.poly(v["n"] * 3)
    assert a.coefficient(index, v["j"]) is None
    assert a.coefficient(a.poly(v["j"] + 7), v["j"]) == ONE
    assert a.coefficient(number(3), v["j"]) == ZERO


def test_a_data_dependent_index_is_opaque() -> None:
    a, v = algebra(i=4, j=4)
    table = E.Buffer("table", "int64", (E.const(4),))
    index = a.poly(E.load(table, v["i"]) * 8 + v["j"])
    assert a.coefficient(index, v["i"]) is None
    assert a.coefficient(index, v["j"]) == ONE


@pytest.mark.parametrize(
    "form",
    [
        lambda i, j: (i * 10 + j) // 7,
        lambda i, j: (i - 3) // 5,
        lambda i, j: i // 5 * 5,
        lambda i, j: E.binary("min", i, 12),
    ],
)
def test_what_is_not_proven_is_kept(form: Form) -> None:
    a, v = algebra(i=24, j=10)
    x = form(v["i"], v["j"])
    assert _value(a.expr(a.poly(x)), {v["i"]: 13, v["j"]: 4}) == _value(x, {v["i"]: 13, v["j"]: 4})


def test_random_expressions_keep_their_value() -> None:
    rng = random.Random(7)
    for _ in range(300):
        a, v = algebra(i=rng.randint(1, 30), j=rng.randint(1, 30), k=rng.randint(1, 5))
        x = _random(rng, list(v.values()), 4)
        simple = a.expr(a.poly(x))
        for _ in range(5):
            point = {v[n]: rng.randrange(a.extents[v[n]].constant or 1) for n in "ijk"}
            assert _value(simple, point) == _value(x, point)


def _clamp(x: Expr, extent: Expr) -> Expr:
    return E.binary("max", E.binary("min", x, extent - 1), E.const(0))


def _random(rng: random.Random, variables: list[Var], depth: int) -> Expr:
    if depth == 0:
        return rng.choice([*variables, E.const(rng.randint(0, 40))])
    op = rng.choice(["add", "mul", "sub", "floordiv", "floormod", "min", "max"])
    a = _random(rng, variables, depth - 1)
    b = E.const(rng.randint(1, 24)) if op in ("floordiv", "floormod", "mul") else _random(rng, variables, depth - 1)
    return E.binary(op, a, b)


def _value(x: Expr, point: dict[Var, int]) -> int:
    match x:
        case E.Const(value=value):
            return int(value)  # type: ignore[arg-type]
        case E.Var():
            return point[x]
        case E.Binary(op=op, a=a, b=b):
            p, q = _value(a, point), _value(b, point)
            forms = {
                "add": p + q,
                "sub": p - q,
                "mul": p * q,
                "floordiv": p // q if q else 0,
                "floormod": p % q if q else 0,
                "min": min(p, q),
                "max": max(p, q),
            }
            return forms[op]
    raise AssertionError(type(x).__name__)
