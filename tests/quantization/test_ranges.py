"""Ranges that follow from statistics, next to searches by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.saved.statistics import Histogram, Statistics
from forge.quantization.observed import ranges
from forge.quantization.observed.ranges import AffineCodes, RealRange, choice_of, codes_of


def statistics(numbers: np.ndarray) -> Statistics:
    histogram = Histogram().widened(float(min(numbers.min(), 0)), float(max(numbers.max(), 0)))
    histogram.counts = np.histogram(numbers, histogram.edges)[0].astype(np.int64)
    low, high = float(numbers.min()), float(numbers.max())
    return Statistics(-1, 2, low, high, 1.6 * low, 1.6 * high, histogram)


RNG = np.random.default_rng(0)
CASES = {
    "normal": RNG.standard_normal(20000), "one side": np.maximum(RNG.standard_normal(20000), 0),
    "long tail": RNG.standard_t(3, 20000), "outlier": np.append(RNG.standard_normal(20000), 200.0), "constant": np.full(100, 3.0),
    "zeros": np.zeros(50), "negative": -np.abs(RNG.standard_normal(5000)),
}


def squared(numbers: np.ndarray, found: RealRange) -> float:
    low, high = min(found.low, 0), max(found.high, 0)
    scale = max((high - low) / 255, 1e-20)
    return float(np.square(np.rint(np.clip(numbers, low, high) / scale) * scale - numbers).sum())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ranges.METHODS)
def test_no_cut_loses_more_than_it_gains(case: str, method: str) -> None:
    numbers = CASES[case]
    found = choice_of(statistics(numbers), method).range
    assert numbers.min() - 1e-6 <= found.low <= found.high <= numbers.max() + 1e-6
    assert squared(numbers, found) <= 1.1 * squared(numbers, RealRange(numbers.min(), numbers.max())) + 1e-9


@pytest.mark.parametrize("case", ["normal", "one side", "long tail", "outlier", "negative"])
def test_without_a_guard_methods_do_what_their_names_say(case: str) -> None:
    numbers, known = CASES[case], statistics(CASES[case])
    assert choice_of(known, "minmax", guard=False).range == RealRange(numbers.min(), numbers.max())
    average = choice_of(known, "average", guard=False).range
    assert (average.low, average.high) == pytest.approx((0.8 * numbers.min(), 0.8 * numbers.max())), "means of the two calls"
    inside = choice_of(known, "percentile", guard=False).range
    assert np.mean((numbers >= inside.low) & (numbers <= inside.high)) == pytest.approx(0.99, abs=0.003)
    entropy = choice_of(known, "entropy", guard=False).range
    assert np.abs([entropy.low, entropy.high]).max() < np.abs(numbers).max()
    assert len({(r.low, r.high) for r in (average, inside, entropy)}) == 3


def test_the_guard_says_why_a_range_stays_whole() -> None:
    known = statistics(CASES["normal"])
    kept, cut = (choice_of(known, "percentile", guard) for guard in (True, False))
    assert kept.range == RealRange(known.low, known.high) and kept.cut == cut.range == cut.cut
    assert kept.outside == pytest.approx(0.01, abs=0.002)
    assert kept.gain == cut.gain < 0
    assert str(kept).startswith("whole range: the cut would lose more than it gains (a cut to [")
    assert str(cut).startswith("cut to [")
    assert str(choice_of(known, "minmax")) == "whole range: minmax"


def test_least_squared_error_is_the_least() -> None:
    for case in ("normal", "long tail", "outlier"):
        numbers = CASES[case]
        most = np.abs(numbers).max()
        cuts = (RealRange(max(numbers.min(), -t), min(numbers.max(), t)) for t in most * np.linspace(0.05, 1, 400))
        assert squared(numbers, choice_of(statistics(numbers), "mse").range) <= 1.05 * min(squared(numbers, cut) for cut in cuts)


def test_entropy_tries_every_threshold() -> None:
    counts = np.histogram(np.abs(CASES["long tail"]), 600)[0].astype(np.float64)
    tried = [ranges.divergence(counts, bins, 128) for bins in range(128, 601)]
    assert np.argmin(tried) < 472, "a cut is better"
    real, kept = np.array([4, 2, 10]) / 16, np.array([4, 2, 2]) / 8
    expected = float(np.sum(real * np.log(real / kept)))
    assert ranges.divergence(np.array([4.0, 0, 2, 2, 8]), 4, 2) == pytest.approx(expected), "the last bin counts all beyond it"


@pytest.mark.parametrize(("found", "dtype", "symmetric", "expected"), [
    (RealRange(-1.0, 0.9), "int8", None, AffineCodes("int8", 1 / 127, 0)),
    (RealRange(0.0, 2.55), "int8", None, AffineCodes("int8", 0.01, -128)),
    (RealRange(-2.55, 0.0), "int8", None, AffineCodes("int8", 0.01, 127)),
    (RealRange(0.0, 1.27), "int8", True, AffineCodes("int8", 0.01, 0)),
    (RealRange(0.0, 2.55), "uint8", None, AffineCodes("uint8", 0.01, 0)),
    (RealRange(-1.0, 1.55), "uint8", None, AffineCodes("uint8", 0.01, 100)),
    (RealRange(-1.27, 0.5), "uint8", True, AffineCodes("uint8", 0.01, 128)),
    (RealRange(0.5, 2.55), "uint8", True, AffineCodes("uint8", 0.01, 0)),
])
def test_codes(found: RealRange, dtype: str, symmetric: bool | None, expected: AffineCodes) -> None:
    made = codes_of(found, dtype, symmetric)
    assert (made.dtype, made.zero) == (expected.dtype, expected.zero)
    assert made.scale == pytest.approx(expected.scale, rel=1e-5)
    assert made.rounded(np.zeros(1))[0] == 0
