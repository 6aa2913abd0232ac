"""Named arrays in a file of the safetensors format, with text about them.

The format (https://huggingface.co/docs/safetensors): the size of the header in 8 bytes, little-endian; the header, JSON of
dtype, shape and place of each array, and of text by name; the arrays.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forge_runtime.arrays import Array, numpy_dtype
from forge_runtime.errors import InputError

_CODES = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
    "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64", "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_METADATA = "__metadata__"
_MAX_HEADER = 100 << 20
_SIZE_BYTES = 8
_DAMAGED = "is not a state that `save` has written, or damaged"


def write(path: str | os.PathLike[str], arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Writes C-contiguous arrays and metadata; the file appears complete or not at all.

    Raises:
        InputError: the format has no code for an array's dtype, or no room for its name.
        OSError: the file cannot be written.
    """
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    offset = 0
    if _METADATA in arrays:
        raise InputError(f"{path}: got a state called {_METADATA!r}; expected another name, the format has other data there")
    for name, array in arrays.items():
        if array.dtype.name not in _CODES:
            raise InputError(f"{path}: state '{name}' of {array.dtype}; expected one of {', '.join(_CODES)}")
        places = [offset, offset + array.nbytes]
        header[name] = {"dtype": _CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": places}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _SIZE_BYTES)
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with part.open("wb") as stream:
            stream.write(len(text).to_bytes(_SIZE_BYTES, "little") + text)
            for array in arrays.values():
                stream.write(array.reshape(-1).view(np.uint8).data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays and metadata of a file; the arrays lie in it, mapped into memory.

    Raises:
        InputError: not such a file, or damaged.
        OSError: it cannot be read.
    """
    if os.path.getsize(path) < _SIZE_BYTES:
        raise InputError(f"{path}: {_DAMAGED}: it has fewer than {_SIZE_BYTES} bytes")
    content = np.memmap(path, np.uint8, "r")
    size = int.from_bytes(content[:_SIZE_BYTES].tobytes(), "little")
    if size > min(_MAX_HEADER, len(content) - _SIZE_BYTES):
        raise InputError(f"{path}: {_DAMAGED}: a header of {size} bytes in a file of {len(content)}")
    begin = _SIZE_BYTES + size
    try:
        header = json.loads(content[_SIZE_BYTES:begin].tobytes())
        metadata = header.pop(_METADATA, {})
        _check_total(header, len(content) - begin)
        return {name: _array(content[begin:], entry) for name, entry in header.items()}, dict(metadata)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: {_DAMAGED}: {error}") from error


def _check_total(header: Mapping[str, Any], available: int) -> None:
    """Raises ValueError where arrays share bytes: copies of them could need far more memory than the file."""
    places = [entry["data_offsets"] for entry in header.values()]
    total = sum(max(0, end - begin) for begin, end in places)
    if total > available:
        raise ValueError(f"arrays of {total} bytes in {available}")


def _array(data: Array, entry: Mapping[str, Any]) -> Array:
    dtype, (begin, end) = numpy_dtype(_DTYPES[entry["dtype"]]), entry["data_offsets"]
    shape = tuple(entry["shape"])
    if not 0 <= begin <= end <= len(data) or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"bytes {begin} to {end} of {len(data)} for shape {list(shape)} of {dtype}")
    return np.array(data[begin:end]).view(dtype).reshape(shape)
