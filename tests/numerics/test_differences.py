"""The measure of differences: sums over samples, and special numbers."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from forge.numerics import Difference, difference

A = np.array([[3.0, -4.0], [0.0, 5.0]], np.float32)


def test_the_ratio_of_signal_to_noise_is_in_decibels() -> None:
    found = difference(A, A + np.float32(0.5))
    assert found.sqnr == pytest.approx(10 * math.log10(50 / 1.0))
    assert (found.error, found.relative, found.elements) == (0.5, 0.1, 4)
    assert (found.agreeing, found.rows) == (2, 2)


def test_samples_are_summed() -> None:
    found = Difference()
    found.add(A, A)
    found.add(A[:1], A[:1] + np.float32(1))
    assert found.sqnr == pytest.approx(10 * math.log10(75 / 2))
    assert (found.elements, found.rows) == (6, 3)


def test_the_place_of_the_largest_element_counts_by_row() -> None:
    found = difference(A, A[:, ::-1].copy())
    assert (found.agreeing, found.rows) == (0, 2)


@pytest.mark.parametrize(("expected", "found"), [
    (A, A), (np.array([np.nan, np.inf, -np.inf, 1]), np.array([np.nan, np.inf, -np.inf, 1])),
    (np.zeros((0, 3)), np.zeros((0, 3))), (np.array(["a"], object), np.array(["a"], object)), ([A, [A]], [A, [A]]),
    (None, None), ([], []), (np.array(True), np.array(True)),
    (A.astype(ml_dtypes.bfloat16), A.astype(ml_dtypes.bfloat16)),
])
def test_equal_values(expected: Any, found: Any) -> None:
    assert difference(expected, found).sqnr == math.inf
    assert difference(expected, found).relative == 0


@pytest.mark.parametrize(("expected", "found"), [
    (A, A[:1]), (np.array([1.0]), np.array([np.nan])), (np.array([np.nan]), np.array([1.0])),
    (np.array([np.inf]), np.array([-np.inf])), (np.array(["a"], object), np.array(["b"], object)),
    ([A], [A, A]), ([A], None), (A, [A]), (np.array([1.0]), np.array([np.inf])),
    (np.zeros(3), np.ones(3)),
])
def test_values_that_have_nothing_in_common(expected: Any, found: Any) -> None:
    assert difference(expected, found).sqnr == -math.inf
    assert difference(expected, found).relative == math.inf


def test_complex_numbers_and_integers() -> None:
    assert difference(np.array([3 + 4j]), np.array([3 + 4.5j])).relative == pytest.approx(0.1)
    assert difference(np.array([200], np.uint8), np.array([190], np.uint8)).error == 10
