"""``forge run`` and ``forge inspect`` on sequences and optionals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.cli import main, structures
from forge.errors import OptionError
from forge.ir.graph import Module
from forge.ir.parser import parse_module

TEXT = """def @main(%s: Sequence[Tensor[(k), float32]], %o: Optional[Tensor[(m), float32]], %x: Tensor[(n), float32]) {
  %longer = sequence_insert(%s, %x, 0i64); %length = sequence_length(%longer); %same = copy(%o); (%longer, %length, %same)
}"""


@pytest.fixture(scope="module")
def inserting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact that inserts an array in front of a sequence, and passes an optional on."""
    path = tmp_path_factory.mktemp("inserting") / "build"
    module: Module = parse_module(TEXT)
    forge.IRModule(module).compile(output_path=path)
    return path


def save(folder: Path, **arrays: list[float]) -> list[str]:
    """Arguments for files of float32 arrays."""
    arguments = []
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", np.array(values, np.float32))
        arguments += ["-i", str(folder / f"{name}.npy")]
    return arguments


def test_run_takes_and_writes_elements(inserting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "in.npz", **{"s[1]": np.float32([3]), "s[0]": np.float32([1, 2]), "x": np.zeros(3, np.float32)})
    out = tmp_path / "out.npz"
    assert main(["run", str(inserting), "-i", str(tmp_path / "in.npz"), "-o", str(out), "--json"]) == 0
    assert [d["name"] for d in json.loads(capsys.readouterr().out)] == ["longer[0]", "longer[1]", "longer[2]", "length"]
    with np.load(out) as arrays:
        assert sorted(arrays) == ["length", "longer[0]", "longer[1]", "longer[2]"]
        assert arrays["longer[1]"].tolist() == [1, 2] and arrays["length"] == 3


def test_run_without_elements(inserting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "in.npz", o=np.float32([7]), x=np.zeros(3, np.float32))
    assert main(["run", str(inserting), "-i", str(tmp_path / "in.npz"), "--json"]) == 0
    assert [d["name"] for d in json.loads(capsys.readouterr().out)] == ["longer[0]", "length", "same"]


def test_inspect_shows_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.forge"
    forge.IRModule(parse_module(TEXT)).save(path)
    assert main(["inspect", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["inputs"][0] == {"name": "s", "shape": [], "dtype": "Sequence[Tensor[(k), float32]]"}
    assert shown["uncompilable"] == []


@pytest.mark.parametrize(("arrays", "message"), [
    ({"s[1]": np.zeros(1)}, r"'s\[0\]' is missing"),
    ({"x[0]": np.zeros(1)}, r"'x\[0\]' is not an input"),
    ({"z": np.zeros(1)}, "'z' is not an input"),
])
def test_wrong_names(arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        structures.gather(arrays, ["s", "x"], ["sequence", "float32"])
