"""Reads a program of TensorFlow from what users have: files, folders, bytes, and objects of TensorFlow."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forge.errors import ImportModelError, OptionError
from forge.frontends.convert import located
from forge.frontends.model_files import mapped_file
from forge.frontends.tensorflow import live
from forge.frontends.tensorflow.bundle import Bundle
from forge.frontends.tensorflow.messages import dtype_of, parse, parse_text
from forge.frontends.tensorflow.model import (
    PLACEHOLDERS,
    Body,
    Signature,
    Tensor,
    TensorFlowModel,
    parse_ref,
    read_graph,
    shape_of,
)
from forge.frontends.tensorflow.restore import checkpoint_keys, object_keys

SAVED_MODEL = "saved_model.pb"
MAX_BYTES = (1 << 31) - 1
"""Of a message: no larger ones are written."""
_FIRST_SIGNATURE, _INITIALIZER = "serving_default", "__saved_model_init_op"
_TAG = "serve"
_OTHERWISE = "expected a GraphDef (.pb, .pbtxt) or a SavedModel"


def read(source: Any) -> TensorFlowModel:
    """The program that ``source`` has.

    Raises:
        OptionError: it is of another kind; ImportModelError: it cannot be read.
    """
    if isinstance(source, TensorFlowModel):
        return source
    if isinstance(source, str | os.PathLike):
        return _of_path(Path(source))
    if isinstance(source, bytes | bytearray | memoryview):
        with located(f"{len(source)} bytes"):
            return _of_bytes(memoryview(source).cast("B"), f"{len(source)} bytes", None)
    found = live.read(source)
    if found is None:
        raise OptionError(
            f"from_tensorflow: got {type(source).__name__}; expected a path of a .pb, .pbtxt or SavedModel, its bytes, a "
            "GraphDef, a concrete function, or what tf.saved_model.load gives")
    return found


def _of_path(path: Path) -> TensorFlowModel:
    if path.is_dir():
        for name in (SAVED_MODEL, f"{SAVED_MODEL}txt"):
            if (path / name).is_file():
                return _of_path(path / name)
        raise ImportModelError(f"{path}: is a folder without {SAVED_MODEL}; expected a SavedModel, or the path of a file")
    with located(path):
        data = mapped_file(path, ".pb", MAX_BYTES, _OTHERWISE)
        if path.suffix.lower() == ".pbtxt":
            return _of_text(bytes(data), str(path), path.parent)
        return _of_bytes(memoryview(data).cast("B"), str(path), path.parent)


def _of_text(data: bytes, where: str, folder: Path) -> TensorFlowModel:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ImportModelError("is not a text of UTF-8; expected a message in its text form") from error
    if "meta_graphs" in text:
        return _saved_model(parse_text("SavedModel", text, "SavedModel"), where, folder)
    return _graph(parse_text("GraphDef", text, "GraphDef"), where, folder)


def _of_bytes(data: memoryview, where: str, folder: Path | None) -> TensorFlowModel:
    if not len(data):
        raise ImportModelError(f"is empty; {_OTHERWISE}")
    if data[0] in (0x08, 0x12):  # its version, or its first graph; a GraphDef begins with a node
        saved = parse("SavedModel", data, "SavedModel")
        if saved.meta_graphs:
            return _saved_model(saved, where, folder)
    return _graph(parse("GraphDef", data, "GraphDef"), where, folder)


def _graph(graph: Any, where: str, folder: Path | None) -> TensorFlowModel:
    if not graph.node:
        raise ImportModelError(f"has no nodes; {_OTHERWISE}")
    return TensorFlowModel(where, read_graph(graph), library_of(graph), folder=folder)


def library_of(graph: Any) -> dict[str, Any]:
    """Functions by name."""
    return {function.signature.name: function for function in graph.library.function}


def _saved_model(saved: Any, where: str, folder: Path | None) -> TensorFlowModel:
    served = [m for m in saved.meta_graphs if _TAG in m.meta_info_def.tags] or list(saved.meta_graphs)
    graph = served[0].graph_def
    main = read_graph(graph)
    signatures = tuple(sorted(
        (_signature(name, value, main) for name, value in served[0].signature_def.items() if name != _INITIALIZER),
        key=lambda s: (s.name != _FIRST_SIGNATURE, s.name)))
    model = TensorFlowModel(where, main, library_of(graph), signatures, folder=folder)
    prefix = None if folder is None else folder / "variables" / "variables"
    if prefix is not None and prefix.with_name("variables.index").is_file():
        bundle = Bundle(prefix)
        by_place = object_keys(served[0].object_graph_def, bundle.objects())
        model.variables = _contents(bundle, {**by_place, **checkpoint_keys(model, served[0].saver_def.restore_op_name)})
    return model


def _contents(bundle: Bundle, keys: Mapping[str, str]) -> dict[str, Callable[[], np.ndarray]]:
    def reader(key: str) -> Callable[[], np.ndarray]:
        return lambda: bundle.array(key)

    by_name = {key: reader(key) for key in bundle.entries}
    return {**by_name, **{name: reader(key) for name, key in keys.items()}}


def _signature(name: str, signature: Any, main: Body) -> Signature:
    """The order of inputs, and of outputs, is that of their names, numbers in them by value: the file has none."""
    inputs, outputs = (
        {key: _tensor(key, side[key], main) for key in sorted(side, key=_natural)}
        for side in (signature.inputs, signature.outputs))
    return Signature(name, inputs, outputs)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _tensor(key: str, info: Any, main: Body) -> Tensor:
    """What a signature says. Where it says rank 0, as old ones do of any shape, and elsewhere, the graph knows more."""
    if not info.name:
        raise ImportModelError(f"signature: {key!r} is a sparse or composite tensor; expected a dense one; export its parts")
    ref = parse_ref(info.name)
    node = main.nodes.get(ref[0])
    known = node.attributes.get("shape") if node is not None and node.op in PLACEHOLDERS else None
    shape = (shape_of(info.tensor_shape) or None) if known is None else known
    return Tensor(ref, dtype_of(info.dtype) if info.dtype else "", shape)
