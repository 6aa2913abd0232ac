"""The comparer of outputs rejects planted wrong answers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from forge import peers

LIMIT = 1e-4


@pytest.fixture
def expected() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)


def test_rounding_is_accepted(expected: NDArray[np.float32]) -> None:
    assert peers.disagreement([expected], [expected]) == 0.0
    assert 0.0 < peers.disagreement([expected * (1 + np.float32(1e-6))], [expected]) < LIMIT


def test_wrong_answers_are_rejected(expected: NDArray[np.float32]) -> None:
    wrong = {
        "1 % off": expected * np.float32(1.01),
        "rows swapped": expected[::-1],
        "relu left on": np.maximum(expected, 0),
        "one element": np.where(np.arange(40) == 7, expected + np.float32(0.01), expected),
        "not a number": np.where(np.arange(40) == 7, np.nan, expected),
        "infinite": np.where(np.arange(40) == 7, np.inf, expected),
        "wrong shape": expected.T,
        "all zero": np.zeros_like(expected),
    }
    accepted = [name for name, answer in wrong.items() if peers.disagreement([answer], [expected]) <= LIMIT]
    assert not accepted


def test_the_worst_output_counts(expected: NDArray[np.float32]) -> None:
    assert peers.disagreement([expected, expected + 1], [expected, expected]) > LIMIT
    assert peers.disagreement([expected], [expected, expected]) == float("inf")


def test_integers_do_not_wrap() -> None:
    assert peers.disagreement([np.array([0], np.uint8)], [np.array([1], np.uint8)]) == 1.0


def test_empty_outputs_agree() -> None:
    assert peers.disagreement([np.zeros((0, 3))], [np.zeros((0, 3))]) == 0.0
