"""``forge compare`` on the command line: its table, JSON and exit status."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.cli import main
from tests.driver.support import DIGITS, pictures

pytestmark = pytest.mark.usefixtures("compile_cache")

TEXT = "def @main(%x: Tensor[(n, 4), float32]) { exp(nn.softmax(multiply(%x, 2f))) }"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    forge.IRModule(TEXT).save(tmp_path / "a.forge")
    forge.IRModule(TEXT.replace("2f", "2.5f")).save(tmp_path / "b.forge")
    np.save(tmp_path / "x.npy", np.arange(12, dtype="f").reshape(3, 4))
    return tmp_path


def test_models_that_agree(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = str(files / "a.forge")
    assert main(["compare", a, a, "--data", str(files / "x.npy")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("a.forge, interpreter -> a.forge, compiled at level 3, 1 sample\n")
    assert "nn.softmax_0" in shown
    assert "3/3" in shown
    assert shown.endswith("no value is below 60 dB\n")


def test_models_that_differ_exit_with_1(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", str(files / "a.forge"), str(files / "b.forge"), "--data", str(files / "x.npy")]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    marked = [line for line in shown.splitlines() if line.endswith("<- first difference")]
    assert len(marked) == 1
    assert "multiply_0" in marked[0]
    assert "the first value below 60 dB is 'multiply_0' (multiply): 12.0 dB" in shown
    assert main([*arguments, "--threshold", "1"]) == 0


def test_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", str(files / "a.forge"), str(files / "b.forge"), "--data", str(files / "x.npy"), "--json"]
    assert main(arguments) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["agrees"], told["divergence"], told["samples"]) == (False, "multiply_0", 1)
    first = told["layers"][0]
    assert (first["name"], first["operator"], first["shape"]) == ("multiply_0", "multiply", [3, 4])
    assert first["sqnr_db"] == pytest.approx(12.04, abs=0.01)
    assert first["max_rel"] == pytest.approx(0.25)


def test_levels_and_ways(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", image=pictures(5))
    model = str(DIGITS / "digits.onnx")
    assert main(["compare", model, model, "--opt-level-a", "0", "--data", str(tmp_path / "x.npz")]) == 0
    assert "compiled at level 0 -> digits.onnx, compiled at level 3" in capsys.readouterr().out
    assert main(["compare", model, "--run-a", "interpreter", "--run-b", "compiled", "--dim", "batch=2"]) == 0
    assert "digits.onnx, interpreter" in capsys.readouterr().out
