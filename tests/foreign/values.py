"""Values as the bytes that ``driver.c`` reads and writes."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from forge import dtypes
from forge.codegen.abi import DTYPE_CODES
from forge.ir.nodes import Value
from forge.ir.types import OptionalType, SequenceType

_NAMES = {code: name for name, code in DTYPE_CODES.items()}


def encoded(values: Sequence[Any], inputs: Sequence[Value]) -> bytes:
    """The file of ``values`` for the inputs of a graph."""
    return b"".join([struct.pack("<q", len(values)), *(_input(x, v) for x, v in zip(values, inputs, strict=True))])


def _input(x: Any, value: Value) -> bytes:
    if isinstance(value.type, OptionalType):
        return _sequence("optional", [] if x is None else [x])
    return _sequence("sequence", x) if isinstance(value.type, SequenceType) else _array(np.asarray(x))


def _sequence(kind: str, elements: Sequence[Any]) -> bytes:
    parts = [_sequence("sequence", x) if isinstance(x, list | tuple) else _array(np.asarray(x)) for x in elements]
    return b"".join([_header(kind, ()), struct.pack("<q", len(parts)), *parts])


def _array(array: np.ndarray) -> bytes:
    if array.dtype.kind not in "OUT":
        return _header(dtypes.canonical(array.dtype), array.shape) + array.tobytes()
    texts = [x if isinstance(x, bytes) else str(x).encode(errors="surrogateescape") for x in array.reshape(-1).tolist()]
    return _header("string", array.shape) + b"".join(struct.pack("<q", len(text)) + text for text in texts)


def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    return struct.pack(f"<ii{len(shape)}q", DTYPE_CODES[dtype], len(shape), *shape)


def decoded(data: bytes) -> list[Any]:
    """The values of a file: arrays, lists, and the values of optionals, which are None where there is none."""
    stream = io.BytesIO(data)
    values = [_value(stream) for _ in range(_size(stream))]
    assert stream.tell() == len(data), f"{len(data) - stream.tell()} bytes are left"
    return values


def _size(stream: BinaryIO) -> int:
    return int(struct.unpack("<q", stream.read(8))[0])


def _value(stream: BinaryIO) -> Any:
    code, rank = struct.unpack("<ii", stream.read(8))
    shape, dtype = struct.unpack(f"<{rank}q", stream.read(8 * rank)), _NAMES[code]
    if dtype in ("sequence", "optional"):
        elements = [_value(stream) for _ in range(_size(stream))]
        return elements if dtype == "sequence" else elements[0] if elements else None
    count = math.prod(shape)
    if dtype == "string":
        texts = np.empty(count, object)
        texts[:] = [stream.read(_size(stream)).decode(errors="surrogateescape") for _ in range(count)]
        return texts.reshape(shape)
    kind = dtypes.numpy_dtype(dtype)
    return np.frombuffer(stream.read(count * kind.itemsize), kind).reshape(shape)
