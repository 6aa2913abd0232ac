"""The bandwidth benchmark, on the smallest size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import operators

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")


def test_rows_agree_and_are_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "samples.json"
    assert operators.main(["--operators", "relu,concat", "--sizes", "small", "--rounds", "1", "--json", str(file)]) == 0
    records = json.loads(file.read_text())
    assert [(r["operator"], r["bytes"]) for r in records] == [("relu", 2 * 4 * 4096), ("concat", 4 * 4 * 4096)]
    assert {len(samples) for r in records for samples in r["seconds"].values()} == {1}
    assert "forge GB/s" in capsys.readouterr().out.replace("\n", " ")


def test_the_ratio_is_to_the_faster_peer() -> None:
    seconds = {"forge": 3.0, "torch": 2.0, "onnxruntime": 4.0, "memcpy": 1.0}
    latencies = {name: operators.Latencies((s,)) for name, s in seconds.items()}
    row = operators.Row("relu", "small", 1, 6_000_000_000, latencies, True)
    assert (row.ratio, row.bandwidth("forge")) == (1.5, 2)


def test_every_operator_has_a_name_of_its_own() -> None:
    names = [operator.name for operator in operators.OPERATORS]
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_all_operators_agree_with_their_peers() -> None:
    assert operators.main(["--sizes", "small", "--rounds", "1", "--threads", "2"]) == 0
