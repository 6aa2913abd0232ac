"""Writes options of custom operators as FlexBuffers, all of whose numbers have 8 bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

Option = bool | int | float | Sequence[int]
INT, FLOAT, MAP, INTS, BOOL = 1, 3, 9, 11, 26
WIDE = 3
"""The logarithm of the size of numbers, which the lowest bits of a type are."""


def flexbuffer(options: Mapping[str, Option]) -> bytes:
    """A map; keys are sorted, as readers search them by halving."""
    data = bytearray()
    keys = {key: _placed(data, key.encode() + b"\0") for key in sorted(options)}
    vectors = {key: _vector(data, value) for key, value in options.items() if not isinstance(value, int | float)}
    data += struct.pack("<q", len(keys))
    names = len(data)
    for at in keys.values():
        data += struct.pack("<q", len(data) - at)
    data += struct.pack("<3q", len(data) - names, 8, len(keys))
    root, types = len(data), bytearray()
    for key in keys:
        value = options[key]
        kind = BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT if isinstance(value, float) else INTS
        stored = len(data) - vectors[key] if kind == INTS else value
        data += struct.pack("<d" if kind == FLOAT else "<q", stored)
        types.append(kind << 2 | WIDE)
    data += types
    data += struct.pack("<q", len(data) - root)
    return bytes(data) + bytes((MAP << 2 | WIDE, 8))


def _placed(data: bytearray, part: bytes) -> int:
    """Where a part begins that is added."""
    data += part
    return len(data) - len(part)


def _vector(data: bytearray, numbers: Sequence[int]) -> int:
    data += struct.pack("<q", len(numbers))
    return _placed(data, struct.pack(f"<{len(numbers)}q", *numbers))
