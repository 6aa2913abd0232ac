"""Reads the options of custom operators: FlexBuffers, flatbuffers without a schema."""

from __future__ import annotations

import struct
from typing import Any

from forge.errors import ImportModelError

MAX_DEPTH = 16
MAX_VALUES = 100_000
_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING = range(6)
_INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _VECTOR = range(6, 11)
_VECTORS_OF = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, 15: _STRING}
"""Vectors of one type, by their number."""
_FIXED = range(16, 25)
"""Pairs, triples and quadruples of int, uint and float."""
_BLOB, _BOOL, _BOOLS = 25, 26, 36
_FORMS = {_INT: "bhiq", _UINT: "BHIQ", _FLOAT: " efd"}


def read(data: bytes) -> Any:
    """What a FlexBuffer has: None, numbers, bools, texts, bytes, lists, and dictionaries by texts.

    Raises:
        ImportModelError: it is damaged.
    """
    if len(data) < 3:
        raise _invalid(f"{len(data)} bytes")
    width = data[-1]
    return _Reader(data).value(len(data) - 2 - width, width, data[-2], 0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left = MAX_VALUES

    def value(self, at: int, width: int, packed: int, depth: int) -> Any:
        """The value at ``at``, whose width its parent says, of a packed type."""
        kind, inner = packed >> 2, 1 << (packed & 3)
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            raise _invalid("values without end")
        if kind == _NULL:
            return None
        if kind in _FORMS:
            return self._number(kind, at, width)
        if kind == _BOOL:
            return bool(self._number(_UINT, at, width))
        place = at - self._number(_UINT, at, width)
        if kind in (_INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT):
            return self._number(kind - _INDIRECT_INT + _INT, place, inner)
        if kind == _KEY:
            return self._key(place)
        if kind in (_STRING, _BLOB):
            found = self._bytes(place, self._size(place, inner))
            return found.decode(errors="replace") if kind == _STRING else found
        return self._compound(kind, place, inner, depth)

    def _compound(self, kind: int, place: int, width: int, depth: int) -> Any:
        if kind in _FIXED:
            number, count = (kind - _FIXED.start) % 3 + _INT, (kind - _FIXED.start) // 3 + 2
            return [self._number(number, place + k * width, width) for k in range(count)]
        size = self._size(place, width)
        if kind in _VECTORS_OF or kind == _BOOLS:
            element = _VECTORS_OF.get(kind, _BOOL) << 2
            return [self.value(place + k * width, width, element, depth + 1) for k in range(size)]
        if kind not in (_VECTOR, _MAP):
            raise _invalid(f"type {kind}")
        types = self._bytes(place + size * width, size)
        values = [self.value(place + k * width, width, types[k], depth + 1) for k in range(size)]
        if kind == _VECTOR:
            return values
        start = place - 3 * width
        keys = start - self._number(_UINT, start, width)
        step = self._number(_UINT, start + width, width)
        return {self._key(keys + k * step - self._number(_UINT, keys + k * step, step)): values[k] for k in range(size)}

    def _size(self, place: int, width: int) -> int:
        found = int(self._number(_UINT, place - width, width))
        if found > len(self.data):
            raise _invalid(f"{found} elements")
        return found

    def _number(self, kind: int, at: int, width: int) -> Any:
        if width not in (1, 2, 4, 8) or kind == _FLOAT and width == 1:
            raise _invalid(f"a number of {width} bytes")
        form = _FORMS[kind][width.bit_length() - 1]
        return struct.unpack(f"<{form}", self._bytes(at, width))[0]

    def _bytes(self, at: int, size: int) -> bytes:
        if at < 0 or at + size > len(self.data):
            raise _invalid(f"an offset out of its {len(self.data)} bytes")
        return self.data[at : at + size]

    def _key(self, at: int) -> str:
        end = self.data.find(b"\0", at) if 0 <= at < len(self.data) else -1
        if end < 0:
            raise _invalid("a key without an end")
        return self.data[at:end].decode(errors="replace")


def _invalid(got: str) -> ImportModelError:
    return ImportModelError(f"custom options: got {got}; expected a FlexBuffer; the model is damaged")
