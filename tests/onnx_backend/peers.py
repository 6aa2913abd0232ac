"""Other runtimes that the suite is run with, each as its documentation says. They are optional and imported when used."""

from __future__ import annotations

import ctypes
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import onnx

Prepared = Callable[[Sequence[Any]], list[Any]]

PACKAGES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "reference": "onnx", "tinygrad": "tinygrad"}
"""The distribution that each peer comes with; ``reference`` is the NumPy implementation in the onnx package."""


def version_of(peer: str) -> str | None:
    """The installed version; None when it is not installed."""
    try:
        return version(PACKAGES[peer])
    except PackageNotFoundError:
        return None


def input_names(model: onnx.ModelProto) -> list[str]:
    """Inputs without a default value."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [info.name for info in model.graph.input if info.name not in weights]


def prepare_onnxruntime(model: bytes, _: Sequence[Any]) -> Prepared:
    """ONNX Runtime on the CPU, newest opsets allowed. Element types that NumPy lacks go in and out as ``OrtValue``."""
    os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    plain = not any(_is_foreign(x.type) for x in (*session.get_inputs(), *session.get_outputs()))
    if plain:
        return lambda inputs: list(session.run(None, dict(zip(names, inputs, strict=True))))
    outputs = [o.name for o in session.get_outputs()]

    def run(inputs: Sequence[Any]) -> list[Any]:
        feed = {n: _ort_value(x) for n, x in zip(names, inputs, strict=True)}
        return [_from_ort_value(v) for v in session.run_with_ort_values(outputs, feed)]

    return run


def _is_foreign(kind: str) -> bool:
    return any(name in kind for name in ("bfloat16", "float8", "float4", "int4", "int2"))


def _ort_value(value: Any) -> Any:
    import onnxruntime

    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if array.dtype.kind in "biufcOUS" and not array.dtype.name.startswith(("bfloat", "float8", "float4", "int4", "uint4")):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    code = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    bits = _bits(code)
    data = _packed(array, bits) if bits < 8 else array.view(np.uint8 if bits == 8 else np.uint16)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(data, code)


def _bits(code: int) -> int:
    name = onnx.TensorProto.DataType.Name(code)
    return 2 if name.endswith("INT2") else 4 if name.endswith(("INT4", "FLOAT4E2M1")) else 16 if name == "BFLOAT16" else 8


def _packed(array: np.ndarray, bits: int) -> np.ndarray:
    """Bytes that hold elements of fewer bits, the first ones lowest, in an array of the same shape."""
    raw = np.frombuffer(onnx.numpy_helper.from_array(array).raw_data, np.uint8)
    data = np.zeros(array.size, np.uint8)
    data[: len(raw)] = raw
    return data.reshape(array.shape)


def _from_ort_value(value: Any) -> Any:
    code = value.element_type() if value.is_tensor() else 0
    if not value.is_tensor() or not _is_foreign(value.data_type()):
        return value.numpy()
    count = math.prod(value.shape())
    raw = ctypes.string_at(value.data_ptr(), (count * _bits(code) + 7) // 8)
    return onnx.numpy_helper.to_array(onnx.TensorProto(data_type=code, dims=value.shape(), raw_data=raw))


def prepare_openvino(model: bytes, _: Sequence[Any]) -> Prepared:
    """OpenVINO on the CPU, in the precision that the model asks for."""
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "EXECUTION_MODE_HINT": "ACCURACY"}
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    request = compiled.create_infer_request()
    ports = _ports([port.get_node().get_friendly_name() for port in compiled.inputs], input_names(onnx.load_from_string(model)))

    def run(inputs: Sequence[Any]) -> list[Any]:
        feed = {port: _openvino_tensor(x) for port, x in zip(ports, inputs, strict=True) if port is not None}
        request.infer(feed, share_inputs=True)  # outputs may be views of inputs: these must live on
        return [_from_openvino(tensor) for tensor in request.output_tensors]

    return run


def _ports(have: list[str], names: list[str]) -> list[int | None]:
    """The compiled model's input for each of the file: some are gone, some have the name of an output that is the same."""
    renamed = (index for index, name in enumerate(have) if name not in names)
    return [have.index(name) if name in have else next(renamed, None) for name in names]


def _openvino_tensor(value: Any) -> Any:
    import openvino

    array = np.ascontiguousarray(value).reshape(np.shape(value))
    kind = _OPENVINO_TYPES.get(array.dtype.name)
    if kind is None:
        return array
    raw = np.frombuffer(onnx.numpy_helper.from_array(array).raw_data, np.uint8)
    tensor = openvino.Tensor(getattr(openvino.Type, kind), openvino.Shape(list(array.shape)))
    ctypes.memmove(tensor.data.ctypes.data, raw.tobytes(), len(raw))
    return tensor


_OPENVINO_TYPES = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8_e8m0fnu": "f8e8m0",
    "float4_e2m1fn": "f4e2m1",
    "int4": "i4",
    "uint4": "u4",
}


def _from_openvino(tensor: Any) -> np.ndarray:
    kind = tensor.element_type.get_type_name()
    name = next((n for n, k in _OPENVINO_TYPES.items() if k == kind), None)
    if kind == "string":
        return np.asarray(tensor.str_data, object)
    if name is None:
        return np.array(tensor.data).reshape(tuple(tensor.shape))
    import ml_dtypes

    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, name)))
    raw = ctypes.string_at(tensor.data.ctypes.data, (math.prod(tensor.shape) * _bits(code) + 7) // 8)
    return onnx.numpy_helper.to_array(onnx.TensorProto(data_type=code, dims=list(tensor.shape), raw_data=raw))


def prepare_reference(model: bytes, _: Sequence[Any]) -> Prepared:
    """The NumPy implementation in the onnx package."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx.load_from_string(model))
    names = input_names(onnx.load_from_string(model))
    return lambda inputs: list(evaluator.run(None, dict(zip(names, inputs, strict=True))))


def prepare_tinygrad(model: bytes, _: Sequence[Any]) -> Prepared:
    """tinygrad on the CPU."""
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    proto = onnx.load_from_string(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model)
        runner = OnnxRunner(path)
    names = input_names(proto)

    def run(inputs: Sequence[Any]) -> list[Any]:
        results = runner(dict(zip(names, inputs, strict=True)))
        return [results[o.name] for o in proto.graph.output]

    def as_array(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [as_array(v) for v in value]
        return value.numpy() if isinstance(value, Tensor) else value

    return lambda inputs: [as_array(v) for v in run(inputs)]


PREPARE_PEER: dict[str, Callable[[bytes, Sequence[Any]], Prepared]] = {
    "onnxruntime": prepare_onnxruntime,
    "openvino": prepare_openvino,
    "reference": prepare_reference,
    "tinygrad": prepare_tinygrad,
}
