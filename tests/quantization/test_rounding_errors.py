"""What rounding loses at each place."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.saved.statistics import Histogram
from forge.quantization.chosen.rounding_errors import rounded_values, rounding_error, weight_errors
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.observed.ranges import AffineCodes
from forge.quantization.places.pairing import pairs_of
from tests.quantization.nets import record, samples


def test_rounding_errors_are_those_of_the_numbers() -> None:
    numbers = np.random.default_rng(0).standard_normal(10000)
    histogram = Histogram().widened(numbers.min(), numbers.max())
    histogram.counts = np.histogram(numbers, histogram.edges)[0]
    codes = AffineCodes("int8", 0.02, 0)
    expected = 10 * np.log10(np.sum(numbers**2) / np.sum((numbers - codes.rounded(numbers)) ** 2))
    assert rounding_error(histogram, codes) == pytest.approx(expected, abs=0.2)


@pytest.mark.parametrize("per_channel", [False, True])
def test_errors_of_weights(per_channel: bool) -> None:
    made = record(per_channel=per_channel)
    pair = pairs_of(made.real, made.module)[0]
    found = weight_errors(pair, QuantizationScheme(per_channel=per_channel))
    weight = pair.weight
    assert found is not None and weight is not None
    expected = []
    for axes in ((1, 2, 3) if per_channel else None, (1, 2, 3)):
        step = np.abs(weight).max(axis=axes, keepdims=True) / 127
        lost = np.rint(weight / step) * step - weight
        expected.append(10 * np.log10(np.square(weight).sum() / np.square(lost).sum()))
    assert (found.sqnr, found.per_channel) == pytest.approx(expected, abs=0.01)
    assert (found.bytes, found.code_bytes) == (4 * weight.size, weight.size + 4 * (8 if per_channel else 1))


def test_values_have_the_numbers_that_calibration_saw() -> None:
    made = record(calib_method="minmax")
    first, *_ = rounded_values(made.real, pairs_of(made.real, made.module), made.scheme)
    x = samples()
    assert (first.label, first.readers, first.saturated, first.choice) == ("x", (0,), 0.0, "whole range: minmax")
    assert (first.low, first.high) == (x.min(), x.max()) and sum(first.counts) == x.size
    codes = AffineCodes(first.dtype, first.scale, first.zero)
    expected = 10 * np.log10(np.square(x).sum() / np.square(codes.rounded(x) - x).sum())
    assert first.sqnr == pytest.approx(expected, abs=0.5) and first.methods["minmax"] == first.sqnr
