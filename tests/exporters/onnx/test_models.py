"""Networks as torch exports them: imported, exported and run by onnxruntime they give what the original does."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
import onnx

import forge
from benchmarks import models
from tests.exporters.onnx.support import check, onnxruntime_outputs

ROUNDINGS = 32
"""Of sums in another order, in units in the last place of the largest element."""


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", models.MODELS)
def test_network(name: str, dynamic: bool) -> None:
    path = models.build(name, small=True, dynamic=dynamic)
    ir = forge.from_onnx(path)
    model = ir.to_onnx()
    assert model is not None
    check(model)
    assert [i.name for i in model.graph.input] == ir.input_names
    assert [o.name for o in model.graph.output] == ir.output_names
    feeds = models.inputs(name, small=True)
    inputs = [feeds[n] for n in ir.input_names]
    original = onnxruntime_outputs(onnx.load(path), [feeds[i.name] for i in onnx.load(path).graph.input])
    for got, expected in zip(onnxruntime_outputs(model, inputs), original, strict=True):
        assert got.shape == expected.shape and got.dtype == expected.dtype
        assert np.abs(got - expected).max() <= ROUNDINGS * np.finfo(expected.dtype).eps * np.abs(expected).max()
    again = forge.from_onnx(model)
    assert [str(v.type) for v in again.main.outputs] == [str(v.type) for v in ir.main.outputs]
    assert hash(again) == hash(ir)


@pytest.mark.parametrize("name", ["bert", "mlp_sequence"])
def test_other_sizes_of_a_symbolic_network(name: str) -> None:
    path = models.build(name, small=True, dynamic=True)
    ir = forge.from_onnx(path)
    model = ir.to_onnx()
    assert model is not None
    for batch, length in ((1, 3), (3, 7)):
        feeds = models.inputs(name, batch, length=length, small=True)
        original = onnxruntime_outputs(onnx.load(path), [feeds[i.name] for i in onnx.load(path).graph.input])
        got = onnxruntime_outputs(model, [feeds[n] for n in ir.input_names])
        for a, b in zip(got, original, strict=True):
            assert np.abs(a - b).max() <= ROUNDINGS * np.finfo(b.dtype).eps * np.abs(b).max()
