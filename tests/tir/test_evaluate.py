"""The NumPy evaluator of tensor expressions, which judges all lowerings."""

from __future__ import annotations

import numpy as np
import pytest

from forge import te
from forge.tir.evaluate import evaluate

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def placeholder(array: np.ndarray, dtype: str = "float32") -> te.Tensor:
    return te.placeholder(array.shape, dtype)


def test_elementwise_and_movement() -> None:
    x = placeholder(X)
    doubled = te.compute((4, 3), lambda i, j: x[j, i] * 2.0)
    np.testing.assert_array_equal(evaluate(doubled, {x: X}), X.T * 2)


def test_reductions_of_every_kind() -> None:
    x = placeholder(X)
    r = te.reduce_axis(4)
    for kind, expected in {"sum": X.sum(1), "prod": X.prod(1), "max": X.max(1), "min": X.min(1)}.items():
        result = te.compute((3,), lambda i, kind=kind: te.reduce(kind, x[i, r.var], [r]))
        np.testing.assert_array_equal(evaluate(result, {x: X}), expected)
    for kind, expected in {"and": (X > 2).all(1), "or": (X > 10).any(1)}.items():
        bound = 2.0 if kind == "and" else 10.0
        result = te.compute((3,), lambda i, kind=kind, bound=bound: te.reduce(kind, x[i, r.var] > bound, [r]))
        np.testing.assert_array_equal(evaluate(result, {x: X}), expected)


def test_stages_read_each_other() -> None:
    x = placeholder(X)
    r = te.reduce_axis(4)
    total = te.compute((3,), lambda i: te.reduce("sum", x[i, r.var], [r]))
    share = te.compute((3, 4), lambda i, j: x[i, j] / total[i])
    np.testing.assert_allclose(evaluate(share, {x: X}), X / X.sum(1, keepdims=True))


def test_symbols_are_sizes_and_values() -> None:
    x = te.placeholder((te.symbol_var("n"), te.const(4)), "float32")
    shifted = te.compute(x.shape, lambda i, j: x[te.symbol_var("n") - 1 - i, j])
    np.testing.assert_array_equal(evaluate(shifted, {x: X}, {"n": 3}), X[::-1])


def test_a_read_out_of_bounds_is_an_error_even_where_it_is_discarded() -> None:
    x = placeholder(X)
    wrong = te.compute((3, 4), lambda i, j: te.select(j > 0, x[i, j - 1], te.const(0.0, "float32")))
    with pytest.raises(IndexError, match=r"read of x: axis 1: got an index in \[-1, 2\]; expected \[0, 4\)"):
        evaluate(wrong, {x: X})


def test_a_placeholder_without_contents_is_named() -> None:
    with pytest.raises(KeyError, match="placeholder x has no value"):
        evaluate(te.compute((3, 4), lambda i, j: placeholder(X)[i, j]), {})


@pytest.mark.parametrize(("op", "a", "b", "expected"), [
    ("truncdiv", -7, 2, -3), ("truncdiv", 7, -2, -3), ("truncdiv", -6, 2, -3), ("truncdiv", 5, 0, 0),
    ("truncdiv", -(2**31), -1, -(2**31)),
    ("truncmod", -7, 2, -1), ("truncmod", 5, 0, 0), ("floordiv", -7, 2, -4), ("floordiv", 5, 0, 0), ("floormod", -7, 2, 1),
    ("floormod", 5, 0, 0), ("shl", 1, 31, -(2**31)), ("shl", 1, 32, 0), ("shr", -8, 1, -4), ("shr", -8, 40, -1),
    ("shr", 8, 40, 0),
    ("min", 3, -2, -2), ("max", 3, -2, 3), ("add", 2**31 - 1, 1, -(2**31)), ("xor", 6, 3, 5),
])
def test_integer_corner_cases(op: str, a: int, b: int, expected: int) -> None:
    x, y = (te.placeholder((), "int32", name) for name in "xy")
    result = te.compute((), lambda: te.binary(op, x[()], y[()]))
    assert int(evaluate(result, {x: np.int32(a).reshape(()), y: np.int32(b).reshape(())})) == expected


@pytest.mark.parametrize(("value", "dtype", "expected"), [
    (3e9, "int32", 2**31 - 1), (-3e9, "int32", -(2**31)), (float("nan"), "int32", 0), (-1.5, "uint8", 0), (300.0, "uint8", 255),
    (-1.9, "int32", -1), (float("inf"), "int64", 2**63 - 1),
])
def test_float_to_integer_saturates(value: float, dtype: str, expected: int) -> None:
    x = te.placeholder((), "float32")
    assert int(evaluate(te.compute((), lambda: te.cast(x[()], dtype)), {x: np.array(value, np.float32)})) == expected


def test_narrow_floats_are_computed_in_float32() -> None:
    x = te.placeholder((1,), "float16")
    value = np.array([60000], np.float16)
    halved = te.compute((1,), lambda i: te.call("sqrt", x[i]))
    assert evaluate(halved, {x: value}).dtype == np.float16


def test_an_empty_reduction_gives_the_neutral_element() -> None:
    x = te.placeholder((2, 0), "float32")
    r = te.reduce_axis(0)
    for kind, expected in {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}.items():
        result = te.compute((2,), lambda i, kind=kind: te.reduce(kind, x[i, r.var], [r]))
        np.testing.assert_array_equal(evaluate(result, {x: np.zeros((2, 0), np.float32)}), np.full(2, expected, np.float32))
