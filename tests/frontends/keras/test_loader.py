"""What the loader does around layers: layouts, custom layers, files that are not as they should be. No test needs Keras."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import ImportModelError, OpAttributeInvalid, OpNotImplemented, OptionError
from forge.frontends.keras import register, unregister
from tests.frontends.keras.record import kept

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.keras"


def changed(change: Any, data: bytes | None = None) -> bytes:
    """The example with another configuration."""
    with zipfile.ZipFile(io.BytesIO(DIGITS.read_bytes() if data is None else data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(entries["config.json"])
    change(config["config"]["layers"])
    entries["config.json"] = json.dumps(config).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, contents in entries.items():
            archive.writestr(name, contents)
    return stream.getvalue()


def test_layouts() -> None:
    first, last = forge.from_keras(DIGITS), forge.from_keras(DIGITS, layout="NHWC")
    x = np.linspace(0, 1, 192, dtype=np.float32).reshape(3, 1, 8, 8)
    expected = last.get_inference_function()(x.reshape(3, 8, 8, 1))
    np.testing.assert_allclose(first.get_inference_function()(x), expected, rtol=1e-5, atol=1e-7)
    assert [Counter(node.op for node in ir.main.nodes)["transpose"] for ir in (first, last)] == [1, 0]
    assert not any(node.op == "nn.batch_norm" for node in first.main.nodes)
    with pytest.raises(OptionError, match="layout: got 'NCW'; expected one of: NCHW, NHWC"):
        forge.from_keras(DIGITS, layout="NCW")


def test_unpacked_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(DIGITS) as archive:
        archive.extractall(tmp_path)
    assert forge.load(tmp_path).input_names == ["image"]


def test_places_are_names_of_layers() -> None:
    names = {node.name for node in forge.from_keras(DIGITS).main.nodes if node.op == "nn.conv2d"}
    assert {"conv2d", "conv2d_1"} <= names


def test_unknown_layers_are_listed() -> None:
    def change(layers: list[Any]) -> None:
        for layer in layers:
            if layer["class_name"] == "Dropout":
                layer["class_name"] = "Lambda"
            if layer["class_name"] == "ReLU":
                layer.update(class_name="Scaled", module="acme.layers", registered_name="acme>Scaled")

    data = changed(change)
    told = r"2 operators are not supported:\n  acme\.Scaled: 1x, .*\n  keras\.Lambda: 1x, .*Python"
    with pytest.raises(OpNotImplemented, match=told):
        forge.from_keras(data)
    register("Scaled", lambda g, x: g.call("nn.relu", x), domain="acme")
    register("Lambda", lambda g, x: x)
    try:
        assert forge.from_keras(data).output_names == ["scores"]
    finally:
        unregister("Scaled", domain="acme")
        unregister("Lambda")


def test_options_that_are_not_known_are_refused() -> None:
    def change(layers: list[Any]) -> None:
        next(layer for layer in layers if layer["class_name"] == "Conv2D")["config"]["twist"] = 3

    with pytest.raises(OpAttributeInvalid, match=r"Conv2D 'conv2d': got attribute 'twist'; expected one of: "):
        forge.from_keras(changed(change))


@pytest.mark.parametrize(("data", "told"), [
    (b"PK\3\4", "end of a zip archive"), (b"\x89HDF\r\n\x1a\n" + bytes(200), "HDF5|damaged|place"), (b'{"a": 1}', "class_name"),
    (b"nothing", "expected a Keras model")])
def test_what_is_no_model(data: bytes, told: str) -> None:
    with pytest.raises(ImportModelError, match=told):
        forge.from_keras(data)


def test_whole_model_files() -> None:
    case = next(case for case in kept() if case.name == "frozen-h5")
    assert case.data[:4] == b"\x89HDF"
    found = forge.from_keras(case.data).get_inference_function()(*case.inputs)
    np.testing.assert_allclose(found, case.outputs[0], rtol=1e-5, atol=1e-6)


def test_operations_in_files_that_name_no_modules() -> None:
    """As Keras 3 writes ``.h5``: an operation ``Add`` of a number, and a layer ``Add`` of a list. Keras does not read it back."""
    def tensor(name: str) -> dict[str, Any]:
        return {"class_name": "__keras_tensor__", "config": {
            "shape": [None, 3], "dtype": "float32", "keras_history": [name, 0, 0]}}

    def call(name: str, config: dict[str, Any], *given: Any) -> dict[str, Any]:
        nodes = [{"args": list(given), "kwargs": {}}]
        return {"class_name": "Add", "config": {"name": name, **config}, "name": name, "inbound_nodes": nodes}

    start = {"class_name": "InputLayer", "config": {"batch_shape": [None, 3], "dtype": "float32", "name": "x"}, "name": "x",
             "inbound_nodes": []}
    layers = [start, call("add", {}, tensor("x"), 3.0),
              call("sum", {"trainable": True, "dtype": "float32"}, [tensor("x"), tensor("add")])]
    config = {"name": "m", "trainable": True, "layers": layers, "input_layers": [["x", 0, 0]], "output_layers": [["sum", 0, 0]]}
    ir = forge.from_keras(json.dumps({"class_name": "Functional", "config": config}))
    x = np.float32([[1, -2, 0.5]])
    np.testing.assert_array_equal(ir.get_inference_function("reference")(x), x + (x + 3))
