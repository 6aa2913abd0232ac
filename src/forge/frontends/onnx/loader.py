"""Reads ONNX models from a path, bytes or a ModelProto, and refuses what is not one.

Nothing read from a file is trusted: sizes are compared with the file before memory is taken, external data stays inside the
model's folder, and nothing is ever unpickled.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from forge.errors import ImportModelError
from forge.frontends.formats import refuse_other_formats
from forge.frontends.model_files import mapped_file
from forge.frontends.onnx import inline
from forge.frontends.onnx.tensors import TensorReader

logger = logging.getLogger(__name__)

Report = Callable[[str, str], None]  # takes the name of the model, and the finding

MAX_MESSAGE_BYTES = (1 << 31) - 1
_CHECKED_ELEMENTS = 1024


@dataclass(frozen=True)
class LoadedModel:
    """A model with what its messages need: a name for error messages, a reader of its tensors, its number of nodes.

    ``proto`` may lack large contents of initializers, which ``reader`` finds in ``data``, the file.
    """

    proto: onnx.ModelProto
    where: str
    reader: TensorReader
    size: int = 0
    data: bytes | memoryview | None = None

    def whole(self) -> onnx.ModelProto:
        """The model with all of its contents."""
        return self.proto if self.data is None else _message(self.data, self.where)


def log_finding(where: str, finding: str) -> None:
    """Logs what onnx's checker says of a model."""
    logger.warning("%s: onnx.checker: %s", where, finding)


def load(model: Any, report: Report = log_finding) -> LoadedModel:
    """Reads and checks a model given as a path, bytes or an ``onnx.ModelProto``; ``report`` gets what onnx's checker finds.

    Raises:
        ImportModelError: it cannot be read, is damaged, is not an ONNX model, or is newer than the onnx package.
    """
    if isinstance(model, onnx.ModelProto):
        loaded = LoadedModel(model, model.graph.name or "model", TensorReader())
    elif isinstance(model, bytes | bytearray | memoryview):
        data = bytes(model)
        loaded = LoadedModel(_parse(data, "model"), "model", TensorReader(model=data), data=data)
    elif isinstance(model, str | os.PathLike):
        loaded = _load_file(Path(model))
    else:
        wrap = "; wrap it with onnx.helper.make_model, which says its opset" if isinstance(model, onnx.GraphProto) else ""
        raise ImportModelError(f"from_onnx: got {type(model).__name__}; expected a path, bytes or an onnx.ModelProto{wrap}")
    _check_header(loaded.proto, loaded.where)
    finding = _finding(loaded.proto)
    if finding:
        report(loaded.where, finding)
    return replace(loaded, size=_check_texts(loaded.proto, loaded.where))


def _load_file(path: Path) -> LoadedModel:
    advice = "expected less than 2 GiB in one file; save its weights as external data"
    data = mapped_file(path, ".onnx", MAX_MESSAGE_BYTES, advice)
    folders = tuple(dict.fromkeys((path.absolute().parent, path.resolve().parent)))
    return LoadedModel(_parse(data, path.name), path.name, TensorReader(folders, data), data=data)


def _parse(data: bytes | memoryview, where: str) -> onnx.ModelProto:
    refuse_other_formats(data, where, "an ONNX model", "onnx")
    return _message(inline.without_contents(data), where)


def _message(data: bytes | memoryview, where: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise ImportModelError(
            f"{where}: not an ONNX model, or truncated or damaged ({len(data)} bytes); export or download it again"
        ) from error
    return proto


def _check_header(proto: onnx.ModelProto, where: str) -> None:
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ImportModelError(f"{where}: holds no graph; expected an ONNX model; it is empty, truncated or of another format")
    if proto.ir_version > onnx.IR_VERSION:
        raise ImportModelError(
            f"{where}: ONNX IR version {proto.ir_version}; expected at most {onnx.IR_VERSION} (onnx {onnx.__version__}); "
            "upgrade the onnx package, or export for an older version"
        )
    if proto.ir_version < 1:
        raise ImportModelError(f"{where}: got ONNX IR version {proto.ir_version}; expected 1 or more; the file is damaged")


def _check_texts(proto: onnx.ModelProto, where: str) -> int:
    """Checks that names are text (damaged ones are read as bytes) and returns the number of nodes, those of functions included.

    Raises:
        ImportModelError: a name is not UTF-8.
    """
    count = 0
    waiting: list[Any] = [proto.graph, *proto.functions]
    texts: list[Any] = [t for f in proto.functions for t in (f.name, f.domain, *f.input, *f.output, *f.attribute)]
    imported = [*proto.opset_import, *(o for f in proto.functions for o in f.opset_import)]
    texts.extend(o.domain for o in imported)
    while waiting:
        graph = waiting.pop()
        count += len(graph.node)
        if isinstance(graph, onnx.GraphProto):
            texts.extend(_declared_texts(graph))
        for node in graph.node:
            texts.extend((node.name, node.op_type, node.domain, node.overload, *node.input, *node.output))
            for attribute in node.attribute:
                texts.extend((attribute.name, attribute.ref_attr_name))
                waiting.extend(([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs))
    damaged = next((t for t in texts if not isinstance(t, str)), None)
    if damaged is not None:
        raise ImportModelError(f"{where}: got the name {damaged!r}; expected UTF-8; the file is damaged: download it again")
    return count


def _declared_texts(graph: onnx.GraphProto) -> Iterator[Any]:
    yield graph.name
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (d.dim_param for d in info.type.tensor_type.shape.dim)
    tensors = [*graph.initializer, *(part for s in graph.sparse_initializer for part in (s.values, s.indices))]
    for tensor in tensors:
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


_EXPERIMENTAL = frozenset(
    "ATen Affine ConstantFill Crop DynamicSlice GRUUnit GivenTensorFill ImageScaler ParametricSoftplus Scale ScaledTanh".split())
_EXPERIMENTAL_DOMAIN = "experimental"
"""Where the checker finds such operators in its copy: of those in ONNX's own domain it prints a line by itself."""


def _finding(proto: onnx.ModelProto) -> str:
    """What onnx's own checker says, if anything; the importer decides itself what it cannot take."""
    try:
        onnx.checker.check_model(_without_weights(proto).SerializeToString())
    except (onnx.checker.ValidationError, ValueError, RuntimeError, MemoryError) as error:
        return str(error)
    return ""


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which large initializers are inputs, so that checking costs nothing, and all tensors have a shape.

    The checker asks for one; graphs without are usual, and nothing here needs those of outputs.
    """
    copy = onnx.ModelProto()
    for field, value in proto.ListFields():
        if field.name != "graph":
            _assign(copy, field.name, value)
    for field, value in proto.graph.ListFields():
        if field.name != "initializer":
            _assign(copy.graph, field.name, value)
    declared = {i.name for i in proto.graph.input}
    for tensor in proto.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL and math.prod(tensor.dims) <= _CHECKED_ELEMENTS:
            copy.graph.initializer.append(tensor)
        elif tensor.name not in declared:
            copy.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    for info in (*copy.graph.input, *copy.graph.output):
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.shape.SetInParent()
    for node in copy.graph.node:
        if not node.domain and node.op_type in _EXPERIMENTAL:
            node.domain = _EXPERIMENTAL_DOMAIN
    copy.opset_import.append(onnx.helper.make_opsetid(_EXPERIMENTAL_DOMAIN, 1))
    return copy


def _assign(message: Any, name: str, value: Any) -> None:
    target = getattr(message, name)
    if hasattr(target, "MergeFrom"):
        target.MergeFrom(value)
    else:
        setattr(message, name, value)
