"""What the loader accepts, and one test for each thing it refuses."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import external_data_helper, numpy_helper

import forge
from forge.errors import ForgeError, ImportModelError
from forge.frontends.onnx import import_model
from tests.frontends.onnx.support import evaluate, example, model

PLAIN = "g (float[N, 4] x) => (float[N, 2] y) { y = MatMul(x, w) }"


def plain() -> onnx.ModelProto:
    return model(PLAIN, w=example(0, 4, 2))


def external(folder: Path, location: str = "weights.bin", array: np.ndarray | None = None) -> onnx.ModelProto:
    """A model whose weight is in a file of ``folder``."""
    proto = plain()
    if array is not None:
        proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
    tensor = proto.graph.initializer[0]
    (folder / "weights.bin").write_bytes(b"\0" * 64 + tensor.raw_data)
    external_data_helper.set_external_data(tensor, location, offset=64, length=len(tensor.raw_data))
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    return proto


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_path_text_bytes_and_proto_give_the_same_module(tmp_path: Path) -> None:
    path = saved(plain(), tmp_path)
    modules = [import_model(source) for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), plain())]
    assert len({str(module) for module in modules}) == 1


@pytest.mark.parametrize("source", [5, None, 1.5, ["model.onnx"]])
def test_other_types_are_refused(source: Any) -> None:
    with pytest.raises(ImportModelError, match=r"expected a path, bytes or an onnx\.ModelProto"):
        import_model(source)


def test_missing_file() -> None:
    with pytest.raises(ImportModelError, match="no such file"):
        import_model("nowhere/model.onnx")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="is a folder"):
        import_model(tmp_path)


@pytest.mark.parametrize("keep", [0, 1, 10, 0.3, 0.6, 0.9, 0.99])
def test_truncated_file(tmp_path: Path, keep: float) -> None:
    data = plain().SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(ImportModelError, match=r"model\.onnx"):
        import_model(path)


@pytest.mark.parametrize(
    ("start", "advice"),
    [
        (b"PK\x03\x04rest", "a zip archive"),
        (b"\x89HDF\r\n\x1a\n", "a model of Keras"),
        (b"\x1c\0\0\0TFL3", "a model of TFLite; .*from_tflite"),
        (b"\x80\x02}q\0.", "never loads"),
        (b"\x7fELF\x02", "Runtime"),
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (b"<!DOCTYPE html>", "download"),
    ],
)
def test_other_formats_are_named(start: bytes, advice: str) -> None:
    with pytest.raises(ImportModelError, match=advice) as caught:
        import_model(start + b"\0" * 32)
    assert set(re.findall(r"forge\.(\w+)", str(caught.value))) <= set(forge.__all__)


@settings(max_examples=150)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    with pytest.raises(ForgeError):
        import_model(data)


@settings(max_examples=200)
@given(st.data())
def test_damaged_bytes_never_raise_anything_else(data: st.DataObject) -> None:
    content = bytearray(plain().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ForgeError):
        import_model(bytes(content))


def test_newer_ir_version() -> None:
    proto = plain()
    proto.ir_version = onnx.IR_VERSION + 1
    with pytest.raises(ImportModelError, match="upgrade the onnx package"):
        import_model(proto)


@pytest.mark.parametrize("opset", [0, -3, onnx.defs.onnx_opset_version() + 1])
def test_opset_out_of_range(opset: int) -> None:
    proto = plain()
    proto.opset_import[0].version = opset
    with pytest.raises(ImportModelError, match=f"got opset {opset}; expected 1 to"):
        import_model(proto)


def test_what_the_checker_says_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    proto = plain()
    proto.graph.output[0].type.Clear()
    with caplog.at_level(logging.WARNING, logger="forge"):
        import_model(proto)
    assert any("onnx.checker" in message for message in caplog.messages)


@pytest.mark.parametrize("op", ["Affine", "Scale"])
def test_experimental_operators_are_nothing_to_warn_of(
    op: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The checker's own line would go to the standard output of the process, between what programs print."""
    proto = plain()
    proto.graph.node[0].CopyFrom(onnx.helper.make_node(op, [proto.graph.input[0].name], [proto.graph.node[0].output[0]]))
    with caplog.at_level(logging.WARNING, logger="forge"):
        import_model(proto)
    ctypes.CDLL(None).fflush(None)
    assert caplog.messages == [] and capfd.readouterr() == ("", "")
    assert not proto.graph.node[0].domain


def test_tensors_without_a_shape_are_nothing_to_warn_of(caplog: pytest.LogCaptureFixture) -> None:
    proto = plain()
    for info in (proto.graph.input[0], proto.graph.output[0]):
        info.type.tensor_type.ClearField("shape")
    with caplog.at_level(logging.WARNING, logger="forge"):
        import_model(proto, shape={"x": (3, 4)})
    assert caplog.messages == []
    assert not proto.graph.output[0].type.tensor_type.HasField("shape")


