"""The benchmark of quantized models runs all peers on one file."""

from __future__ import annotations

import pytest

from benchmarks import quantized, quantized_layers


@pytest.mark.parametrize("by", ["onnxruntime", "nncf"])
def test_small(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("torch", "onnxruntime", "openvino", *(["nncf"] if by == "nncf" else [])):
        pytest.importorskip(package)
    assert quantized.main(["resnet18", "--small", "--seconds", "0.01", "--by", by]) == 0
    *_, errors, _ = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("resnet18\t")).split("\t")
    assert max(map(float, errors.split())) < 0.1


def test_layers(capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("torch", "onnxruntime"):
        pytest.importorskip(package)
    assert quantized_layers.main(["resnet18", "--small", "--seconds", "0.01"]) == 0
    assert "of 9 layers are slower" in capsys.readouterr().out
    assert quantized_layers.is_slower({"int8": 2.0, "float32": 3.0, "bfloat16": 1.0}, 9.0)
    assert not quantized_layers.is_slower({"int8": 2.0, "float32": 3.0}, 9.0)
