"""Distributions: moments and ranges of many numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import distributions
from forge.ops.core.composer import Composer
from tests.ops.compose.support import run

COUNT = (200, 100)


@pytest.mark.parametrize(
    ("draw", "mean", "deviation"),
    [
        (lambda g: distributions.uniform(g, COUNT, low=2, high=4, seed=1), 3, 12**-0.5 * 2),
        (lambda g: distributions.normal(g, -1.0, 2.0, COUNT, "float64", seed=2), -1, 2),
        (lambda g: distributions.integers(g, 3, 8, COUNT, "int32", seed=3), 5, 2**0.5),
        (lambda g: distributions.exponential(g, 4.0, COUNT, seed=4), 0.25, 0.25),
        (lambda g: distributions.geometric(g, 0.25, COUNT, seed=5), 4, 12**0.5),
    ],
)
def test_moments(draw: Any, mean: float, deviation: float) -> None:
    (found,) = run(lambda g, _: draw(g), np.zeros(1, np.float32))
    assert found.shape == COUNT
    assert abs(found.mean() - mean) < 0.03 * deviation + 0.01 * abs(mean)
    assert abs(found.std() - deviation) < 0.03 * deviation


def test_parts_of_complex_numbers_are_independent() -> None:
    (found,) = run(lambda g, _: distributions.standard_normal(g, COUNT, "complex64", seed=6), np.zeros(1, np.float32))
    assert abs((found.real * found.imag).mean()) < 0.02
    assert abs((found.real**2 + found.imag**2).mean() - 1) < 0.03


def test_cauchy_has_its_quartiles() -> None:
    (found,) = run(lambda g, _: distributions.cauchy(g, 1.0, 2.0, COUNT, seed=7), np.zeros(1, np.float32))
    np.testing.assert_allclose(np.quantile(found, [0.25, 0.5, 0.75]), [-1, 1, 3], atol=0.1)


@pytest.mark.parametrize("replace", [False, True])
def test_choices_of_classes(replace: bool) -> None:
    weights = np.array([[1, 0, 3], [2, 2, 0]], np.float32)

    def choose(g: Composer, v: Any) -> Any:
        return distributions.multinomial(g, v, 2, replace=replace, seed=8)

    (found,) = run(choose, weights)
    assert all(weights[row, c] > 0 for row in (0, 1) for c in found[row])
    assert replace or all(len(set(row)) == 2 for row in found.tolist())


def test_a_permutation_has_each_number_once() -> None:
    (found,) = run(lambda g, _: distributions.permutation(g, 50, seed=9), np.zeros(1, np.float32))
    assert sorted(found) == list(range(50)) != list(found)
