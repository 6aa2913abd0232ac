"""Reads Keras models from what users have: files, folders, bytes, texts, and models in memory."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forge.errors import ImportModelError, OptionError
from forge.frontends.convert import located
from forge.frontends.keras.hdf5 import Group, read_hdf5
from forge.frontends.keras.hdf5_bytes import SIGNATURE
from forge.frontends.keras.tree import Layer, layer_of
from forge.frontends.keras.weights import NoWeights, OrderedWeights, StoredWeights, Weights, sharded
from forge.frontends.model_files import data_file, mapped_file
from forge.frontends.records import parse
from forge.frontends.stored_archive import MAGIC, StoredArchive

_EXPECTED = "expected a Keras model (.keras, .h5, a folder with config.json, or the text of to_json)"
_ADVICE = "save the model again with model.save"
_WEIGHTS, _SHARDS, _CONFIG = "model.weights.h5", "model.weights.json", "config.json"
_METADATA = "metadata.json"
_PARTS = (_CONFIG, _WEIGHTS, _SHARDS, _METADATA)
_MAX_CONFIG = 1 << 28
_MAX_UNPACKED = 1 << 28


@dataclass(frozen=True)
class Source:
    """A model.

    Attributes:
        where: what messages call it.
        version: of Keras, that saved it; "" where it is not said.
    """

    model: Layer
    weights: Weights
    where: str
    version: str = ""


def read(source: Any, weights: Any = None) -> Source:
    """The model that ``source`` has; ``weights``: the path of a file with other weights.

    Raises:
        OptionError: it is of another kind; ImportModelError: it cannot be read.
    """
    if isinstance(source, str) and source.lstrip()[:1] == "{":
        source, where = source.encode(), "JSON of a model"
    elif isinstance(source, str | os.PathLike):
        where = str(source)
    elif isinstance(source, bytes | bytearray | memoryview):
        where = f"{len(source)} bytes"
    else:
        return _of_object(source, weights)
    with located(where):
        if isinstance(source, str | os.PathLike):
            found = _of_path(Path(source), where)
        else:
            found = _of_data(memoryview(source).cast("B"), where)
    return found if weights is None else replace(found, weights=_other_weights(found.model, weights))


def is_object(source: Any) -> bool:
    """Whether it is a model in memory."""
    return callable(getattr(source, "save", None)) and callable(getattr(source, "get_config", None))


def _of_object(model: Any, weights: Any) -> Source:
    if not is_object(model):
        got = type(model).__name__
        raise OptionError(f"from_keras: got {got}; expected a path, bytes, the text of to_json, or a model of Keras")
    if weights is not None:
        raise OptionError("from_keras: weights: got them for a model in memory; expected None: call its load_weights")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        try:
            model.save(path)
        except Exception as error:  # the framework, and layers of the user, may raise anything
            raise ImportModelError(
                f"Keras model {getattr(model, 'name', '')!r}: cannot be saved: {error}; build it, or correct its get_config"
            ) from error
        data = path.read_bytes()
    with located(f"Keras model {getattr(model, 'name', '')!r}"):
        return _of_data(memoryview(data), "Keras model")


def _of_path(path: Path, where: str) -> Source:
    if not path.is_dir():
        return _of_data(memoryview(mapped_file(path, ".keras", sys.maxsize, _EXPECTED)).cast("B"), where, path.parent)
    entries = {name: path / name for name in _PARTS if (path / name).is_file()}
    return _of_parts(
        {name: _reader(found, name) for name, found in entries.items()},
        lambda name: mapped_file(data_file(name, (path,), "weights"), ".h5", sys.maxsize, _EXPECTED), where)


def _reader(path: Path, suffix: str) -> Callable[[], bytes | memoryview]:
    return lambda: mapped_file(path, suffix, sys.maxsize, _EXPECTED)


def _of_data(data: memoryview, where: str, folder: Path | None = None) -> Source:
    head = bytes(data[:8])
    if head[:4] == MAGIC:
        archive = StoredArchive(where, data, _ADVICE, has_folder=False)
        limit = max(_MAX_UNPACKED, 100 * len(data))
        parts = {name: _entry(archive, name, limit) for name in _PARTS if name in archive.entries}
        return _of_parts(parts, lambda name: archive.contents(name, limit), where)
    if head == SIGNATURE:
        return _of_whole_model(read_hdf5(data, where), where)
    if head.lstrip()[:1] == b"{":
        return Source(_model(bytes(data), where), NoWeights(), where, _text(parse(bytes(data), where).value.get("keras_version")))
    raise ImportModelError(f"got {len(data)} bytes that begin with {head!r}; {_EXPECTED}")


def _entry(archive: StoredArchive, name: str, limit: int) -> Callable[[], bytes]:
    return lambda: archive.contents(name, limit)


def _of_parts(
    parts: Mapping[str, Callable[[], bytes | memoryview]], shard: Callable[[str], bytes | memoryview], where: str
) -> Source:
    if _CONFIG not in parts:
        raise ImportModelError(f"has no {_CONFIG}; {_EXPECTED}")
    model = _model(bytes(parts[_CONFIG]()), _CONFIG)
    metadata = parse(bytes(parts[_METADATA]()), _METADATA).value if _METADATA in parts else {}
    version = _text(metadata.get("keras_version")) if isinstance(metadata, dict) else ""
    if _WEIGHTS in parts:
        root = read_hdf5(parts[_WEIGHTS](), _WEIGHTS)
        return Source(model, StoredWeights(lambda path: [root], model), where, version)
    if _SHARDS in parts:
        return Source(model, _sharded(bytes(parts[_SHARDS]()), shard, model), where, version)
    raise ImportModelError(f"has no {_WEIGHTS}; {_EXPECTED}")


def _sharded(data: bytes, shard: Callable[[str], bytes | memoryview], model: Layer) -> StoredWeights:
    found = parse(data, _SHARDS)["weight_map"].value
    if not isinstance(found, dict):
        raise ImportModelError(f"{_SHARDS}: got no map of weights; {_ADVICE}")
    return sharded(found, lambda name: read_hdf5(shard(name), name[:200]), model)


def _of_whole_model(root: Group, where: str) -> Source:
    config = root.attributes.get("model_config")
    if not isinstance(config, str):
        advice = "pass the model's to_json, with weights= this file" if "layers" in root.links or root.links else _ADVICE
        raise ImportModelError(f"has no model_config: it holds weights without a model; {advice}")
    model = _model(config, "model_config")
    group = root.find("model_weights")
    return Source(model, NoWeights() if group is None else OrderedWeights(model, group), where,
                  _text(root.attributes.get("keras_version")))


def _text(found: Any) -> str:
    return found if isinstance(found, str) else ""


def _model(config: bytes | str, label: str) -> Layer:
    if len(config) > _MAX_CONFIG:
        raise ImportModelError(f"{label}: got {len(config)} bytes; expected at most {_MAX_CONFIG}")
    return layer_of(parse(config, label).value)


def _other_weights(model: Layer, weights: Any) -> Weights:
    if not isinstance(weights, str | os.PathLike):
        raise OptionError(f"from_keras: weights: got {type(weights).__name__}; expected the path of a .weights.h5 or .h5 file")
    path = Path(weights)
    with located(str(path)):
        data = mapped_file(path, ".h5", sys.maxsize, "expected weights of Keras")
        if bytes(data[:8]) != SIGNATURE and path.suffix == ".json":
            return _sharded(bytes(data), lambda name: mapped_file(data_file(name, (path.parent,), "weights"), ".h5",
                sys.maxsize, ""), model)
        root = read_hdf5(data, path.name)
        group = root.find("model_weights") or root
        if "layer_names" in group.attributes or "layer_names0" in group.attributes:
            return OrderedWeights(model, group)
        return StoredWeights(lambda path: [root], model)
