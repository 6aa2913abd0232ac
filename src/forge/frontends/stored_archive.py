"""Zip archives whose entries are stored as they are, as views of the file; `contents` reads compressed ones, too.

Nothing in a file is trusted: sizes and places are compared with the file before anything is made of them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from forge.errors import ImportModelError

_STORED, _DEFLATED, _ENCRYPTED = 0, 8, 1
_END, _END64, _LOCATOR, _CENTRAL, MAGIC = b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\1\2", b"PK\3\4"
_END_FORMAT, _END64_FORMAT, _LOCATOR_FORMAT = "<4s4H2LH", "<4sQ2H2L4Q", "<4sLQL"
_CENTRAL_FORMAT, _LOCAL_FORMAT = "<4s6H3L5H2L", "<4s5H3L2H"


@dataclass(frozen=True)
class _Entry:
    start: int
    size: int
    unpacked: int
    crc: int
    method: int
    flags: int


class StoredArchive:
    """An archive.

    Attributes:
        where: what messages call it.
        advice: what they tell users of files that are not as they should be.
        entries: by their names, without the first folder if the archive ``has_folder``, which is its name then.
    """

    def __init__(self, where: str, data: bytes | memoryview, advice: str, has_folder: bool = True) -> None:
        """Raises ImportModelError: it is damaged."""
        self._has_folder = has_folder
        self.where = where
        self.data = memoryview(data)
        self.advice = advice
        self.entries = self._entries()

    def fail(self, message: str) -> NoReturn:
        raise ImportModelError(f"{self.where}: {message}")

    def contents(self, name: str, limit: int) -> bytes:
        """The contents of an entry, stored or deflated, whose checksum is compared."""
        entry = self.entries.get(name)
        if entry is not None and entry.unpacked > limit:
            self.fail(f"entry {name!r}: got {entry.unpacked} bytes; expected at most {limit}")
        if entry is not None and entry.method == _DEFLATED and not entry.flags & _ENCRYPTED:
            view = self._inflated(name, entry)
        else:
            view = self.view(name)
            entry = self.entries[name]
        if zlib.crc32(view) != entry.crc:
            self.fail(f"entry {name!r}: its checksum differs from what the archive says; the file is damaged: copy it again")
        return bytes(view)

    def _inflated(self, name: str, entry: _Entry) -> memoryview:
        try:
            found = zlib.decompressobj(-zlib.MAX_WBITS).decompress(
                self.data[entry.start : entry.start + entry.size], entry.unpacked + 1)
        except zlib.error as error:
            self.fail(f"entry {name!r}: {error}; the file is damaged: copy it again")
        if len(found) != entry.unpacked:
            self.fail(f"entry {name!r}: got {len(found)} bytes; expected {entry.unpacked}; the file is damaged: copy it again")
        return memoryview(found)

    def view(self, name: str) -> memoryview:
        """The contents of an entry in the file; its checksum is not compared."""
        entry = self.entries.get(name)
        if entry is None:
            self.fail(f"has no entry {name[:200]!r}; the file is incomplete; {self.advice}")
        if entry.flags & _ENCRYPTED or entry.method != _STORED:
            self.fail(f"entry {name!r} is compressed or encrypted; expected stored ones; {self.advice}")
        return self.data[entry.start : entry.start + entry.size]

    def _entries(self) -> dict[str, _Entry]:
        start, count, end = self._directory()
        found: dict[str, _Entry] = {}
        position = start
        for _ in range(count):
            name, position, header, entry = self._directory_entry(position, end)
            place = self._contents_start(name, header, start)
            if place + entry.size > start:
                self.fail(f"entry {name[:200]!r}: {entry.size} bytes at {place} reach out of the archive; it is damaged")
            inner = (name.partition("/")[2] or name) if self._has_folder else name
            if inner in found:
                self.fail(f"entry {name[:200]!r} is there twice; the file is damaged")
            found[inner] = _Entry(place, entry.size, entry.unpacked, entry.crc, entry.method, entry.flags)
        self._check_overlaps(found)
        return found

    def _check_overlaps(self, entries: Mapping[str, _Entry]) -> None:
        end = 0
        for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].size)):
            if entry.start < end:
                self.fail(f"entry {name[:200]!r} overlaps another; the file is damaged")
            end = entry.start + entry.size

    def _unpack(self, form: str, position: int, magic: bytes, what: str) -> tuple[int, ...]:
        if not 0 <= position <= len(self.data) - struct.calcsize(form):
            self.fail(f"{what} at {position} is outside of the file, which has {len(self.data)} bytes; it is truncated")
        found, *fields = struct.unpack_from(form, self.data, position)
        if found != magic:
            self.fail(f"{what} at {position}: got {found!r}; expected {magic!r}; the file is damaged")
        return tuple(fields)

    def _directory(self) -> tuple[int, int, int]:
        """Where the central directory begins, its number of entries, and where it ends."""
        size = struct.calcsize(_END_FORMAT)
        tail = max(0, len(self.data) - size - 0xFFFF)
        at = bytes(self.data[tail:]).rfind(_END)
        if at < 0:
            self.fail(f"has no end of a zip archive after its {len(self.data)} bytes; it is truncated: copy it again")
        end = tail + at
        *_, count, length, start, comment = self._unpack(_END_FORMAT, end, _END, "the end")
        if end + size + comment != len(self.data):
            self.fail(f"has no end of a zip archive after its {len(self.data)} bytes; it is truncated: copy it again")
        if count == 0xFFFF or 0xFFFFFFFF in (length, start):
            locator = end - struct.calcsize(_LOCATOR_FORMAT)
            _, end, _ = self._unpack(_LOCATOR_FORMAT, locator, _LOCATOR, "the locator")
            *_, count, length, start = self._unpack(_END64_FORMAT, end, _END64, "the long end")
        if start + length > end or count * struct.calcsize(_CENTRAL_FORMAT) > length:
            self.fail(f"{count} entries in {length} bytes at {start} do not fit into the archive; it is damaged")
        return start, count, start + length

    def _directory_entry(self, position: int, end: int) -> tuple[str, int, int, _Entry]:
        """The name of an entry, where the next one is, where its header is, and the entry."""
        fields = self._unpack(_CENTRAL_FORMAT, position, _CENTRAL, "an entry")
        _, _, flags, method, _, _, crc, packed, size, name_size, extra_size, comment_size, _, _, _, header = fields
        begin = position + struct.calcsize(_CENTRAL_FORMAT)
        following = begin + name_size + extra_size + comment_size
        if following > end:
            self.fail(f"an entry at {position} reaches out of the directory; the file is damaged")
        try:
            name = str(self.data[begin : begin + name_size], "utf-8")
        except UnicodeDecodeError:
            self.fail(f"got the name {bytes(self.data[begin : begin + name_size])[:100]!r}; expected UTF-8; the file is damaged")
        extra = self.data[begin + name_size : begin + name_size + extra_size]
        size, packed, header = self._long_fields(name, extra, size, packed, header)
        if method == _STORED and size != packed:
            self.fail(f"entry {name[:200]!r}: got {packed} bytes; expected {size}, as it is stored; the file is damaged")
        return name, following, header, _Entry(0, packed, size, crc, method, flags)

    def _long_fields(self, name: str, extra: memoryview, *fields: int) -> list[int]:
        """Numbers that do not fit into 32 bits stand in the extra field 1."""
        wanted = [k for k, value in enumerate(fields) if value == 0xFFFFFFFF]
        found = list(fields)
        position = 0
        while wanted and position + 4 <= len(extra):
            kind, length = struct.unpack_from("<2H", extra, position)
            if kind == 1 and length >= 8 * len(wanted) and position + 4 + length <= len(extra):
                for k, index in enumerate(wanted):
                    (found[index],) = struct.unpack_from("<Q", extra, position + 4 + 8 * k)
                return found
            position += 4 + length
        if wanted:
            self.fail(f"entry {name[:200]!r} lacks its sizes; the file is damaged")
        return found

    def _contents_start(self, name: str, header: int, limit: int) -> int:
        fields = self._unpack(_LOCAL_FORMAT, header, MAGIC, f"the header of entry {name[:200]!r}")
        start = header + struct.calcsize(_LOCAL_FORMAT) + fields[-2] + fields[-1]
        if start > limit:
            self.fail(f"entry {name[:200]!r} begins at {start}, outside of the archive; it is damaged")
        return start
