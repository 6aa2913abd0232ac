"""The comparer rejects answers that are wrong in the ways compilers go wrong, and accepts honest rounding."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dtypes
from forge.ir.op import Accuracy
from tests.ops.compare import check, mismatch, tolerance

RNG = np.random.default_rng(1)
X = RNG.normal(size=(6, 8)).astype(np.float32)
W = RNG.normal(size=(8, 8)).astype(np.float32)
BIAS = RNG.normal(size=8).astype(np.float32)
RIGHT = np.maximum(X @ W + BIAS, 0)
FLOATING = (Accuracy.ROUNDING, Accuracy.ACCUMULATING)

WRONG = {
    "one per cent off": RIGHT * np.float32(1.01),
    "a tenth of a per cent off": RIGHT * np.float32(1.001),
    "no epilogue": X @ W + BIAS,
    "no bias": np.maximum(X @ W, 0),
    "swapped axes": np.maximum(X @ W.T + BIAS, 0),
    "one element": np.where(np.arange(48).reshape(6, 8) == 17, RIGHT + np.float32(1e-3), RIGHT),
    "last column dropped": np.where(np.arange(8) == 7, 0, RIGHT).astype(np.float32),
    "zeros": np.zeros_like(RIGHT),
    "a NaN": np.where(RIGHT.max() == RIGHT, np.float32("nan"), RIGHT),
    "an infinity": np.where(RIGHT.max() == RIGHT, np.float32("inf"), RIGHT),
}


@pytest.mark.parametrize("accuracy", FLOATING)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_rejected(name: str, accuracy: Accuracy) -> None:
    assert mismatch(WRONG[name], RIGHT, accuracy) is not None


@pytest.mark.parametrize(("dtype", "factor"), [("float64", 1.0001), ("float32", 1.0001), ("float16", 1.01), ("bfloat16", 1.1)])
def test_scaled_answers_are_rejected_in_every_type(dtype: str, factor: float) -> None:
    expected = X.astype(dtypes.numpy_dtype(dtype))
    actual = (expected.astype(np.float64) * factor).astype(expected.dtype)
    assert mismatch(actual, expected, Accuracy.ROUNDING) is not None


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_one_unit_in_the_last_place_is_accepted(dtype: str) -> None:
    expected = X.astype(dtypes.numpy_dtype(dtype))
    bits = expected.view(f"u{expected.itemsize}")
    assert mismatch((bits + 1).view(expected.dtype), expected, Accuracy.ROUNDING) is None


def test_another_order_of_summation_is_accepted_where_sums_accumulate() -> None:
    terms = RNG.normal(size=(5, 1000)).astype(np.float32)
    backwards = np.add.accumulate(terms[:, ::-1], axis=1, dtype=np.float32)[:, -1]
    check(backwards, terms.astype(np.float64).sum(1).astype(np.float32), Accuracy.ACCUMULATING)


def test_exact_results_are_equal_bit_for_bit() -> None:
    assert mismatch(np.nextafter(X, np.float32(9)), X, Accuracy.EXACT) is not None
    assert mismatch(X.copy(), X, Accuracy.EXACT) is None


@pytest.mark.parametrize("accuracy", [Accuracy.EXACT, *FLOATING])
def test_integers_are_always_exact(accuracy: Accuracy) -> None:
    values = np.arange(10)
    assert mismatch(values + (values == 3), values, accuracy) is not None
    assert tolerance(accuracy, "int64") == (0, 0)


def test_nan_and_infinity_agree_with_themselves_only() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    assert mismatch(special.copy(), special, Accuracy.ROUNDING) is None
    assert mismatch(special[[0, 2, 1, 3]], special, Accuracy.ROUNDING) is not None
    assert mismatch(special[[3, 1, 2, 0]], special, Accuracy.ROUNDING) is not None


def test_shape_and_dtype_belong_to_the_answer() -> None:
    assert "shape" in str(mismatch(X[None], X, Accuracy.ROUNDING))
    assert "dtype" in str(mismatch(X.astype(np.float64), X, Accuracy.ROUNDING))


def test_large_elements_excuse_small_ones_unless_each_stands_alone() -> None:
    expected = np.array([1e30, 1.0, 1e-45], np.float32)
    wrong = np.array([1e30, 2.0, 1e-45], np.float32)
    assert mismatch(wrong, expected, Accuracy.ROUNDING) is None
    assert mismatch(wrong, expected, Accuracy.ROUNDING, alone=True) is not None
    assert mismatch(np.array([1e30, 1.0, 3e-45], np.float32), expected, Accuracy.ROUNDING, alone=True) is None
    assert mismatch(np.array([1e30, 1.0, 3e-45], np.float32), expected, Accuracy.EXACT, alone=True) is not None


def test_the_message_names_the_first_wrong_element() -> None:
    wrong = X.copy()
    wrong[2, 3] = 99
    with pytest.raises(AssertionError, match=r"conv: 1 of 48 elements differ; at \(2, 3\)"):
        check(wrong, X, Accuracy.ROUNDING, "conv")
