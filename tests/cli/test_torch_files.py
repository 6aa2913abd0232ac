"""The verbs take ``.pt2`` files, without torch."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.cli import main
from tests.frontends.torch.archives import NETWORK


@pytest.fixture(autouse=True)
def _model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(NETWORK, "model.pt2")
    np.save("x.npy", np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))


@pytest.mark.parametrize("line", [
    "inspect model.pt2", "inspect model.pt2 --text", "support torch", "support torch add.Tensor", "support model.pt2",
    "bench model.pt2 --rounds 1 --dim x_dim0=2", "profile model.pt2 --rounds 1", "view model.pt2", "tune model.pt2 --seconds 1",
    "export model.pt2 model.onnx", "export model.pt2 model.forge", "run model.pt2 -i x.npy",
])  # fmt: skip
def test_verbs_take_files(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 0
    shown = capsys.readouterr()
    assert shown.out
    assert not shown.err


def test_a_compiled_file_computes_what_the_module_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "model.pt2", "-o", "build"]) == 0
    assert main(["run", "build", "-i", "x.npy", "-o", "y.npz"]) == 0
    x = np.load("x.npy")
    expected = np.maximum(x @ (np.arange(12, dtype=np.float32).reshape(3, 4) / 4).T, 0)
    with np.load("y.npz") as outputs:
        np.testing.assert_allclose(outputs["y"], expected + 1, rtol=1e-6)
        np.testing.assert_allclose(outputs["first"], expected[:, :2] * 2, rtol=1e-6)


def test_support_tells_lines_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["support", "model.pt2", "linear.default", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {
        "domain": "", "op": "linear.default", "opset": 0, "how": "converter", "count": 1,
        "first_node": "linear, network.py:24: y = linear(x, self.weight)",
    }  # fmt: skip


@pytest.mark.parametrize("line, message", [
    ("inspect model.pt2 --shape x=2,4", "model.pt2 has its shapes; expected a file of ONNX or StableHLO"),
    ("bench model.pt2 --vs onnxruntime", "reads ONNX files; got model.pt2"),
    ("inspect nowhere.pt2", "nowhere.pt2: no such file"),
    ("support nowhere.pt2", "nowhere.pt2: no such file"),
    ("support torch frobnicate", "no operator is called 'frobnicate'"),
    ("inspect short.pt2", "short.pt2: has no end of a zip archive"),
])  # fmt: skip
def test_errors(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("short.pt2").write_bytes(NETWORK.read_bytes()[:5000])
    assert main(line.split()) == 1
    assert message in capsys.readouterr().err


def test_beside_torch(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert main(["bench", "model.pt2", "--vs", "torch", "--rounds", "1", "--json"]) == 0
    assert "torch" in json.loads(capsys.readouterr().out)["latencies_ms"]


def test_from_torch_reads_files_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for path in ("model.pt2", Path("model.pt2")):
        assert forge.from_torch(path).output_names == ["y", "first"]
