"""Numbers and sections of MLIR's bytecode. Everything is checked against the size of the data before it is read."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NoReturn, TypeVar

from forge.errors import ImportModelError

T = TypeVar("T")
_PADDING = 0xCB
_MAX_ALIGNMENT = 1 << 20
_CHUNK = 1 << 12


class Cursor:
    """A place in data, up to an end."""

    __slots__ = ("data", "end", "position", "where")

    def __init__(self, data: memoryview, position: int, end: int, where: str) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.where = where

    def fail(self, message: str) -> NoReturn:
        message = message.encode("utf-8", "backslashreplace").decode()
        raise ImportModelError(f"{self.where}: byte {self.position}: {message}")

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def byte(self) -> int:
        if self.position >= self.end:
            self.fail("got the end of a part of the bytecode; expected more: is the file cut off?")
        value = self.data[self.position]
        self.position += 1
        return value

    def varint(self) -> int:
        """A number: zeros at the end of its first byte say how many bytes follow."""
        first = self.byte()
        if first & 1:
            return first >> 1
        more = (first & -first).bit_length() - 1 if first else 8
        value = int.from_bytes(self.bytes(more), "little")
        return (value << 8 | first) >> (more + 1) if first else value

    def flagged(self) -> tuple[int, bool]:
        """A number whose lowest bit is a flag."""
        value = self.varint()
        return value >> 1, bool(value & 1)

    def signed(self) -> int:
        """A number whose lowest bit is its sign."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def count(self, smallest: int = 1) -> int:
        """How many of something follow, each of which takes ``smallest`` bytes at least."""
        value = self.varint()
        if value * smallest > self.remaining:
            self.fail(f"got a list of {value}; expected at most {self.remaining // max(smallest, 1)}, for which there are bytes")
        return value

    def signed_list(self) -> list[int]:
        return [self.signed() for _ in range(self.count())]

    def list(self, read: Callable[[], T]) -> list[T]:
        return [read() for _ in range(self.count())]

    def bytes(self, size: int) -> memoryview:
        if size > self.remaining:
            self.fail(f"got a part of {size} bytes; expected at most {self.remaining}: is the file cut off?")
        self.position += size
        return self.data[self.position - size : self.position]

    def blob(self) -> memoryview:
        return self.bytes(self.varint())

    def terminated(self) -> str:
        """Text up to a byte that is zero."""
        begin = self.position
        for place in range(begin, self.end, _CHUNK):
            length = bytes(self.data[place : min(place + _CHUNK, self.end)]).find(b"\0")
            if length >= 0:
                self.position = place + length + 1
                return str(self.data[begin : place + length], "utf-8", "surrogateescape")
        self.fail("got text without an end; expected a byte that is zero behind it")

    def integer(self, bits: int) -> int:
        """An integer of a known width, signed."""
        if bits <= 8:
            value = self.byte() & ((1 << bits) - 1)
            return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value
        if bits <= 64:
            value = self.signed() & ((1 << bits) - 1)
            return value - (1 << bits) if value >> (bits - 1) else value
        self.fail(f"got an integer of {bits} bits; expected 64 at most")

    def double(self) -> float:
        value: float = struct.unpack("<d", struct.pack("<q", self.integer(64)))[0]
        return value

    def align(self, alignment: int) -> None:
        """Goes to the next place that ``alignment`` divides."""
        if alignment & (alignment - 1) or not 0 < alignment <= _MAX_ALIGNMENT:
            self.fail(f"got alignment {alignment}; expected a power of two")
        while self.position % alignment:
            if self.byte() != _PADDING:
                self.fail("got other bytes where data are aligned; expected padding (0xCB)")

    def section(self) -> tuple[int, Cursor]:
        """The number of a section, and its contents."""
        kind = self.byte()
        size = self.varint()
        if kind & 0x80:
            self.align(self.varint())
        contents = self.bytes(size)
        return kind & 0x7F, Cursor(self.data, self.position - len(contents), self.position, self.where)