def test_external_data_is_read(tmp_path: Path) -> None:
    weight = example(3, 4, 2)
    path = saved(external(tmp_path, array=weight), tmp_path)
    x = example(1, 3, 4)
    (y,) = evaluate(import_model(path), x)
    np.testing.assert_allclose(y, x @ weight, rtol=1e-6)


def test_external_data_of_four_bits(tmp_path: Path) -> None:
    proto = model("g () => (int8[3] y) { y = Cast<to=3>(w) }", w=np.zeros(1))
    tensor = onnx.helper.make_tensor("w", onnx.TensorProto.INT4, [3], [1, -2, 3])
    (tmp_path / "weights.bin").write_bytes(tensor.raw_data or bytes(v & 0xFF for v in tensor.int32_data))
    tensor.ClearField("int32_data")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.append(onnx.StringStringEntryProto(key="location", value="weights.bin"))
    proto.graph.initializer[0].CopyFrom(tensor)
    (y,) = evaluate(import_model(saved(proto, tmp_path)))
    assert y.tolist() == [1, -2, 3]


def test_external_data_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="load it by path"):
        import_model(external(tmp_path))


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "a/../../weights.bin", "", "a\\weights.bin"])
def test_external_data_outside_of_the_folder(tmp_path: Path, location: str) -> None:
    inner = tmp_path / "model"
    inner.mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 1024)
    with pytest.raises(ImportModelError, match="expected a relative path"):
        import_model(saved(external(inner, location), inner))


def test_external_data_behind_a_link_out_of_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "model"
    inner.mkdir()
    path = saved(external(inner, "link.bin"), inner)
    (inner / "weights.bin").rename(tmp_path / "weights.bin")
    (inner / "link.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(ImportModelError, match="expected a file inside"):
        import_model(path)


def test_external_data_beside_the_file_that_a_linked_model_is(tmp_path: Path) -> None:
    blobs, view = tmp_path / "blobs", tmp_path / "view"
    blobs.mkdir()
    view.mkdir()
    path = saved(external(blobs), blobs)
    (view / "model.onnx").symlink_to(path)
    (view / "weights.bin").symlink_to(blobs / "weights.bin")
    import_model(view / "model.onnx")


def test_external_data_file_is_missing(tmp_path: Path) -> None:
    path = saved(external(tmp_path), tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ImportModelError, match="missing"):
        import_model(path)


def test_external_data_file_is_too_short(tmp_path: Path) -> None:
    path = saved(external(tmp_path), tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"\0" * 80)
    with pytest.raises(ImportModelError, match="truncated"):
        import_model(path)


@pytest.mark.parametrize(("key", "value"), [("length", "8"), ("length", "-1"), ("offset", "x"), ("offset", "-8")])
def test_external_data_sizes_that_do_not_fit(tmp_path: Path, key: str, value: str) -> None:
    proto = external(tmp_path)
    next(e for e in proto.graph.initializer[0].external_data if e.key == key).value = value
    with pytest.raises(ImportModelError, match="external data"):
        import_model(saved(proto, tmp_path))


def test_huge_external_tensor_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    proto = external(tmp_path)
    tensor = proto.graph.initializer[0]
    tensor.dims[:] = [1 << 40, 1 << 20]
    del tensor.external_data[1:]
    with pytest.raises(ImportModelError, match="truncated"):
        import_model(saved(proto, tmp_path))


def test_tensor_with_too_few_bytes() -> None:
    proto = plain()
    proto.graph.initializer[0].raw_data = b"\0" * 5
    with pytest.raises(ImportModelError, match="contents do not fit"):
        import_model(proto)


def test_tensor_with_negative_size() -> None:
    proto = plain()
    proto.graph.initializer[0].dims[0] = -4
    with pytest.raises(ImportModelError, match="negative dimension"):
        import_model(proto)


def test_tensor_of_unknown_element_type() -> None:
    proto = plain()
    proto.graph.initializer[0].data_type = onnx.TensorProto.UNDEFINED
    with pytest.raises(ImportModelError, match="element type"):
        import_model(proto)


def test_sparse_initializer() -> None:
    proto = model("g (float[2] x) => (float[6] y) { y = Add(w, w) }")
    values = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [5.0, 7.0])
    indices = onnx.helper.make_tensor("i", onnx.TensorProto.INT64, [2], [1, 4])
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [6]))
    (y,) = evaluate(import_model(proto), np.zeros(2, np.float32))
    assert y.tolist() == [0, 10, 0, 0, 14, 0]


def test_sparse_initializer_that_would_not_fit_into_memory() -> None:
    proto = model("g (float[2] x) => (float[6] y) { y = Add(w, w) }")
    values = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [5.0])
    indices = onnx.helper.make_tensor("i", onnx.TensorProto.INT64, [1], [1])
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [1 << 50]))
    with pytest.raises(ImportModelError, match="sparse tensor"):
        import_model(proto)
