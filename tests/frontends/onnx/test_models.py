"""Models as torch exports them: imported cleanly, and equal to onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forge.frontends.onnx import import_model
from forge.ir import interp
from tests.frontends.onnx.support import onnxruntime_outputs

pytest.importorskip("torch")
import onnx

from benchmarks import models

TOLERANCE = 1e-4
SHAPE_ARITHMETIC = {"shape_of", "concatenate", "ndarray_size"}


def check(path: Path, name: str, batch: int, length: int | None) -> None:
    feeds = models.inputs(name, batch, small=True, length=length)
    module = import_model(path)
    names = [v.name for v in module.main.inputs]
    assert set(names) == set(feeds)
    got = interp.run_module(module, feeds)
    expected = onnxruntime_outputs(onnx.load(path), *(feeds[n] for n in names))
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert np.abs(ours - theirs).max() <= TOLERANCE * np.abs(theirs).max()


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("name", list(models.MODELS))
def test_static_export(name: str, exporter: models.Exporter) -> None:
    check(models.build(name, small=True, exporter=exporter), name, 1, None)


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("name", list(models.MODELS))
def test_symbolic_export(name: str, exporter: models.Exporter) -> None:
    path = models.build(name, dynamic=True, small=True, exporter=exporter)
    length = 5 if "length" in models.MODELS[name].symbolic else None
    check(path, name, 3, length)
    check(path, name, 1, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_no_shape_arithmetic_is_left(name: str) -> None:
    module = import_model(models.build(name, small=True))
    left = [n.op for n in module.main.nodes if n.op in SHAPE_ARITHMETIC and all(v.dtype == "int64" for v in n.results)]
    assert left == []
