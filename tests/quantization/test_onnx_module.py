"""``forge.ONNXModule``: what it exports, as onnxruntime and TensorRT read it."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import OptionError, OutputExistsError, OutputPathError
from tests.quantization.models import TINY, data
from tests.saturation import exact_options

onnx = pytest.importorskip("onnx")

CACHE = re.compile(r"TRT-\d+-EntropyCalibration2\n(.+: [0-9a-f]{8}\n)+")
HEAD = "TRT-8601-EntropyCalibration2"


@pytest.fixture(scope="module", params=TINY)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / f"{name}.onnx"
    TINY[name](0).to_onnx(path)
    return path


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "cnn.onnx"
    TINY["cnn"](0).to_onnx(path)
    return path


def calibrated(path: Path) -> forge.ONNXModule:
    made = forge.ONNXModule(path)
    made.calibrate(data(path.stem))
    return made


def outputs(path: Path, samples: list[np.ndarray]) -> list[np.ndarray]:
    """Of onnxruntime, with its optimizations."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, exact_options(), providers=["CPUExecutionProvider"])
    return [session.run(None, {"x": sample})[0] for sample in samples]


def near(found: list[np.ndarray], expected: list[np.ndarray], share: float) -> bool:
    return all(np.abs(a - b).max() <= share * np.abs(b).max() for a, b in zip(found, expected, strict=True))


def assert_as_compiled(path: Path, ir: forge.IRModule, samples: list[np.ndarray]) -> None:
    """Few numbers are the next code, and none is farther off than a few steps make."""
    run = ir.get_inference_function()
    assert near(outputs(path, samples), [run(sample) for sample in samples], 0.03)


def properties(path: Path) -> dict[str, str]:
    return {p.key: p.value for p in onnx.load(path).metadata_props}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arguments", [
    {"kernel_dtype": "int8", "per_channel": True, "quant_type": "static"}, {"quant_type": "static"},
    {"kernel_dtype": "int8", "quant_type": "dynamic"}, {"activation_dtype": "int8"},
    {"activation_dtype": "int8", "per_channel": True, "symmetric": True, "calib_method": "mse"},
], ids=lambda a: " ".join(map(str, a.values())))
def test_onnxruntime_gives_what_forge_gives(name: str, model: Path, tmp_path: Path, arguments: dict[str, Any]) -> None:
    made = calibrated(model)
    made.quantize(**arguments, check=False)
    assert made.is_quantized
    made.export(tmp_path / "made.onnx")
    assert_as_compiled(tmp_path / "made.onnx", made.ir, data(name))
    again = forge.ONNXModule(tmp_path / "made.onnx")
    assert again.is_quantized
    assert_as_compiled(tmp_path / "made.onnx", again.ir, data(name, 1))


def cache_of(path: Path, head: str = HEAD) -> dict[str, float]:
    text = path.with_name(path.name + ".calibration.cache").read_text()
    assert CACHE.fullmatch(text)
    first, *lines = text.splitlines()
    assert first == head
    pairs = (line.rsplit(": ", 1) for line in lines)
    return {name: struct.unpack(">f", bytes.fromhex(digits))[0] for name, digits in pairs}


