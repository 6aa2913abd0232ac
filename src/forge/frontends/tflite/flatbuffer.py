"""Reads the tables of a flatbuffer by its schema; every offset is checked, and nothing is read twice."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from forge.errors import ImportModelError
from forge.frontends.tflite.schema import ENUMERATIONS, TABLES, UNIONS, Field

Table = Mapping[str, Any]
"""Fields by name: numbers, texts, names of enumerations, arrays of numbers, tables, lists of tables, None for what is absent."""

_STORED = {
    "bool": "?", "i8": "<i1", "u8": "<u1", "i16": "<i2", "u16": "<u2", "i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8",
    "f32": "<f4", "f64": "<f8",
}
_DTYPES = {kind: np.dtype(stored) for kind, stored in _STORED.items()}
_MIN_TABLE = 4
"""Bytes of a table without fields; one that lists share counts for each time."""


class Reader:
    """Tables of the flatbuffer ``data``.

    Raises, in all methods:
        ImportModelError: an offset leads out of the data, or there are more tables than fit into it.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = memoryview(data)
        self._left = len(self.data) // _MIN_TABLE

    def root(self, name: str) -> Table:
        """The table that the data begin with."""
        return self._table(self._number("<I", 0), name)

    def _number(self, form: str, at: int) -> int:
        self._check(at, struct.calcsize(form))
        found: int = struct.unpack_from(form, self.data, at)[0]
        return found

    def _check(self, at: int, size: int) -> None:
        if at < 0 or at + size > len(self.data):
            raise _invalid(at, f"got an offset beyond its {len(self.data)} bytes")

    def _table(self, at: int, name: str) -> Table:
        self._left -= 1
        if self._left < 0:
            raise _invalid(at, f"got more tables than {len(self.data)} bytes can have")
        description = at - self._number("<i", at)
        size, extent = self._number("<H", description), self._number("<H", description + 2)
        if size < 4 or description + size > len(self.data) or extent < 4 or at + extent > len(self.data):
            raise _invalid(description, f"got a description of {size} bytes of a table of {extent}")
        count = (size - 4) // 2
        return {field.name: self._field(field, at, description, count) for field in TABLES.get(name, ())}

    def _place(self, slot: int, at: int, description: int, count: int) -> int | None:
        """Where a field is; None where it is absent."""
        offset = self._number("<H", description + 4 + 2 * slot) if slot < count else 0
        return at + offset if offset else None

    def _field(self, field: Field, at: int, description: int, count: int) -> Any:
        place = self._place(field.slot, at, description, count)
        if field.kind in UNIONS and not field.is_vector:
            return self._union(field, place, self._place(field.slot + 1, at, description, count))
        if field.is_vector:
            return None if place is None else self._vector(field, self._follow(place))
        if field.kind in _STORED:
            return _DTYPES[field.kind].type(field.default).item() if place is None else self._scalar(field.kind, place)
        if field.kind in ENUMERATIONS:
            stored, names = ENUMERATIONS[field.kind]
            number = field.default if place is None else int(self._scalar(stored, place))
            if not 0 <= number < len(names):
                raise _invalid(place or at, f"got number {number} for {field.name!r}, a {field.kind}")
            return names[number]
        if field.kind == "string":
            return "" if place is None else bytes(self._bytes(self._follow(place), 1)).decode(errors="replace")
        return None if place is None else self._table(self._follow(place), field.kind)

    def _union(self, field: Field, type_: int | None, value: int | None) -> tuple[str, Table] | None:
        """The name of the table that a union has, and the table; None for one that has none, or one that is not known."""
        names = UNIONS[field.kind]
        number = 0 if type_ is None else self._number("<B", type_)
        if not 0 < number < len(names) or value is None:
            return None
        return names[number], self._table(self._follow(value), names[number])

    def _follow(self, at: int) -> int:
        return at + self._number("<I", at)

    def _scalar(self, kind: str, at: int) -> Any:
        dtype = _DTYPES[kind]
        self._check(at, dtype.itemsize)
        return np.frombuffer(self.data, dtype, 1, at)[0].item()

    def _bytes(self, at: int, width: int) -> memoryview:
        """What a vector at ``at`` has."""
        size = self._number("<I", at) * width
        if at + 4 + size > len(self.data):
            raise _invalid(at, f"got a vector of {size} bytes; the data end after {len(self.data) - at - 4}")
        return self.data[at + 4 : at + 4 + size]

    def _vector(self, field: Field, at: int) -> Any:
        dtype = _DTYPES.get(field.kind)
        if dtype is not None:
            return np.frombuffer(self._bytes(at, dtype.itemsize), np.uint8 if field.kind == "bool" else dtype)
        places = np.frombuffer(self._bytes(at, 4), "<u4").tolist()
        return [self._table(at + 4 + 4 * k + offset, field.kind) for k, offset in enumerate(places)]


def _invalid(at: int, got: str) -> ImportModelError:
    return ImportModelError(f"byte {at}: {got}; expected a TFLite model; the file is damaged: download or convert it again")
