"""The comparison runs, and its tables say what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

from benchmarks import compare
from forge.cli.latency import Latencies

PEERS = "onnxruntime,openvino,torch"


@pytest.fixture
def results() -> dict[str, list[compare.Result]]:
    return {
        "one": [
            compare.Result("forge", 1.5, Latencies((0.002, 0.001)), 1e-6),
            compare.Result("torch", 0.5, Latencies((0.004, 0.002)), 1e-6),
        ],
        "two": [
            compare.Result("forge", failure="conv: not there"),
            compare.Result("torch", 0.5, Latencies((0.004,)), 1e-6),
        ],
    }


def test_peers_agree_on_a_small_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = tmp_path / "samples.json"
    arguments = ["--models", "mlp,lstm", "--libraries", PEERS, "--small", "--rounds", "2", "--json", str(samples)]
    assert compare.main(arguments) == 0
    printed = capsys.readouterr().out
    rows = json.loads(samples.read_text())
    assert [(row["model"], row["library"]) for row in rows] == [
        (model, library) for model in ("mlp", "lstm") for library in PEERS.split(",")
    ]
    for row in rows:
        assert row["library"] in printed
        assert len(row["samples"]) == 2
        assert row["error"] < 1e-5


def test_table_shows_ratios_and_failures(results: dict[str, list[compare.Result]]) -> None:
    console = Console(width=120, record=True, file=None, quiet=False, force_terminal=False)
    console.print(compare.table(results, "title"))
    text = console.export_text()
    assert "0.50" in text
    assert "conv: not there" in text


def test_geometric_mean_leaves_failures_out(results: dict[str, list[compare.Result]]) -> None:
    assert compare.geometric_means(results) == {"torch": pytest.approx(0.5)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "resnet19"], "model resnet19 unknown; expected of: resnet18"),
        (["--libraries", "tvm"], "library tvm unknown; expected of: forge"),
        (["--threads", "0"], "--threads: got 0; expected 1 to"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compare.main(arguments)
    assert message in capsys.readouterr().err