def test_cache_of_a_model_in_float(name: str, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    made = calibrated(model)
    made.export(path, is_tensorrt=True)
    scales, graph = cache_of(path), onnx.load(path).graph
    names = {v.name for v in graph.input} | {output for node in graph.node for output in node.output}
    assert scales.keys() <= names
    assert not any(node.op_type.endswith("QuantizeLinear") for node in graph.node)
    assert near(outputs(path, data(name)), [made.ir.get_inference_function()(x) for x in data(name)], 1e-4)
    original = {output for node in onnx.load(model).graph.node for output in node.output} | {"x"}
    assert scales.keys() <= original, "names are those of the model's own tensors"
    products = [node for node in graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
    assert products
    assert all(node.input[0] in scales for node in products)


def test_scales_of_a_cache_hold_the_numbers(cnn: Path, tmp_path: Path) -> None:
    made = calibrated(cnn)
    made.export(tmp_path / "made.onnx", is_tensorrt=True)
    most = max(np.abs(x).max() for x in data("cnn"))
    assert 0.3 * most < 127 * cache_of(tmp_path / "made.onnx")["x"] <= most * (1 + 1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arguments", [{}, {"activation_dtype": "int8", "calib_method": "percentile"}], ids=["uint8", "int8"])
def test_quantized_model_for_tensorrt(name: str, model: Path, tmp_path: Path, arguments: dict[str, Any]) -> None:
    path = tmp_path / "made.onnx"
    made = calibrated(model)
    real = [made.ir.get_inference_function()(x) for x in data(name)]
    made.quantize(**arguments, check=False)
    before = made.ir.fingerprint
    made.export(path, is_tensorrt=True)
    assert made.ir.fingerprint == before
    graph, scales = onnx.load(path).graph, cache_of(path)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    rounding = [node for node in graph.node if node.op_type == "QuantizeLinear"]
    back = [node for node in graph.node if node.op_type == "DequantizeLinear"]
    assert rounding
    assert len(back) > len(rounding), "those of weights"
    for node in (*rounding, *back):
        assert len(node.input) < 3 or not constants[node.input[2]].any()
    assert all(constants[node.input[2]].dtype == np.int8 for node in rounding)
    weights = [constants[node.input[0]] for node in back if node.input[0] in constants]
    assert {w.dtype for w in weights} == {np.dtype(np.int8)}, "no biases"
    assert all(constants[node.input[1]].size > 1 for node in back if node.input[0] in constants)
    for node in rounding:
        assert scales[node.input[0]] == constants[node.input[1]]
    assert near(outputs(path, data(name)), real, 0.1)
    assert_as_compiled(path, forge.from_onnx(path), data(name))


def test_metadata(cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    made = calibrated(cnn)
    made.export(tmp_path / "real.onnx", uuid="abc")
    found = properties(tmp_path / "real.onnx")
    assert (found["uuid"], found["created"], found["precision"]) == ("abc", "1970-01-01T00:00:00Z", "float32")
    assert (found["forge_version"], found["target"]) == (forge.__version__, "onnxruntime")
    (x,), (y,) = json.loads(found["inputs"]), json.loads(found["outputs"])
    assert (x["name"], x["dtype"], x["shape"]) == ("x", "float32", ["n", 3, 8, 8])
    assert (y["name"], y["dtype"], y["shape"]) == (made.output_names[0], "float32", ["n", 5])
    made.export(tmp_path / "same.onnx", uuid="abc")
    assert (tmp_path / "same.onnx").read_bytes() == (tmp_path / "real.onnx").read_bytes()
    for file in ("a.onnx", "b.onnx"):
        made.export(tmp_path / file, is_tensorrt=True)
    a, b = properties(tmp_path / "a.onnx"), properties(tmp_path / "b.onnx")
    assert (a["target"], a["uuid"] != b["uuid"]) == ("tensorrt", True)
    made.quantize(check=False)
    made.export(tmp_path / "int8.onnx")
    assert properties(tmp_path / "int8.onnx")["precision"] == "int8"


def test_properties(cnn: Path) -> None:
    made = forge.ONNXModule(onnx.load(cnn))
    assert (made.input_names, made.input_dtypes, made.output_dtypes) == (["x"], ["float32"], ["float32"])
    assert [str(shape) for shape in (*made.input_shapes, *made.output_shapes)] == ["(n, 3, 8, 8)", "(n, 5)"]
    assert (made.is_calibrated, made.is_quantized) == (False, False)
    assert made.output_names == made.ir.output_names
    assert repr(made).startswith("<forge.ONNXModule (x: ")
    made.quantize("int8", calib_data=data("cnn"), check=False)
    assert made.is_quantized


def test_other_versions_of_tensorrt(cnn: Path, tmp_path: Path) -> None:
    made = calibrated(cnn)
    for number, (version, head) in enumerate([("8.6.1", "8601"), ("8.5", "8500"), ("10.9.0", "100900"), ("10.13.3.9", "101303")]):
        path = tmp_path / f"{number}.onnx"
        made.export(path, is_tensorrt=True, tensorrt_version=version)
        assert cache_of(path, f"TRT-{head}-EntropyCalibration2")
    for wrong in ("ten", "8", "8.6.1.2.3", "", 8.6, "8.100"):
        with pytest.raises(OptionError, match="tensorrt_version"):
            made.export(tmp_path / "wrong.onnx", is_tensorrt=True, tensorrt_version=wrong)  # type: ignore[arg-type]
    assert not list(tmp_path.glob("wrong*"))


def test_refusals(cnn: Path, tmp_path: Path) -> None:
    made = forge.ONNXModule(cnn)
    with pytest.raises(OptionError, match="is not calibrated; expected one after calibrate"):
        made.export(tmp_path / "a.onnx", is_tensorrt=True)
    with pytest.raises(ValueError, match="expected 'uint8': DynamicQuantizeLinear"):
        made.quantize("int8", quant_type="dynamic")
    with pytest.raises(ValueError, match="layers without statistics"):
        made.quantize("int8")
    assert not made.is_quantized
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"path": tmp_path / "a.txt"}, r"expected a path that ends in \.onnx"), ({"path": 3}, "expected the path of a file"),
        ({"path": tmp_path / "a.onnx", "uuid": ""}, "uuid"), ({"path": tmp_path / "a.onnx", "is_tensorrt": 1}, "is_tensorrt"),
        ({"path": tmp_path / "a.onnx", "force_overwrite": "yes"}, "force_overwrite")]
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            made.export(**arguments)
    with pytest.raises(OutputPathError, match="no folder"):
        made.export(tmp_path / "none" / "a.onnx")
    assert list(tmp_path.iterdir()) == []


def test_files_are_not_overwritten(cnn: Path, tmp_path: Path) -> None:
    made, path = calibrated(cnn), tmp_path / "a.onnx"
    made.export(path, is_tensorrt=True)
    written = sorted(tmp_path.iterdir())
    assert [p.name for p in written] == ["a.onnx", "a.onnx.calibration.cache"]
    before = [p.read_bytes() for p in written]
    for missing in (None, path):
        if missing is not None:
            missing.unlink()
        with pytest.raises(OutputExistsError, match="force_overwrite=True"):
            made.export(path, is_tensorrt=True)
    assert written[1].read_bytes() == before[1]
    made.export(path, is_tensorrt=True, force_overwrite=True)
    assert sorted(tmp_path.iterdir()) == written


def test_models_that_came_with_zero_points_are_refused(cnn: Path, tmp_path: Path) -> None:
    made = calibrated(cnn)
    made.quantize("int8", check=False)
    made.export(tmp_path / "zeros.onnx")
    with pytest.raises(OptionError, match=r"qnn.*zero points of 0; quantize the float model"):
        forge.ONNXModule(tmp_path / "zeros.onnx").export(tmp_path / "a.onnx", is_tensorrt=True)
    symmetric = calibrated(cnn)
    symmetric.quantize("int8", symmetric=True, check=False)
    symmetric.export(tmp_path / "symmetric.onnx")
    forge.ONNXModule(tmp_path / "symmetric.onnx").export(tmp_path / "a.onnx", is_tensorrt=True)
    assert near(outputs(tmp_path / "a.onnx", data("cnn")), outputs(tmp_path / "symmetric.onnx", data("cnn")), 0.03)


def test_edits_after_quantization_are_not_lost(cnn: Path, tmp_path: Path) -> None:
    """What `quantize` made is made again only as long as it is what it made."""
    made = calibrated(cnn)
    made.quantize(check=False)
    with made.ir.edit() as e:
        e.set_attributes(made.ir.main.find("clip"), a_max=3.0)
    with pytest.raises(OptionError, match="got quantized values of uint8"):
        made.export(tmp_path / "a.onnx", is_tensorrt=True)
