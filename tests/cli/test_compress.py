"""``forge compress``: what it writes and prints, and that nothing is left of what fails."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.cli import main
from tests.driver.support import files, pictures

pytestmark = pytest.mark.usefixtures("here")


def run(line: str) -> int:
    return main(["compress", "model.onnx", *line.split()])


@pytest.mark.parametrize("name", ["small.forge", "small.onnx"])
def test_the_model_is_written_and_near(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"-o {name} --bits 8 --convolutions") == 0
    shown = capsys.readouterr().out
    assert f"wrote {name}" in shown
    load = forge.load if name.endswith(".forge") else forge.from_onnx
    made, real = (m.get_inference_function()(pictures(9)) for m in (load(name), forge.from_onnx("model.onnx")))
    assert np.argmax(made, -1).tolist() == np.argmax(real, -1).tolist()
    assert (here / name).stat().st_size < (here / "model.onnx").stat().st_size / 2


def test_json_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-o out.forge --bits 4 --group -1 --symmetric --exclude nn.conv2d --json") == 0
    content = json.loads(capsys.readouterr().out)
    weights = {weight["label"]: weight for weight in content["weights"]}
    assert content["output"] == "out.forge"
    assert content["bytes_after"] < content["bytes_before"]
    assert {w["reason"] for label, w in weights.items() if "conv2d" in label} == {"excluded"}
    (dense,) = (w for label, w in weights.items() if "dense" in label)
    assert (dense["bits"], dense["scheme"], dense["reason"]) == (4, "rtn", "")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code for x86-64")
def test_samples_run_on_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compress", "model.onnx", "-o", "out.forge", "--data", "x.npy", "--target", "llvm -mcpu=x86-64", "--json"]) == 0
    assert "gptq" in {weight["scheme"] for weight in json.loads(capsys.readouterr().out)["weights"]}
    assert main(["compress", "model.onnx", "-o", "b.forge", "--data", "x.npy", "--target", "llvm -mcpu=none", "--json"]) == 1
    assert "none" in capsys.readouterr().err


WRONG = {
    "-o out.txt": "out.txt: unknown format '.txt'; expected .forge or .onnx",
    "-o none/out.onnx": "there is no folder none",
    "-o model.onnx": "model.onnx: exists; pass --force to replace it",
    "-o out.onnx --data none.npy": "none.npy",
    "-o out.onnx --bits 3": "got 3; expected 2, 4 or 8",
    "-o out.onnx --scheme awq": "'awq' needs samples; got none",
    "-o out.onnx --exclude none": "'none': matches no node",
    "-o out.onnx --size 100": "got 100 bytes; expected at least",
}


@pytest.mark.parametrize("line", WRONG)
def test_errors_leave_nothing(line: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(here)
    assert run(line) == 1
    assert WRONG[line] in capsys.readouterr().err
    assert files(here) == before
