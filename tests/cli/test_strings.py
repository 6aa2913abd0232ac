"""``forge run`` on tensors of strings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.cli import main
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import TensorType


@pytest.fixture(scope="module")
def doubling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact that writes every string of a vector of two twice."""
    builder = Builder()
    x = builder.input(TensorType((2,), "string"), "x")
    graph = builder.output(builder.call("string.concat", x, x))
    path = tmp_path_factory.mktemp("doubling") / "build"
    forge.IRModule(Module(graph)).compile(output_path=path)
    return path


def test_run_shows_and_writes_text(doubling: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "in.npz", x=np.array(["é", "ab"]))
    arguments = ["run", str(doubling), "-i", str(tmp_path / "in.npz")]
    assert main([*arguments, "-o", str(tmp_path / "out.npz")]) == 0
    assert "string   'abab'" in capsys.readouterr().out
    with np.load(tmp_path / "out.npz", allow_pickle=False) as stored:
        assert [a.tolist() for a in stored.values()] == [["éé", "abab"]]
    assert main([*arguments, "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["dtype"], shown["minimum"], shown["mean"]) == ("string", "'abab'", None)


def test_refuses_to_drop_zero_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = Builder()
    x = builder.input(TensorType((1,), "string"), "x")
    zero = builder.constant(np.array(["\0"], dtype=object))
    forge.IRModule(Module(builder.output(builder.call("string.concat", x, zero)))).compile(output_path=tmp_path / "build")
    np.save(tmp_path / "in.npy", np.array(["a"]))
    assert main(["run", str(tmp_path / "build"), "-i", str(tmp_path / "in.npy"), "-o", str(tmp_path / "out.npz")]) == 1
    assert "ends with a zero character, which .npz cannot keep" in capsys.readouterr().err
    assert not (tmp_path / "out.npz").exists()
