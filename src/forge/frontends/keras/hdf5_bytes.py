"""The bytes of an HDF5 file: numbers and places in it, each compared with the size of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from forge.errors import ImportModelError

SIGNATURE = b"\x89HDF\r\n\x1a\n"


@dataclass
class Hdf5Bytes:
    """A file.

    Attributes:
        offset_size, length_size: bytes of places and of sizes.
        base: what places are counted from.
    """

    data: memoryview
    where: str
    offset_size: int = 8
    length_size: int = 8
    base: int = 0

    def fail(self, message: str) -> NoReturn:
        raise ImportModelError(f"{self.where}: {message}")

    def damaged(self, message: str) -> NoReturn:
        self.fail(f"{message}; the HDF5 file is damaged: copy it again")

    def refuse(self, message: str) -> NoReturn:
        self.fail(f"{message}; expected what Keras writes; save the model again with Keras")

    def take(self, position: int, size: int) -> memoryview:
        """``size`` bytes, of which all are in the file."""
        if position < 0 or size < 0 or position + size > len(self.data):
            self.damaged(f"{size} bytes at {position} reach out of the {len(self.data)} bytes of the file")
        return self.data[position : position + size]

    def integer(self, position: int, size: int) -> int:
        return int.from_bytes(self.take(position, size), "little")

    def offset(self, position: int) -> int:
        """A place in the file, as a position from its begin; -1 where it is undefined."""
        found = self.integer(position, self.offset_size)
        return -1 if found == (1 << 8 * self.offset_size) - 1 else self.base + found

    def length(self, position: int) -> int:
        return self.integer(position, self.length_size)

    def expect(self, position: int, magic: bytes) -> None:
        """Raises ImportModelError unless the file has ``magic`` there."""
        found = bytes(self.take(position, len(magic)))
        if found != magic:
            self.damaged(f"got {found!r} at {position}; expected {magic!r}")

    def text(self, position: int, limit: int) -> str:
        """What ends with a zero, before ``limit``."""
        found = bytes(self.take(position, limit - position)).partition(b"\0")[0]
        return self.decoded(found)

    def decoded(self, found: bytes) -> str:
        try:
            return found.decode("utf-8")
        except UnicodeDecodeError:
            self.damaged(f"got the text {found[:50]!r}; expected UTF-8")
