"""Writes a model in which every node has the name that errors and the imported module call it by."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from forge.errors import ImportModelError
from forge.frontends.model_files import data_file
from forge.frontends.onnx.loader import LoadedModel
from forge.frontends.onnx.nodes import node_names, subgraphs
from forge.frontends.onnx.tensors import TensorReader


def save_with_node_names(loaded: LoadedModel, path: str | os.PathLike[str]) -> None:
    """Writes a copy of the model in which every node has a name, and its external data next to it.

    Raises:
        ImportModelError: a file cannot be written, external data are out of reach, or another file is in their place.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(loaded.whole())
    _name(copy.graph.node)
    for function in copy.functions:
        _name(function.node)
    try:
        onnx.save(copy, os.fspath(path))
        _copy_external_data(copy.graph, loaded.reader, Path(path).parent)
    except OSError as error:
        raise ImportModelError(f"{error.filename or path}: cannot be written: {error.strerror}; choose another path") from error


def _name(nodes: Iterable[onnx.NodeProto]) -> None:
    listed = list(nodes)
    for node, name in zip(listed, node_names(listed)):
        node.name = name
        for inner in subgraphs(node):
            _name(inner.node)


def _copy_external_data(graph: onnx.GraphProto, reader: TensorReader, folder: Path) -> None:
    for location, name in _locations(graph).items():
        source = data_file(location, reader.folders, f"tensor {name!r}")
        target = folder / location
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        elif not _is_copy(source, target):
            raise ImportModelError(f"{target}: is another file; expected the model's external data; choose an empty folder")


def _is_copy(source: Path, target: Path) -> bool:
    if target.samefile(source):
        return True
    if not target.is_file() or target.stat().st_size != source.stat().st_size:
        return False
    with source.open("rb") as a, target.open("rb") as b:
        return all(x == b.read(len(x)) for x in iter(lambda: a.read(1 << 20), b""))


def _locations(graph: onnx.GraphProto) -> dict[str, str]:
    """Places of external data, each with the name of a tensor that lies there."""
    found: dict[str, str] = {}
    for tensor in _tensors(graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            found.update({entry.value: tensor.name for entry in tensor.external_data if entry.key == "location"})
    return found


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
        for inner in subgraphs(node):
            yield from _tensors(inner)
