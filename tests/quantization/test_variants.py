"""Other ways to quantize a model, tried."""

from __future__ import annotations

import numpy as np
import pytest

from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.chosen.sensitivity import Exclusion
from forge.quantization.chosen.variants import ModelVariant, Proposal, Trials, candidates, marked_best
from forge.quantization.reports.analysis import analyse
from tests.quantization.nets import OPTIONS, record


def test_the_best_variants_are_beaten_by_none() -> None:
    def variant(sqnr: float, size: int, seconds: float) -> ModelVariant:
        return ModelVariant("", {}, (), 1, sqnr, None, size, seconds)

    found = marked_best([variant(30, 10, 1), variant(20, 10, 1), variant(20, 5, 2), variant(40, 20, 3), variant(30, 10, 1)])
    assert [v.is_best for v in found] == [True, False, True, True, True]


def test_candidates_differ_from_what_was_done() -> None:
    exclusions = [Exclusion(tuple(range(k + 1)), None, None) for k in range(4)]
    for scheme in (QuantizationScheme(), QuantizationScheme(per_channel=True, calib_method="mse", kernel_dtype="int8")):
        found = list(candidates(scheme, exclusions, layers=8))
        assert len({c.title(dict(enumerate("abcdefgh"))) for c in found}) == len(found)
        assert all(c.excluded or any(getattr(scheme, k) != v for k, v in c.changes.items()) for c in found)
        assert {len(c.excluded) for c in found} == {0, 1, 2, 4}


def test_a_variant_is_what_quantize_makes_so() -> None:
    made = record(per_channel=False)
    samples = made.real.calibration.samples
    trials = Trials(made, samples)
    trials.run(iter([Proposal({"per_channel": True}), Proposal({}, (0,))]), np.inf, lambda phase, done, total: None)
    *real, chosen, channels, without = trials.variants
    assert [v.title for v in (chosen, channels, without)] == ["as quantized", "per_channel=True", "exclude=['conv0']"]
    assert [v.layers for v in trials.variants] == [0] * len(real) + [3, 3, 2]
    assert real[0].sqnr is not None and real[0].sqnr > 120 and real[0].bytes > chosen.bytes
    expected = record(per_channel=True)
    sqnr = analyse(expected.before, expected.module, samples, OPTIONS, layers=False).sqnr
    assert channels.sqnr == pytest.approx(sqnr, abs=1e-3)
    timed = trials.timed(0.01)
    assert all(v.seconds > 0 for v in timed) and any(v.is_best for v in timed)
