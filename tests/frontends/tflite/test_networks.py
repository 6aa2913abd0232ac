"""Whole networks beside TFLite's interpreter, in the forms that TensorFlow's converter writes them in.

Floats agree to their accuracy. Kernels that multiply float data with integer weights round these data first, and Forge does not:
what it is compared with has the numbers that these weights stand for. Integers of all operators by themselves, on what the
interpreter gave these, are within one step of its reference kernels, nearly all equal. Through a network differences spread:
in the 45 layers of BlazeFace, 0.01 % of elements that differ in each layer become 30 % of the results, by at most two steps. So
do those of the interpreter's fast kernels, which round floats in place of fixed point: 37 %, by three steps. Results differ by no
more than those of the reference kernels do where a few elements of the input move by one step.

The reference kernels abort on the int8 form of untrained MobileNets, whose activations are nearly 0.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from tests.frontends.tflite import by_operator
from tests.frontends.tflite.record import REFERENCE, run
from tests.frontends.tflite.test_operators import MAX_EQUAL

CASES = (
    "ds_cnn.float32", "ds_cnn.float16", "ds_cnn.dynamic", "ds_cnn.int8", "blazeface.float16", "blazeface.int8", "unet.dynamic",
    "unet.int8", "encoder.float32", "encoder.dynamic", "encoder.int8", "mobilenetv3_small.float32")
SIZE = 64
"""Of images of ``keras.applications``."""
FEW = 0.01
"""The share of elements that are moved."""
ACCURACY = 1e-5
"""Of floats, relative to the largest result."""


@cache
def keras_model(name: str) -> Any:
    pytest.importorskip("tensorflow", reason="needs the extra tflite, which has TensorFlow")
    from benchmarks.tflite_networks import network

    return network(name, SIZE)


def model_of(case: str) -> bytes:
    from benchmarks.tflite_networks import converted

    name, form = case.split(".")
    return converted(keras_model(name), form)


def with_float_weights(data: bytes) -> bytes:
    """The model with the numbers that its integer weights stand for."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data))
    for tensor in model.subgraphs[0].tensors:
        if tensor.type != schema.TensorType.INT8:
            continue
        how, stored = tensor.quantization, model.buffers[tensor.buffer]
        shape = [-1 if axis == how.quantizedDimension else 1 for axis in range(len(tensor.shape))]
        scales = how.scale.reshape(shape) if len(how.scale) > 1 else how.scale[0]
        numbers = np.asarray(stored.data, np.uint8).view(np.int8).reshape(tensor.shape) * np.float32(scales)
        stored.data = np.frombuffer(numbers.astype(np.float32).tobytes(), np.uint8)
        tensor.type, tensor.quantization = schema.TensorType.FLOAT32, None
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def check_floats(data: bytes, x: np.ndarray, is_dynamic: bool) -> None:
    found = np.asarray(forge.from_tflite(data).get_inference_function()(x))
    (wanted,) = run(with_float_weights(data) if is_dynamic else data, [x], REFERENCE)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ACCURACY * float(np.abs(wanted).max()))


def check_integers(data: bytes, x: np.ndarray, path: Path) -> None:
    found = np.asarray(forge.from_tflite(data).get_inference_function()(x)).astype(int)
    (wanted,) = run(data, [x], REFERENCE)
    random = np.random.default_rng(2)
    moved = [np.minimum(x.astype(int) + (random.random(x.shape) < FEW), 127) for _ in range(4)]
    others = [run(data, [one.astype(np.int8)], REFERENCE)[0].astype(int) for one in moved]
    assert np.abs(found - wanted).max() <= max(1, *(np.abs(other - wanted).max() for other in others))
    path.write_bytes(data)
    single = list(by_operator.compared(str(path), compiled=True))
    assert not [one for one in single if not isinstance(one, by_operator.Comparison) or one.difference > 1]
    shares = [one.equal for one in single if isinstance(one, by_operator.Comparison)]
    assert np.mean(shares) >= MAX_EQUAL and min(shares) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_network(case: str, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    made, form = keras_model(case.split(".")[0]), case.split(".")[1]
    data, random, shape = model_of(case), np.random.default_rng(1), (1, *made.input_shape[1:])
    if form == "int8":
        check_integers(data, random.integers(-128, 128, shape).astype(np.int8), tmp_path / "model.tflite")
    else:
        check_floats(data, random.uniform(-1, 1, shape).astype(np.float32), form == "dynamic")
