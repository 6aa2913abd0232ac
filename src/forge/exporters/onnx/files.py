"""Writes a model and its weights: in one file, or large weights in a second file next to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
import onnx

from forge import dtypes
from forge.errors import OptionError
from forge.exporters.onnx.emitter import names_read
from forge.exporters.onnx.tensors import header, stored_bytes, tensor_proto
from forge.files import replacing

MAX_INLINE_BYTES = (1 << 31) - (1 << 24)
"""A protobuf message has at most 2 GiB."""

ALIGNMENT = 4096
MIN_EXTERNAL_BYTES = 1024


def with_weights(model: onnx.ModelProto, tensors: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """``model`` with all weights inside.

    Raises:
        OptionError: they are too large for one message.
    """
    total = _inline_bytes(tensors)
    if total > MAX_INLINE_BYTES:
        raise OptionError(f"to_onnx: got {total} bytes of weights; expected at most {MAX_INLINE_BYTES} in memory; pass a path")
    model.graph.initializer.extend(tensor_proto(name, array) for name, array in _used(model, tensors).items())
    return model


def save_model(
    model: onnx.ModelProto, tensors: Mapping[str, np.ndarray], path: str | os.PathLike[str], external_bytes: int | None = None
) -> None:
    """Writes the model; files appear whole or not at all.

    Args:
        external_bytes: weights of at least so many bytes go to ``PATH.data``; None: none, unless the model would exceed 2 GiB.

    Raises:
        OptionError: ``external_bytes`` is negative; OSError: the folder is missing or not writable.
    """
    is_number = isinstance(external_bytes, int) and not isinstance(external_bytes, bool)
    if external_bytes is not None and (not is_number or external_bytes < 0):
        raise OptionError(f"external_bytes: got {external_bytes!r}; expected a number of bytes from 0 on")
    tensors = _used(model, tensors)
    if external_bytes is None:
        external_bytes = MIN_EXTERNAL_BYTES if _inline_bytes(tensors) > MAX_INLINE_BYTES else 1 << 62
    target = Path(path)
    data = target.with_name(f"{target.name}.data")
    outside = {n: a for n, a in tensors.items() if a.dtype != object and a.nbytes >= max(1, external_bytes)}
    places = _places(outside)
    for name, array in tensors.items():
        model.graph.initializer.append(
            _external(name, array, data.name, *places[name]) if name in outside else tensor_proto(name, array))
    with replacing(target) as model_file:
        if outside:
            with replacing(data) as data_file:
                _write(data_file, outside, places)
        model_file.write(model.SerializeToString(deterministic=True))


def _used(model: onnx.ModelProto, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights that a node reads."""
    names = {name for node in model.graph.node for name in names_read(node)}
    return {name: array for name, array in tensors.items() if name in names}


def _inline_bytes(tensors: Mapping[str, np.ndarray]) -> int:
    return sum(_size(a) for a in tensors.values() if a.dtype != object)


def _size(array: np.ndarray) -> int:
    """Bytes of the contents as they are stored."""
    return (array.size * dtypes.bits(dtypes.canonical(array.dtype)) + 7) // 8


def _places(outside: Mapping[str, np.ndarray]) -> dict[str, tuple[int, int]]:
    """Offset and length of every weight in the second file."""
    places: dict[str, tuple[int, int]] = {}
    end = 0
    for name, array in outside.items():
        start = -(-end // ALIGNMENT) * ALIGNMENT
        places[name] = (start, _size(array))
        end = start + _size(array)
    return places


def _external(name: str, array: np.ndarray, location: str, offset: int, length: int) -> onnx.TensorProto:
    proto = header(name, array)
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        proto.external_data.append(onnx.StringStringEntryProto(key=key, value=str(value)))
    return proto


def _write(file: IO[bytes], outside: Mapping[str, np.ndarray], places: Mapping[str, tuple[int, int]]) -> None:
    for name, array in outside.items():
        offset, _ = places[name]
        file.write(b"\0" * (offset - file.tell()))
        file.write(stored_bytes(array))
