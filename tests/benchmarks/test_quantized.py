"""The benchmark of quantised models runs all peers on one file."""

from __future__ import annotations

import pytest

from benchmarks import quantized


@pytest.mark.parametrize("by", ["onnxruntime", "nncf"])
def test_small(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("torch", "onnxruntime", "openvino", *(["nncf"] if by == "nncf" else [])):
        pytest.importorskip(package)
    assert quantized.main(["resnet18", "--small", "--seconds", "0.01", "--by", by]) == 0
    *_, errors, _ = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("resnet18\t")).split("\t")
    assert max(map(float, errors.split())) < 0.1
