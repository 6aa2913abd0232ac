"""What sets of layers cost."""

from __future__ import annotations

import pytest

from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.chosen.sensitivity import LayerSensitivity, ranked, sensitivity
from forge.quantization.places.pairing import pairs_of
from forge.quantization.quantize import quantize
from forge.quantization.reports.analysis import analyse
from tests.quantization.nets import NEAR, OPTIONS, SCHEMES, record


@pytest.mark.parametrize("name", SCHEMES)
def test_switches_give_the_model_that_is_quantized_so(name: str) -> None:
    """All switches on give the quantized model, all off the real one."""
    made = record(**SCHEMES[name])
    given = made.real.calibration.samples
    found = sensitivity(made.real, made.module, given, OPTIONS, seconds=60)
    assert found.samples == len(given)
    outputs = analyse(made.real, made.module, given, OPTIONS, layers=False)
    assert found.exclusions[0].sqnr == pytest.approx(outputs.sqnr, abs=NEAR)
    assert found.exclusions[-1].sqnr is not None
    assert found.exclusions[-1].sqnr > 100


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SCHEMES)
def test_a_switch_that_is_off_is_an_exclusion(name: str) -> None:
    """Biases that are corrected would not be: those of later layers make up for this one, too."""
    arguments = {**SCHEMES[name], "bias_correction": False}
    made = record(**arguments)
    given = made.real.calibration.samples
    found = sensitivity(made.real, made.module, given, OPTIONS, seconds=60)
    (worst,) = found.exclusions[1].numbers
    label = pairs_of(made.real, made.module)[worst].name
    other = quantize(made.real, QuantizationScheme.of(**arguments, exclude=label), OPTIONS)
    outputs = analyse(made.real, other.module, given, OPTIONS, layers=False)
    assert found.exclusions[1].sqnr == pytest.approx(outputs.sqnr, abs=NEAR)


def test_sensitivity_stops_in_time_after_one_sample() -> None:
    made = record()
    assert sensitivity(made.real, made.module, made.real.calibration.samples, OPTIONS, seconds=0).samples == 1


def test_layers_are_ranked_by_what_the_outputs_gain() -> None:
    assert ranked([LayerSensitivity(3, 1.0, 20.0), LayerSensitivity(5, 9.0, None), LayerSensitivity(7, 2.0, 30.0)]) == [7, 3, 5]
