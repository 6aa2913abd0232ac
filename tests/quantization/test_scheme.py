"""The arguments of ``quantize``."""

from __future__ import annotations

import pytest

from forge.errors import OptionError
from forge.quantization.chosen.scheme import QuantizationScheme, written


def test_weights_have_the_type_of_data_unless_they_have_their_own() -> None:
    assert QuantizationScheme(activation_dtype="uint8").weights == "uint8"
    assert QuantizationScheme(activation_dtype="uint8", kernel_dtype="int8").weights == "int8"


def test_codes_of_weights_do_not_depend_on_ranges() -> None:
    one = QuantizationScheme()
    assert one.of_weights == QuantizationScheme(calib_method="mse", bias_correction=False, exclude=("a",)).of_weights
    others = [{"per_channel": True}, {"equalize": False}, {"gptq": False}, {"kernel_dtype": "uint8"}]
    assert all(QuantizationScheme.of(**other).of_weights != one.of_weights for other in others)


WRONG = {"per_channel": 1, "calib_method": "best", "symmetric": "yes", "bias_dtype": "int4"}


@pytest.mark.parametrize(("name", "value"), WRONG.items())
def test_bad_arguments_are_named(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"quantize: {name}: got {value!r}; expected one of"):
        QuantizationScheme.of(**{name: value})


def test_exclusions_are_listed() -> None:
    scheme = QuantizationScheme.of(exclude="fc")
    assert scheme.exclude == ("fc",) and scheme.describe()["exclude"] == ["fc"]


def test_arguments_as_they_are_written() -> None:
    assert written("per_channel", True) == "per_channel=True"
    assert written("exclude", ["a b"]) == "exclude=['a b']"
