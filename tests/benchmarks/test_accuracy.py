"""Measuring errors in units in the last place."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import accuracy


def errors_of(x: list[float], actual: list[float], truth: list[float]) -> accuracy.Errors:
    errors = accuracy.Errors("exp")
    with np.errstate(invalid="ignore"):
        errors.add(np.array(x, np.float32), np.array(actual, np.float32), np.array(truth, np.float64))
    return errors


@pytest.mark.parametrize(("value", "expected"), [(1.0, 2**-23), (1.5, 2**-23), (2.0, 2**-22), (0.75, 2**-24), (1e-45, 2.0**-149)])
def test_an_ulp_is_the_distance_of_floats(value: float, expected: float) -> None:
    assert accuracy.ulp(np.array([value]))[0] == expected


def test_the_largest_error_and_its_place_are_kept() -> None:
    errors = errors_of([3, 4], [1, 1 + 2**-22], [1, 1])
    assert (errors.largest, errors.at, errors.wrong) == (2, 4, 0)


def test_infinities_and_nan_must_agree() -> None:
    inf, nan = float("inf"), float("nan")
    assert errors_of([0, 0, 0], [inf, -inf, nan], [inf, -inf, nan]).wrong == 0
    assert errors_of([0, 0, 0], [inf, 1, 2], [-inf, inf, nan]).wrong == 3


def test_every_pattern_is_visited_once() -> None:
    patterns = np.concatenate([x.view(np.uint32) for x in accuracy.chunks(1 << 16)])
    assert np.array_equal(patterns, np.arange(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32))


def test_compiled_square_roots_are_correctly_rounded() -> None:
    (errors,) = accuracy.measure(["sqrt"], 1 << 16)
    assert errors.largest <= 0.5
    assert errors.wrong == 0
