"""Mistakes with models: each is one clear error of the catalogue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import forge
from forge.errors import ForgeError, ImportModelError, OpNotImplemented, ParseError
from tests.driver.support import DIGITS

FLOAT = TensorProto.FLOAT


def model_of(*nodes: onnx.NodeProto, initializers: list[onnx.TensorProto] | None = None, domain: str = "") -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, FLOAT, [2, 3]) for name in ("x", "y"))
    opsets = [helper.make_opsetid("", 18), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], initializers or []), opset_imports=opsets)


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.99])
def test_truncated_file(tmp_path: Path, keep: float) -> None:
    content = (DIGITS / "digits.onnx").read_bytes()
    path = tmp_path / "short.onnx"
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(ImportModelError, match=r"short\.onnx"):
        forge.from_onnx(path)


@pytest.mark.parametrize("content", [b"hello", b"\xff" * 100, b"PK\x03\x04" + b"\0" * 50, b"\x7fELF" + b"\0" * 50])
def test_corrupt_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ImportModelError, match=r"bad\.onnx"):
        forge.from_onnx(path)


@pytest.mark.parametrize("model", [None, 3, ["model.onnx"], np.zeros(3), object()])
def test_argument_of_a_wrong_type(model: Any) -> None:
    with pytest.raises(ImportModelError, match=f"got {type(model).__name__}; expected a path, bytes or an onnx.ModelProto"):
        forge.from_onnx(model)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="no such file"):
        forge.from_onnx(tmp_path / "model.onnx")


def test_external_data_outside_its_folder(tmp_path: Path) -> None:
    weights = helper.make_tensor("w", FLOAT, [2, 3], np.zeros(6, np.float32).tobytes(), raw=True)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../secret")
    (tmp_path / "secret").write_bytes(bytes(24))
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "model.onnx"
    path.write_bytes(model_of(helper.make_node("Add", ["x", "w"], ["y"]), initializers=[weights]).SerializeToString())
    with pytest.raises(ImportModelError, match="secret"):
        forge.from_onnx(path)


def test_unknown_operators_are_all_reported_at_once() -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="first", domain="acme"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Frobnicate", ["b"], ["c"], domain="acme"),
        helper.make_node("Twist", ["c"], ["y"], name="last", domain="acme"),
    ]
    with pytest.raises(OpNotImplemented) as caught:
        forge.from_onnx(model_of(*nodes, domain="acme"))
    text = str(caught.value)
    for part in ("2 operators", "acme.Frobnicate", "2x", "'first'", "acme.Twist", "'last'", "register"):
        assert part in text
    assert isinstance(caught.value, NotImplementedError)


def test_text_that_is_no_module() -> None:
    with pytest.raises(ParseError, match="line 1"):
        forge.IRModule("def @main(")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x05\x06" + b"\0" * 18])
def test_saved_module_that_is_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.forge"
    path.write_bytes(content)
    with pytest.raises(ForgeError, match=r"model\.forge"):
        forge.load(path)


def test_saving_where_nothing_can_be_written(digits: forge.IRModule, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((ForgeError, OSError)):
        digits.save(tmp_path / "file" / "model.forge")
    assert os.listdir(tmp_path) == ["file"]
