"""Weights that stand inside of a model file, left where they are.

Protobuf copies every byte of a message that it parses. Here the large contents of main's initializers are cut out before: the
wire format is followed down to them (model, graph, initializer), and what is parsed is the rest. A tensor without its contents
refers to them as external data of a location that no file can have; ``place`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import onnx

MIN_BYTES = 1 << 12
"""Smaller contents are parsed with the rest."""

LOCATION = "\0 in the model itself"

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MODEL_GRAPH = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_GRAPH_INITIALIZER = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_TENSOR_RAW_DATA = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number
_TENSOR_ELSEWHERE = frozenset(
    onnx.TensorProto.DESCRIPTOR.fields_by_name[name].number for name in ("external_data", "data_location")
)


class _DamagedError(ValueError):
    """The bytes are not a sequence of fields."""


@dataclass(frozen=True)
class _Field:
    """A field of a message: where it begins (with its tag), its number, and where its contents begin and end."""

    start: int
    number: int
    wire: int
    begin: int
    end: int


_Strip = Callable[[_Field], list[bytes | memoryview] | None]


def without_contents(data: bytes | memoryview) -> bytes | memoryview:
    """``data`` without the large contents of initializers; ``data`` itself where there are none, or it is damaged."""
    view = memoryview(data)
    try:
        pieces = _strip_model(view)
    except _DamagedError:
        return data
    return data if pieces is None else b"".join(pieces)


def place(tensor: onnx.TensorProto) -> tuple[int, int] | None:
    """Offset and length of the contents in the model; None when they are not there."""
    entries = [(e.key, e.value) for e in tensor.external_data]
    if len(entries) != 3 or entries[0] != ("location", LOCATION):
        return None
    numbers = [int(value) for _, value in entries[1:] if value.isascii() and value.isdigit() and len(value) < 19]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def _strip_model(view: memoryview) -> list[bytes | memoryview] | None:
    def strip_graph(graph: _Field) -> list[bytes | memoryview] | None:
        return _stripped(view, graph, _GRAPH_INITIALIZER, partial(_strip_tensor, view))

    return _stripped(view, _Field(0, 0, _LENGTH, 0, len(view)), _MODEL_GRAPH, strip_graph)


def _stripped(view: memoryview, outer: _Field, number: int, strip: _Strip) -> list[bytes | memoryview] | None:
    """The pieces of a message in which ``strip`` has changed fields of a number; None where it has changed none."""
    pieces: list[bytes | memoryview] = []
    kept = outer.begin
    for field in _fields(view, outer.begin, outer.end):
        inner = strip(field) if field.number == number and field.wire == _LENGTH else None
        if inner is not None:
            pieces.extend((view[kept : field.start], *_framed(number, inner)))
            kept = field.end
    return [*pieces, view[kept : outer.end]] if pieces else None


def _strip_tensor(view: memoryview, tensor: _Field) -> list[bytes | memoryview] | None:
    """The pieces of a tensor that refers to its contents; None where they are small, or given in several ways."""
    if tensor.end - tensor.begin <= MIN_BYTES:
        return None
    fields = list(_fields(view, tensor.begin, tensor.end))
    contents = [f for f in fields if f.number == _TENSOR_RAW_DATA]
    if len(contents) != 1 or contents[0].wire != _LENGTH or any(f.number in _TENSOR_ELSEWHERE for f in fields):
        return None
    (raw,) = contents
    if raw.end - raw.begin < MIN_BYTES:
        return None
    reference = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", LOCATION), ("offset", str(raw.begin)), ("length", str(raw.end - raw.begin))):
        reference.external_data.add(key=key, value=value)
    return [view[tensor.begin : raw.start], view[raw.end : tensor.end], reference.SerializeToString()]


def _framed(number: int, pieces: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """A field of number ``number`` with ``pieces`` as contents."""
    return [_as_varint(number << 3 | _LENGTH), _as_varint(sum(map(len, pieces))), *pieces]


def _as_varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _fields(view: memoryview, begin: int, end: int) -> Iterator[_Field]:
    while begin < end:
        tag, position = _varint(view, begin, end)
        wire = tag & 7
        after = position
        if wire == _VARINT:
            _, after = _varint(view, position, end)
        elif wire == _LENGTH:
            size, position = _varint(view, position, end)
            after = position + size
        elif wire in (_FIXED32, _FIXED64):
            after = position + (4 if wire == _FIXED32 else 8)
        else:
            raise _DamagedError
        if after > end:
            raise _DamagedError
        yield _Field(begin, tag >> 3, wire, position, after)
        begin = after


def _varint(view: memoryview, begin: int, end: int) -> tuple[int, int]:
    """The number at ``begin``, and where it ends."""
    value = 0
    for position in range(begin, min(end, begin + 10)):
        byte = view[position]
        value |= (byte & 0x7F) << (7 * (position - begin))
        if byte < 0x80:
            return value, position + 1
    raise _DamagedError
