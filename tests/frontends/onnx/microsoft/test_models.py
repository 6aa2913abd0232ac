"""Networks as onnxruntime's optimizers and quantizers write them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer

from benchmarks import models
from forge.driver import compile_module
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import DOMAIN, HAS_VNNI
from tests.frontends.onnx.support import onnxruntime_outputs

pytestmark = pytest.mark.slow

TOLERANCE = 1e-5
NETWORKS = ("bert", "minilm", "gpt2", "llama_prefill", "llama_decode", "vit", "speech", "resnet18", "mobilenetv3", "yolo", "mlp")
TRANSFORMERS = (
    ("bert", "bert", 2), ("minilm", "bert", 2), ("gpt2", "gpt2", 0), ("llama_prefill", "gpt2", 0), ("llama_decode", "gpt2", 0),
)


def check(name: str, proto: onnx.ModelProto) -> set[str]:
    """Compares compiled code with onnxruntime on the same file; the operators of com.microsoft in it."""
    feeds = models.inputs(name, 1, small=True)
    module = import_model(proto)
    inputs = [feeds[v.name] for v in module.main.inputs]
    expected = onnxruntime_outputs(proto, *(feeds[i.name] for i in proto.graph.input))
    found = compile_module(module, use_cache=False).runtime().run(inputs)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert np.abs(ours - theirs).max() <= TOLERANCE * np.abs(theirs).max()
    return {node.op_type for node in proto.graph.node if node.domain == DOMAIN}


def extended(path: Path, folder: Path) -> onnx.ModelProto:
    """What onnxruntime makes of a model, saved."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "extended.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("name", NETWORKS)
def test_extended(name: str, exporter: models.Exporter, tmp_path: Path) -> None:
    assert check(name, extended(models.build(name, small=True, exporter=exporter), tmp_path))


@pytest.mark.parametrize(("name", "kind", "heads"), TRANSFORMERS)
def test_transformers(name: str, kind: str, heads: int) -> None:
    path = models.build(name, small=True, exporter="torchscript")
    proto = optimizer.optimize_model(str(path), kind, num_heads=heads, hidden_size=32 if heads else 0, opt_level=0).model
    found = check(name, proto)
    assert found & {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}
    assert ("Attention" in found) == (heads > 0)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama_decode", "resnet18"])
@pytest.mark.parametrize("is_extended", [False, True])
def test_dynamically_quantized(name: str, is_extended: bool, tmp_path: Path) -> None:
    path = tmp_path / "quantized.onnx"
    source = shutil.copy(models.build(name, small=True, exporter="torchscript"), tmp_path)  # it writes files next to it
    quantization.quantize_dynamic(source, str(path), reduce_range=not HAS_VNNI)
    check(name, extended(path, tmp_path) if is_extended else onnx.load(path))


class _Calibration(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, name: str) -> None:
        self.samples = iter([models.inputs(name, 1, small=True)])

    def get_next(self) -> models.Inputs | None:
        return next(self.samples, None)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama_decode", "resnet18", "mobilenetv3", "yolo"])
def test_statically_quantized(name: str, tmp_path: Path) -> None:
    path, operators = tmp_path / "quantized.onnx", quantization.QuantFormat.QOperator
    source = shutil.copy(models.build(name, small=True, exporter="torchscript"), tmp_path)  # it writes files next to it
    quantization.quantize_static(source, str(path), _Calibration(name), operators, reduce_range=not HAS_VNNI)
    assert {"QLinearAdd", "QGemm"} & check(name, onnx.load(path))


@pytest.mark.parametrize("name", ["bert", "llama_decode"])
def test_four_bits(name: str) -> None:
    quantizer = MatMulNBitsQuantizer(onnx.load(models.build(name, small=True, exporter="torchscript")), block_size=32)
    quantizer.process()
    assert check(name, quantizer.model.model) == {"MatMulNBits"}
