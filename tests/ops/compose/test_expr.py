"""Expressions mean what NumPy means by the same text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forge.compose.expr import Expr, const, op
from forge.errors import InvalidGraphError
from forge.ir import Builder, Module, TensorType
from forge.ir.interp import run_module
from forge.ops.core.composer import Composer

A = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -2.0]], np.float32)
B = np.array([1.0, 2.0, -4.0], np.float32)


def evaluate(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    g = Composer(Builder())
    inputs = [Expr(g, g.builder.input(TensorType(x.shape, str(x.dtype)), f"x{k}")) for k, x in enumerate(arrays)]
    module = Module(g.builder.output(function(*inputs).value))
    return run_module(module, {f"x{k}": x for k, x in enumerate(arrays)})[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: -a,
        lambda a, b: 2 + a, lambda a, b: 2.5 - a, lambda a, b: 3 * a, lambda a, b: 1 / b, lambda a, b: a - 1, lambda a, b: a / 2,
        lambda a, b: b**2, lambda a, b: 2**a, lambda a, b: a @ b, lambda a, b: a @ B, lambda a, b: A @ b, lambda a, b: A * b,
        lambda a, b: a < b, lambda a, b: a <= 0.5, lambda a, b: a > b, lambda a, b: a >= b,
        lambda a, b: const(2.0) * a, lambda a, b: const([1.0, 2.0, 3.0], "float32") * a, lambda a, b: np.float32(2) * a,
    ],
)  # fmt: skip
def test_operators_of_python(function: Callable[..., Any]) -> None:
    expected, got = function(A, B), evaluate(function, A, B)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_operators_by_name() -> None:
    np.testing.assert_allclose(evaluate(lambda a: op.nn.relu(op.exp(a) - 1), A), np.maximum(np.exp(A) - 1, 0), rtol=1e-6)
    got = evaluate(lambda a, b: op.concatenate([a, op.expand_dims(b, axis=0)], axis=0), A, B)
    np.testing.assert_array_equal(got, np.concatenate([A, B[None]]))


def test_numbers_take_the_type_of_the_operand_that_they_fit() -> None:
    np.testing.assert_array_equal(evaluate(lambda a: op.where(a > 0, a, 0.5), A), np.where(A > 0, A, np.float32(0.5)))
    np.testing.assert_array_equal(evaluate(lambda a: op.where(a > 0, 1, 0.5), A), np.where(A > 0, np.float32(1), np.float32(0.5)))
    ints = np.array([1, 2, 3], np.int8)
    assert evaluate(lambda a: a * 2, ints).dtype == np.int8
    assert evaluate(lambda a: op.logical_and(a > 1, True), ints).tolist() == [False, True, True]


def test_several_results_are_a_tuple() -> None:
    assert evaluate(lambda a: op.split(a, indices_or_sections=3, axis=1)[2], A).tolist() == A[:, 2:].tolist()


def test_what_is_known() -> None:
    g = Composer(Builder())
    x = Expr(g, g.builder.input(TensorType((2, 3), "float16"), "x"))
    assert (x.name, x.shape, x.dtype, x.array, repr(x)) == ("x", (2, 3), "float16", None, "<expression x>")
    assert Expr(g, g.constant(A)).array is not None


def test_mistakes() -> None:
    with pytest.raises(InvalidGraphError, match=r"exp: no operand is an expression; expected one; apply others with g.call"):
        op.exp(1.0)
    with pytest.raises(InvalidGraphError, match=r"unknown operator 'nn.rleu'; did you mean nn.relu"):
        evaluate(lambda a: op.nn.rleu(a), A)
    with pytest.raises(InvalidGraphError, match="element types differ"):
        evaluate(lambda a: a + 1.5, np.array([1], np.int8))
    with pytest.raises(InvalidGraphError, match=r"has no truth value before the model runs; use op.where"):
        evaluate(lambda a: a if a > 1 else -a, A)
