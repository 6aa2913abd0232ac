"""``forge.ONNXModule``: what it exports, as onnxruntime and TensorRT read it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.errors import OptionError, OutputExistsError
from tests.quantization.models import cnn, data

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "cnn.onnx"
    cnn().to_onnx(path)
    return path


def calibrated(model: Path) -> forge.ONNXModule:
    made = forge.ONNXModule(model)
    made.calibrate(data("cnn"))
    return made


def outputs(path: Path) -> list[np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [session.run(None, {"x": sample})[0] for sample in data("cnn")]


def near(found: list[np.ndarray], expected: list[np.ndarray], share: float) -> bool:
    return all(np.abs(a - b).max() <= share * np.abs(b).max() for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("quant_type", ["static", "dynamic"])
def test_onnxruntime_gives_what_forge_gives(model: Path, tmp_path: Path, quant_type: str) -> None:
    made = calibrated(model)
    made.quantize("uint8", "int8", per_channel=True, quant_type=quant_type)
    assert made.is_quantized
    made.export(tmp_path / "made.onnx", uuid="abc")
    run = made.ir.get_inference_function()
    assert near(outputs(tmp_path / "made.onnx"), [run(sample) for sample in data("cnn")], 0.03)
    props = {p.key: p.value for p in onnx.load(tmp_path / "made.onnx").metadata_props}
    assert (props["uuid"], props["precision"], props["target"]) == ("abc", "int8", "onnxruntime")
    assert (made.input_names, made.output_dtypes) == (["x"], ["float32"])


def cache_of(path: Path) -> dict[str, float]:
    header, *lines = path.read_text().splitlines()
    assert header == "TRT-8601-EntropyCalibration2"
    pairs = (line.split(": ") for line in lines)
    return {name: struct.unpack(">f", bytes.fromhex(digits))[0] for name, digits in pairs}


@pytest.mark.parametrize("quantise", [False, True])
def test_tensorrt(model: Path, tmp_path: Path, quantise: bool) -> None:
    made = calibrated(model)
    if quantise:
        made.quantize()
    made.export(tmp_path / "made.onnx", is_tensorrt=True)
    cache = cache_of(tmp_path / "made.onnx.calibration.cache")
    assert cache["x"] == pytest.approx(max(np.abs(x).max() for x in data("cnn")) / 127)
    graph = onnx.load(tmp_path / "made.onnx").graph
    assert cache.keys() <= {name for node in graph.node for name in (*node.input, *node.output)}
    assert len(cache) > 3
    assert ("QuantizeLinear" in {node.op_type for node in graph.node}) == quantise
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    zeros = [constants[n.input[2]] for n in graph.node if n.op_type.endswith("QuantizeLinear") and len(n.input) > 2]
    assert not any(np.any(zero) for zero in zeros)
    real = forge.from_onnx(model).get_inference_function()
    assert near(outputs(tmp_path / "made.onnx"), [real(sample) for sample in data("cnn")], 0.1 if quantise else 1e-4)


def test_refusals(model: Path, tmp_path: Path) -> None:
    made = forge.ONNXModule(model)
    with pytest.raises(OptionError, match="is not calibrated"):
        made.export(tmp_path / "a.onnx", is_tensorrt=True)
    with pytest.raises(ValueError, match="expected 'uint8': DynamicQuantizeLinear"):
        made.quantize("int8", quant_type="dynamic")
    with pytest.raises(OptionError, match=r"expected a path that ends in \.onnx"):
        made.export(tmp_path / "a.txt")
    made.export(tmp_path / "a.onnx")
    with pytest.raises(OutputExistsError, match="force_overwrite=True"):
        made.export(tmp_path / "a.onnx")
    made.export(tmp_path / "a.onnx", force_overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.onnx"]
