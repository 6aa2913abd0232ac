"""Reads HDF5 files as Keras writes them: groups, arrays, attributes.

The HDF5 library is made for files that are trusted; this reader follows no link out of the file, runs no filter but deflate and
shuffle, and compares all sizes with the file before it makes anything of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from forge.frontends.keras.hdf5_bytes import SIGNATURE, Hdf5Bytes
from forge.frontends.keras.hdf5_data import heap_object, read_array
from forge.frontends.keras.hdf5_objects import ATTRIBUTE, ATTRIBUTES, LINK, LINKS, SYMBOLS, Message, messages
from forge.frontends.keras.hdf5_types import element_type, shape

MAX_LINKS = 1 << 20
_MAX_LEVELS = 16


def read_hdf5(data: bytes | memoryview, where: str) -> Group:
    """The root of a file.

    Raises:
        ImportModelError: it is not an HDF5 file, is damaged, or has parts that Keras does not write.
    """
    file = Hdf5Bytes(memoryview(data).cast("B"), where)
    if bytes(file.data[:8]) != SIGNATURE:
        file.fail(f"begins with {bytes(file.data[:8])!r}; expected an HDF5 file")
    version = file.integer(8, 1)
    if version > 3:
        file.refuse(f"got version {version} of HDF5's files")
    sizes = 9 if version > 1 else 13
    file.offset_size, file.length_size = file.integer(sizes, 1), file.integer(sizes + 1, 1)
    if file.offset_size not in (4, 8) or file.length_size not in (4, 8):
        file.damaged(f"places have {file.offset_size} bytes and sizes {file.length_size}")
    first = {0: 24, 1: 28}.get(version, 12)
    file.base = file.integer(first, file.offset_size)
    root = first + (3 if version > 1 else 5) * file.offset_size
    return Group(file, file.offset(root), "")


@dataclass(frozen=True)
class Group:
    """A group, or an array, of a file.

    Attributes:
        path: its names, for messages.
    """

    file: Hdf5Bytes
    position: int
    path: str

    @cached_property
    def _messages(self) -> list[Message]:
        return messages(self.file, self.position)

    @cached_property
    def _opened(self) -> dict[str, Group]:
        """Members that were looked for: their links, of which there may be thousands, are read once."""
        return {}

    @cached_property
    def links(self) -> Mapping[str, int]:
        """What is in it: names -> places. Links to elsewhere are left out: they are nothing that Keras writes."""
        found: dict[str, int] = {}
        for message in self._messages:
            if message.kind == SYMBOLS:
                tree, heap = (self.file.offset(message.start + k * self.file.offset_size) for k in (0, 1))
                self.file.expect(heap, b"HEAP")
                size = self.file.length(heap + 8)
                names = self.file.offset(heap + 8 + 2 * self.file.length_size)
                self.file.take(names, size)
                for name, place in self._symbols(tree, names, names + size):
                    self._add(found, name, place)
            elif message.kind == LINK:
                link = self._link(message)
                if link is not None:
                    self._add(found, *link)
            elif message.kind == LINKS:
                flags = self.file.integer(message.start + 1, 1)
                if self.file.offset(message.start + 2 + (8 if flags & 1 else 0)) >= 0:
                    self.file.refuse(f"group {self.path!r}: got links in a heap")
        return found

    def _add(self, found: dict[str, int], name: str, place: int) -> None:
        if len(found) >= MAX_LINKS:
            self.file.damaged(f"group {self.path!r} has more than {MAX_LINKS} members")
        found[name] = place

    def _symbols(self, tree: int, names: int, end: int) -> Iterator[tuple[str, int]]:
        """The members that a tree of nodes has."""
        pending, seen = [(tree, _MAX_LEVELS)], set()
        while pending:
            place, levels = pending.pop()
            if place in seen or not levels:
                self.file.damaged(f"group {self.path!r}: its tree has a loop at {place}")
            seen.add(place)
            if bytes(self.file.take(place, 4)) == b"TREE":
                first = place + 8 + 2 * self.file.offset_size + self.file.length_size
                step = self.file.offset_size + self.file.length_size
                for k in range(self.file.integer(place + 6, 2)):
                    pending.append((self.file.offset(first + k * step), levels - 1))
                continue
            self.file.expect(place, b"SNOD")
            width = 2 * self.file.offset_size + 24
            for k in range(self.file.integer(place + 6, 2)):
                entry = place + 8 + k * width
                if self.file.integer(entry + 2 * self.file.offset_size, 4) != 2:  # 2 is a soft link
                    name = names + self.file.integer(entry, self.file.offset_size)
                    yield self.file.text(name, end), self.file.offset(entry + self.file.offset_size)

    def _link(self, message: Message) -> tuple[str, int] | None:
        at, flags = message.start + 2, self.file.integer(message.start + 1, 1)
        if flags & 8:
            if self.file.integer(at, 1):
                return None
            at += 1
        at += (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
        width = 1 << (flags & 3)
        length = self.file.integer(at, width)
        name = self.file.decoded(bytes(self.file.take(at + width, length)))
        return name, self.file.offset(at + width + length)

    def __contains__(self, path: str) -> bool:
        return self.find(path) is not None

    def find(self, path: str) -> Group | None:
        """What is at a path below it; None where nothing is."""
        found = self
        for name in path.split("/"):
            if name not in found._opened:
                place = found.links.get(name)
                if place is None:
                    return None
                found._opened[name] = Group(self.file, place, f"{found.path}/{name}")
            found = found._opened[name]
        return found

    def array(self) -> np.ndarray:
        """The contents of an array."""
        found = read_array(self.file, self._messages, self.path)
        return found if self.attributes.get("dtype") != "bfloat16" else self._bfloat16(found)

    def _bfloat16(self, found: np.ndarray) -> np.ndarray:
        from forge import dtypes

        kind = dtypes.numpy_dtype("bfloat16")
        return found.view(kind) if found.dtype.itemsize == 2 and found.dtype.kind in "uV" else found.astype(kind)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Attributes that are texts, or lists of texts; others are left out."""
        found: dict[str, Any] = {}
        for message in self._messages:
            if message.kind == ATTRIBUTES:
                flags = self.file.integer(message.start + 1, 1)
                if self.file.offset(message.start + 2 + (2 if flags & 1 else 0)) >= 0:
                    self.file.refuse(f"{self.path!r}: got attributes in a heap")
            elif message.kind == ATTRIBUTE and not message.is_shared:
                name, value = self._attribute(message)
                if value is not None:
                    found[name] = value
        return found

    def _attribute(self, message: Message) -> tuple[str, Any]:
        file, at = self.file, message.start
        version = file.integer(at, 1)
        if version not in (1, 2, 3):
            file.damaged(f"{self.path!r}: got an attribute of version {version}")
        sizes = [file.integer(at + 2 + 2 * k, 2) for k in range(3)]
        padded = [-(-size // 8) * 8 for size in sizes] if version == 1 else sizes
        name_at = at + (9 if version == 3 else 8)
        type_at, space_at = name_at + padded[0], name_at + padded[0] + padded[1]
        data_at = name_at + sum(padded)
        name = file.text(name_at, name_at + sizes[0])
        if file.integer(type_at, 1) & 15 not in (3, 9):
            return name, None
        kind = element_type(file, type_at)
        dimensions = shape(file, space_at)
        count = int(np.prod(dimensions, dtype=np.int64))
        raw = file.take(data_at, count * kind.dtype.itemsize)
        if data_at + len(raw) > message.start + message.size:
            file.damaged(f"attribute {name[:100]!r} of {self.path!r} reaches out of its message")
        width = kind.dtype.itemsize
        parts = [bytes(raw[k * width : (k + 1) * width]) for k in range(count)]
        texts = [file.decoded((heap_object(file, part) if kind.is_variable else part).rstrip(b"\0")) for part in parts]
        return name, texts if dimensions else texts[0]
