"""What a quantized model loses, said at once."""

from __future__ import annotations

import pytest

from forge.quantization.reports.analysis import MIN_SQNR
from forge.quantization.reports.check import QuantizationWarning, nothing_text, warn_of_losses, warn_of_nothing
from tests.quantization.nets import record, samples, small_net


def test_reasons_are_listed_up_to_three() -> None:
    assert nothing_text({}).startswith("no layer was quantized: the model has no convolution")
    text = nothing_text({f"layer{k}": "excluded" for k in range(5)})
    assert text.endswith("layer0: excluded; layer1: excluded; layer2: excluded; and 2 more")


def test_a_model_without_quantized_layers_is_named() -> None:
    with pytest.warns(QuantizationWarning, match="no layer was quantized, the model is as it was: "):
        assert warn_of_nothing(record(exclude="*"))
    assert not warn_of_nothing(record())


def test_losses_are_compared_on_samples() -> None:
    ir = small_net()
    made = record(ir)
    found = warn_of_losses(ir.mod, made)
    assert found is not None and found.sqnr is not None and found.sqnr > MIN_SQNR and found.layers == ()
    assert found.samples == len(samples())
    assert warn_of_losses(small_net().mod, made) is None


def test_large_losses_are_said_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge.quantization.reports.analysis.MIN_SQNR", 100.0)
    ir = small_net()
    made = record(ir, bias_correction=False, gptq=False, equalize=False)
    with pytest.warns(QuantizationWarning) as said:
        warn_of_losses(ir.mod, made)
    text = str(said[0].message)
    assert "the layers that lose most: " in text and text.count(" dB alone)") == 3 and "quantize_with_accuracy keeps" in text
