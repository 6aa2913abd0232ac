"""The light networks of the ONNX backend suite with random weights, compared with onnxruntime.

The suite's own weights and expected outputs are constant, which proves only that the networks can be loaded and run.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from forge.driver.compiler import compile_module
from forge.frontends.onnx import import_model
from forge.ir import interp
from tests.frontends.onnx.support import onnxruntime_outputs
from tests.onnx_backend.stored import StoredCase, stored_cases

NETWORKS = {case.name.removeprefix("test_"): case for case in stored_cases() if case.light}
TOLERANCE = 1e-4  # of the largest output: rounding errors of float32 through up to 121 convolutions
SCALE, MEAN, VARIANCE = 1, 3, 4  # operands of BatchNormalization


def randomized(case: StoredCase, seed: int) -> onnx.ModelProto:
    """The network up to its softmax, which hides differences, with random weights that keep the size of activations."""
    rng = np.random.default_rng(seed)
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    shapes = {t.name: tuple(int(d) for d in numpy_helper.to_array(t)) for t in graph.initializer if t.data_type == t.INT64}
    users = {name: (node.op_type, i) for node in graph.node for i, name in enumerate(node.input)}
    made = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    for node in made:
        array = weights(rng, shapes[node.input[0]], *users[node.output[0]])
        graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
        graph.node.remove(node)
    if graph.node[-1].op_type == "Softmax":
        graph.output[0].name = graph.node.pop().input[0]
    return model


def weights(rng: np.random.Generator, shape: tuple[int, ...], op: str, position: int) -> np.ndarray:
    if op == "BatchNormalization" and position in (SCALE, VARIANCE):
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    if len(shape) > 1:
        return (rng.standard_normal(shape) * math.sqrt(2 / math.prod(shape[1:]))).astype(np.float32)
    return rng.uniform(-0.1, 0.1, shape).astype(np.float32)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NETWORKS)
def test_random_weights(name: str) -> None:
    model = randomized(NETWORKS[name], 7)
    given = {t.name for t in model.graph.initializer}
    (info,) = (i for i in model.graph.input if i.name not in given)
    x = np.random.default_rng(8).standard_normal([d.dim_value for d in info.type.tensor_type.shape.dim]).astype(np.float32)
    (expected,) = onnxruntime_outputs(model, x)
    assert expected.std() > 0.1 * np.abs(expected).max(), "the outputs tell nothing apart"
    module = import_model(model)
    (interpreted,) = interp.run_module(module, {info.name: x})
    compiled = compile_module(module).runtime()(x)
    for got in (interpreted, np.asarray(compiled)):
        assert got.shape == expected.shape and got.dtype == expected.dtype
        assert np.abs(got - expected).max() <= TOLERANCE * np.abs(expected).max()
