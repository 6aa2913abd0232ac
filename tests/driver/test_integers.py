"""What is told of the layers of quantized models: whether they are computed with integers, and why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import forge
from forge.cli import main
from forge.driver import Compilation, check_options, run_stages
from forge.driver.integers import Layer, Layers
from forge.ir.edits import journal

MODEL = """def @main(%x: Tensor[(3, 8), float32]) {
  %0 = qnn.dequantize(qnn.quantize(%x, 0.02f, 3i8), 0.02f, 3i8);
  %1 = nn.dense(%0, qnn.dequantize(full(1i8, shape=[6, 8]), 0.01f));
  %2 = qnn.dequantize(qnn.quantize(nn.relu(%1), 0.05f, 0i8), 0.05f, 0i8);
  %3 = nn.dense(%2, qnn.dequantize(full(1i8, shape=[4, 6]), full(0.01f, shape=[6]), axis=1));
  %4 = nn.softmax(%3);
  %5 = qnn.dequantize(qnn.quantize(%4, 0.004f, -128i8), 0.004f, -128i8);
  qnn.quantize(nn.log_softmax(tanh(%5)), 0.01f, 127i8)
}"""

REASON = "the weight's scales or zero points are not those of columns of the result"


def told(text: str, **options: object) -> list[Layer]:
    with journal.recorded() as kept:
        layers = Layers(kept)
        run_stages(Compilation(forge.IRModule(text).mod, check_options(**options)), stop_after="merge", observer=layers)
    return layers.found


def test_layers_and_reasons() -> None:
    found = [(layer.operator, layer.reason) for layer in told(MODEL)]
    assert found == [
        ("nn.dense", ""), ("nn.relu", ""), ("nn.dense", REASON),
        ("nn.softmax", "what it reads is not quantized"), ("tanh", "floats are computed from quantized values"),
        ("nn.log_softmax", "what it reads is not quantized"),
    ]


def test_sums_of_integers_are_layers() -> None:
    text = """def @main(%x: Tensor[(3, 8), uint8]) {
      nn.matmul(cast(%x, dtype="int32"), cast(full(1i8, shape=[8, 4]), dtype="int32"))
    }"""
    assert told(text) == [Layer("%2 (nn.matmul)", "nn.matmul")]


def test_layers_that_round_their_data_sum_integers() -> None:
    text = """def @main(%x: Tensor[(3, 1, 8), float32]) {
      %0 = nn.lstm(%x, full(1i8, shape=[1, 16, 8]), full(1i8, shape=[1, 16, 4]), None, None, None, None, None,
                   full(0.01f, shape=[1, 16]), None, full(0.01f, shape=[1, 16]), activations=["sigmoid", "tanh", "tanh"],
                   activation_alpha=[0f, 0f, 0f], activation_beta=[0f, 0f, 0f], dynamic_quantization=True);
      %0.1
    }"""
    assert forge.IRModule(text).is_quantized
    reasons = {layer.operator: layer.reason for layer in told(text)}
    assert reasons["nn.lstm"] == reasons["nn.dense"] == ""


def test_other_models_have_none() -> None:
    assert told("def @main(%x: Tensor[(3, 8), float32]) { nn.softmax(%x) }") == []
    assert told(MODEL, opt_level=1) == []


def test_the_command_prints_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    forge.IRModule(MODEL).save("model.forge")
    assert main(["compile", "model.forge", "--explain"]) == 0
    text = capsys.readouterr().out
    assert "layers of the quantized model" in text and REASON in text
    assert "1 rounding to quantized numbers moved, and may be one step off; --exact leaves them: " in text
    assert main(["compile", "model.forge", "--explain", "--exact", "--json", "-o", "exact"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rules"]["moved"] == []
    assert found["layers"][0] == {"label": "%3 (nn.dense)", "operator": "nn.dense", "reason": ""}
