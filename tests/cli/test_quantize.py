"""``forge quantize``: what it writes and prints, and that nothing is left of what fails."""

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
    return main(["quantize", "model.onnx", *line.split()])


@pytest.mark.parametrize("name", ["int8.forge", "int8.onnx"])
def test_the_model_is_written_and_near(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"--data x.npy -o {name}") == 0
    shown = capsys.readouterr().out
    assert "(nn.conv2d)" in shown
    assert "output logits: " in shown
    assert f"wrote {name}" in shown
    load = forge.load if name.endswith(".forge") else forge.from_onnx
    made, real = (m.get_inference_function()(pictures(9)) for m in (load(name), forge.from_onnx("model.onnx")))
    assert np.argmax(made, -1).tolist() == np.argmax(real, -1).tolist()
    assert name.endswith(".forge") or (here / name).stat().st_size < 40_000


def test_json_and_exclusions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--data x.npy --per-channel --calib-method mse --exclude nn.dense --exclude %1 --json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["scheme"]["per_channel"] is True
    assert content["scheme"]["calib_method"] == "mse"
    assert {layer["operator"] for layer in content["layers"]} == {"nn.conv2d"}
    assert "%1" not in {layer["name"] for layer in content["layers"]}
    assert content["written"] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", [".html", ".json"])
def test_reports(ending: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"--data x.npy --report report{ending} --seconds 1") == 0
    assert "as quantized" in capsys.readouterr().out
    assert (here / f"report{ending}").stat().st_size > 1000


def test_suggestions_are_options_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--data x.npy --report r.json --seconds 2") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("suggestion: ")]
    assert lines
    for line in lines:
        options = line.removeprefix("suggestion: ").partition(": ")[0]
        assert run(f"--data x.npy {options} --json") == 0, options
        assert json.loads(capsys.readouterr().out)["layers"], "some layer is quantized"


def test_nothing_to_quantize_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--data x.npy --exclude nn.*") == 0
    assert "warning: no layer was quantized, the model is as it was: " in capsys.readouterr().out


def test_values_say_what_was_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--data x.npy --calib-method percentile --no-calib-guard --json") == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values
    assert all(v["choice"].startswith(("cut to [", "whole range: percentile cuts nothing")) for v in values)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code for x86-64")
def test_a_target_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", "model.onnx", "--data", "x.npy", "--target", "llvm -mcpu=x86-64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cpu"].startswith("x86-64")


WRONG = {
    "--data none.npy": "none.npy: no such file",
    "--data x.npy -o out.txt": "out.txt: unknown format '.txt'; expected one of .onnx, .forge, .relay",
    "--data x.npy --report out.pdf": "out.pdf: unknown format '.pdf'; expected one of .html, .json",
    "--data x.npy -o none/out.onnx": "there is no folder none",
    "--data x.npy -o model.onnx": "model.onnx: exists; pass --force to replace it",
    "--data wrong.npy -o out.onnx": "input 'image'",
    "--data x.npy -o out.onnx --report r.html --calib-method best": "calib_method: got 'best'",
    "--data x.npy -o out.onnx --report r.html --exclude none": "'none': matches no node",
}


@pytest.mark.parametrize("line", WRONG)
def test_errors_leave_nothing(line: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(here / "wrong.npy", np.zeros((2, 3), np.float32))
    before = files(here)
    assert run(line) == 1
    assert WRONG[line] in capsys.readouterr().err
    assert files(here) == before


def test_a_model_that_cannot_be_written_leaves_no_report(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(forge.IRModule, "to_onnx", fail)
    before = files(here)
    assert run("--data x.npy -o out.onnx --report report.html --seconds 0.1") == 1
    assert "the disk is full" in capsys.readouterr().err
    assert files(here) == before
