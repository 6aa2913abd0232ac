"""What files by others showed: forms that Keras of today does not write."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import OpNotImplemented
from forge.frontends.keras.tree import layer_of
from forge.frontends.keras.weights import old_paths


def model(*layers: dict[str, Any], outputs: str, version: str = "2.15.0") -> str:
    """A functional model of one input, 4 x 6."""
    first = {"class_name": "InputLayer", "name": "x", "inbound_nodes": [], "config": {
        "batch_input_shape": [None, 4, 6], "dtype": "float32", "name": "x"}}
    config = {"name": "m", "layers": [first, *layers], "input_layers": [["x", 0, 0]], "output_layers": [[outputs, 0, 0]]}
    return json.dumps({"class_name": "Functional", "keras_version": version, "config": config})


def function(name: str, place: str, *nodes: Any, kind: str = "TFOpLambda") -> dict[str, Any]:
    """A function of TensorFlow between layers."""
    return {"class_name": kind, "name": place, "config": {"name": place, "function": name}, "inbound_nodes": list(nodes)}


X = np.random.default_rng(0).normal(size=(2, 4, 6)).astype(np.float32)


def results(text: str) -> np.ndarray:
    return np.asarray(forge.from_keras(text, layout="NHWC").get_inference_function("reference")(X))


@pytest.mark.parametrize(("version", "slope"), [("2.2.4", 0.2), ("3.1.0", 1 / 6), ("1.2.0", 0.2)])
def test_hard_sigmoid_of_old_versions(version: str, slope: float) -> None:
    layer = {"class_name": "Activation", "name": "a", "config": {"name": "a", "activation": "hard_sigmoid"},
             "inbound_nodes": [[["x", 0, 0, {}]]]}
    found = results(model(layer, outputs="a", version=version))
    np.testing.assert_allclose(found, np.clip(X * np.float32(slope) + 0.5, 0, 1), rtol=1e-5)


def test_functions_between_layers() -> None:
    parts = [{"start": None, "stop": None, "step": None}, {"start": 1, "stop": None, "step": 2}]
    found = results(model(
        function("math.multiply", "m", ["x", 0, 0, {"y": 2.0, "name": None}]),
        function("math.subtract", "s", ["_CONSTANT_VALUE", -1, 1.0, {"y": ["m", 0, 0], "name": None}]),
        function("__operators__.getitem", "i", ["s", 0, 0, {"slice_spec": parts}], kind="SlicingOpLambda"),
        function("concat", "c", [["i", 0, 0, {"axis": -1}], ["i", 0, 0, {"axis": -1}]]),
        function("linalg.matmul", "p", ["c", 0, 0, {"b": ["c", 0, 0], "transpose_b": True}]),
        function("math.reduce_mean", "r", ["p", 0, 0, {"axis": -1, "keepdims": True}]), outputs="r"))
    part = np.concatenate([(1 - X * 2)[:, 1::2]] * 2, -1)
    np.testing.assert_allclose(found, (part @ part.swapaxes(1, 2)).mean(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("name", "told"), [("image.sobel_edges", r"tf\.image\.sobel_edges"), ("einsum", "without its operands")])
def test_functions_without_a_converter(name: str, told: str) -> None:
    with pytest.raises(OpNotImplemented, match=told):
        forge.from_keras(model(function(name, "f", ["x", 0, 0, {}]), outputs="f"))


def test_nodes_of_graphs_are_refused() -> None:
    with pytest.raises(OpNotImplemented, match="from_tensorflow"):
        forge.from_keras(model(function("", "n", ["x", 0, 0, {}], kind="TensorFlowOpLayer"), outputs="n"))


def test_weights_as_keras_2_13_numbers_them() -> None:
    """A layer with weights counts twice, one without counts once."""
    kinds = ("Dense", "ReLU", "Dense", "ReLU", "ReLU", "Dense")
    layers = [{"class_name": kind, "config": {"name": f"l{k}", "units": 3}} for k, kind in enumerate(kinds)]
    found = old_paths(layer_of({"class_name": "Sequential", "config": {"name": "m", "layers": layers}}))
    names = [place.rpartition("/")[2] for place in found.values()]
    assert names == ["dense", "re_lu", "dense_2", "re_lu_1", "re_lu_2", "dense_4"]
