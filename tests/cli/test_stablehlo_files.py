"""The verbs take files of StableHLO, without jax."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import forge
from forge.cli import main

DATA = Path(__file__).parent.parent / "frontends" / "stablehlo" / "data"
MODEL = """func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.tanh %x : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
"""


@pytest.fixture(autouse=True)
def _models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(MODEL)
    shutil.copy(DATA / "many_results.jaxexport", "exported.bin")
    custom_call = "stablehlo.custom_call @acme.f(%x) : (tensor<?x3xf32>) ->"
    Path("custom.mlir").write_text(MODEL.replace("stablehlo.tanh %x :", custom_call))


@pytest.mark.parametrize("line", [
    "inspect model.mlir", "support model.mlir", "support custom.mlir", "view model.mlir", "view exported.bin",
    "inspect exported.bin", "compile model.mlir -o build",
])  # fmt: skip
def test_verbs_take_files(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 0
    shown = capsys.readouterr()
    assert shown.out
    assert not shown.err


def test_a_size_is_fixed() -> None:
    assert main("compile model.mlir -o build --shape x=2,".split()) == 0
    assert forge.Runtime("build").input_shapes == [(2, 3)]


@pytest.mark.parametrize("line, message", [
    ("compile model.mlir -o build --shape y=2,3", "model.mlir: --shape names 'y'; expected an input: x"),
    ("compile model.mlir -o build --shape x=2,4", "model.mlir: input 'x', axis 1: --shape gives 4; the model declares 3"),
    ("compile custom.mlir -o build", "custom_call.acme.f: 1x, first at node"),
])  # fmt: skip
def test_errors(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) != 0
    assert message in capsys.readouterr().err
