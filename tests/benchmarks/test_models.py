"""The benchmark models: exports agree with torch, and outputs depend on the input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")

from benchmarks import models  # noqa: E402

EXPORTERS = ("dynamo", "torchscript")
SYMBOLIC_PAIRS = [name for name, model in models.MODELS.items() if model.symbolic == ("batch", "length")]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def run_torch(name: str, feed: models.Inputs, *, small: bool) -> list[NDArray[Any]]:
    with torch.no_grad():
        outputs = models.network(name, small=small)(*(torch.from_numpy(array) for array in feed.values()))
    return [output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]


def run_onnx(path: Path, feed: models.Inputs) -> list[NDArray[Any]]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    outputs: list[NDArray[Any]] = session.run(None, feed)
    return outputs


def assert_agree(found: list[NDArray[Any]], expected: list[NDArray[Any]]) -> None:
    assert [array.shape for array in found] == [array.shape for array in expected]
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one - other).max() <= 2e-5 * np.abs(other).max()


def assert_moved(before: list[NDArray[Any]], after: list[NDArray[Any]]) -> None:
    for one, other in zip(before, after, strict=True):
        assert np.isfinite(one).all()
        assert np.abs(one - other).max() >= 0.1 * np.ptp(one) > 0


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", models.MODELS)
def test_static_export_agrees_with_torch(name: str, exporter: models.Exporter) -> None:
    feed = models.inputs(name, small=True)
    assert_agree(run_onnx(models.build(name, small=True, exporter=exporter), feed), run_torch(name, feed, small=True))


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", models.MODELS)
def test_symbolic_export_takes_any_batch(name: str, exporter: models.Exporter) -> None:
    path = models.build(name, dynamic=True, small=True, exporter=exporter)
    for batch in (1, 3):
        feed = models.inputs(name, batch, small=True)
        assert_agree(run_onnx(path, feed), run_torch(name, feed, small=True))


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", SYMBOLIC_PAIRS)
def test_symbolic_export_takes_any_length(name: str, exporter: models.Exporter) -> None:
    path = models.build(name, dynamic=True, small=True, exporter=exporter)
    for length in (1, 5, 23):
        feed = models.inputs(name, 2, length=length, small=True)
        assert_agree(run_onnx(path, feed), run_torch(name, feed, small=True))


@pytest.mark.parametrize("name", models.MODELS)
def test_small_output_depends_on_input(name: str) -> None:
    first, second = (run_torch(name, models.inputs(name, seed=seed, small=True), small=True) for seed in (0, 1))
    assert_moved(first, second)


@pytest.mark.slow
@pytest.mark.parametrize("name", models.MODELS)
def test_full_output_depends_on_input(name: str) -> None:
    network = models.network(name)
    outputs = []
    for seed in (0, 1):
        with torch.no_grad():
            made = network(*(torch.from_numpy(array) for array in models.inputs(name, seed=seed).values()))
        outputs.append([output.numpy() for output in (made if isinstance(made, tuple) else (made,))])
    assert_moved(*outputs)


def test_mask_of_bert_matters() -> None:
    feed = models.inputs("bert", small=True)
    assert 0 < feed["attention_mask"].mean() < 1
    everything = feed | {"attention_mask": np.ones_like(feed["attention_mask"])}
    assert_moved(run_torch("bert", feed, small=True), run_torch("bert", everything, small=True))


def test_masked_tokens_do_not_reach_visible_ones() -> None:
    feed = models.inputs("bert", small=True)
    hidden = feed["attention_mask"] == 0
    changed = feed | {"input_ids": np.where(hidden, (feed["input_ids"] + 1) % 97, feed["input_ids"])}
    before, after = (run_torch("bert", one, small=True)[0] for one in (feed, changed))
    assert np.array_equal(before[~hidden], after[~hidden])
    assert not np.array_equal(before[hidden], after[hidden])


def test_gpt2_is_causal() -> None:
    feed = models.inputs("gpt2", small=True)
    changed = feed["input_ids"].copy()
    changed[:, -1] = (changed[:, -1] + 1) % 97
    before, after = (run_torch("gpt2", {"input_ids": ids}, small=True)[0] for ids in (feed["input_ids"], changed))
    assert np.allclose(before[:, :-1], after[:, :-1], atol=1e-4)
    assert not np.allclose(before[:, -1], after[:, -1], atol=1e-1)


def test_inputs_repeat_and_differ_by_seed() -> None:
    first, again, other = (models.inputs("bert", seed=seed)["input_ids"] for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_build_keeps_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path))
    path = models.build("mlp", small=True, exporter="torchscript")
    written = path.stat().st_mtime_ns
    assert models.build("mlp", small=True, exporter="torchscript").stat().st_mtime_ns == written
    assert list(tmp_path.iterdir()) == [path]
