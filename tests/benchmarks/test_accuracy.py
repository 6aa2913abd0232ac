"""Measuring errors in units in the last place, and holding compiled code to the errors that are documented."""

from __future__ import annotations

import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from benchmarks import accuracy, accuracy_results
from benchmarks.accuracy_results import Errors, bound
from benchmarks.accuracy_table import BY_NAME, FUNCTIONS, PAIRS
from benchmarks.oracle import Oracle

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")

LIMIT = 4.0
"""What the project promises of every function, in ulp."""


def errors_of(x: list[float], actual: list[float], expression: str = "x") -> Errors:
    meter = accuracy.Meter(Oracle.compile(expression, portable=True))
    meter.add(np.array(actual, np.float32), np.array(x, np.float32))
    return meter.errors()


@pytest.mark.parametrize(("value", "expected"), [(1.0, 2**-23), (1.5, 2**-23), (2.0, 2**-22), (0.75, 2**-24), (1e-45, 2.0**-149)])
def test_an_ulp_is_the_distance_of_floats(value: float, expected: float) -> None:
    assert errors_of([value], [value + expected]).largest == 1


def test_the_largest_error_and_its_place_are_kept() -> None:
    found = errors_of([1, 3, 2, 1], [1, 3 + 2**-21, 2, 1 + 2**-23])
    assert (found.largest, found.at, found.wrong, found.mean, found.values) == (2, (3.0,), 0, 0.75, 4)


def test_infinities_and_nan_and_signs_of_zero_must_agree() -> None:
    inf, nan = float("inf"), float("nan")
    assert errors_of([inf, -inf, nan, -0.0, 0.0], [inf, -inf, nan, -0.0, 0.0]).wrong == 0
    found = errors_of([1, inf, -inf, nan, 0.0, -0.0, 1.0], [1, -inf, 3e38, 1, -0.0, 0.0, nan])
    assert (found.wrong, found.at) == (6, (inf,))


def test_every_pattern_is_visited_once() -> None:
    oracle, seen = Oracle.compile("x", portable=True), []
    for first in range(0, accuracy.PATTERNS, accuracy.CHUNK << 12):
        x = np.empty(accuracy.CHUNK, np.float32)
        oracle.patterns(x, first, 1 << 12)
        seen.append(x.view(np.uint32))
    assert np.array_equal(np.concatenate(seen), np.arange(0, 1 << 32, 1 << 12, dtype=np.uint64).astype(np.uint32))


def test_compiled_square_roots_are_correctly_rounded() -> None:
    errors = accuracy.sweep(BY_NAME["sqrt"], 1 << 16)
    assert errors.largest <= 0.5
    assert errors.wrong == 0


def test_narrow_errors_are_in_units_of_the_narrow_type() -> None:
    x = np.array([1.0, 1.0, 2.0**-24])
    got = np.array([1 + 2**-10, 1.0, 0.0])
    found = accuracy._summarized(got, x, x, ml_dtypes.finfo(np.float16), x)
    assert (found.largest, found.wrong) == (1, 0)


def test_what_was_measured_over_more_values_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy_results, "STORE", tmp_path / "accuracy.json")
    more, fewer = Errors(2.0, (1.0,), 0.5, 0, 100), Errors(1.0, (3.0,), 0.5, 0, 10)
    accuracy.store("exp", {"float32": more})
    accuracy.store("exp", {"float32": fewer, "float64": fewer})
    assert accuracy_results.load() == {"exp": {"float32": more, "float64": fewer}}


@pytest.mark.parametrize(("largest", "expected"), [(0.5, 0.5), (0.51, 0.6), (1.9996, 2.0), (2.0001, 2.0), (2.001, 2.1)])
def test_bounds_are_rounded_up(largest: float, expected: float) -> None:
    assert bound(Errors(largest, (0.0,), 0.0, 0, 1)) == expected


def test_every_function_of_the_table_is_measured_and_within_the_limit() -> None:
    stored = accuracy_results.load()
    assert list(stored) == list(BY_NAME)
    for name, types in stored.items():
        assert max(e.largest for e in types.values()) <= LIMIT, name
        assert not any(e.wrong for e in types.values()), name


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [f.name for f in FUNCTIONS])
def test_errors_of_a_sample_are_within_the_documented_bound(name: str) -> None:
    found = accuracy.sweep(BY_NAME[name], 65521)
    assert found.wrong == 0
    assert found.largest <= bound(accuracy_results.load()[name]["float32"]), f"at {found.at}"


@pytest.mark.parametrize("name", [f.name for f in PAIRS])
def test_errors_of_pairs_are_within_the_documented_bound(name: str) -> None:
    found = accuracy.sweep_pairs(BY_NAME[name], 1 << 19)
    assert found.wrong == 0
    assert found.largest <= bound(accuracy_results.load()[name]["float32"]), f"at {found.at}"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm"])
@pytest.mark.parametrize("name", [f.name for f in FUNCTIONS])
def test_errors_of_many_values_at_other_levels(name: str, target: str) -> None:
    found = accuracy.sweep(BY_NAME[name], 1021, target)
    assert found.wrong == 0
    assert found.largest <= bound(accuracy_results.load()[name]["float32"]), f"at {found.at}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_errors_of_float64(name: str) -> None:
    pytest.importorskip("mpmath")
    found = accuracy.sweep_double(BY_NAME[name], "llvm -mcpu=x86-64-v3")
    assert found.wrong == 0
    assert found.largest <= bound(accuracy_results.load()[name]["float64"]), f"at {found.at}"
