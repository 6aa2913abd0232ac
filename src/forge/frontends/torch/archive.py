"""Files that ``torch.export.save`` writes (``.pt2``): a zip archive of JSON and raw arrays, which are views of the mapped file.

Nothing in a file is trusted: sizes and places are compared with the file before anything is made of them. What is pickled
in it (example inputs, objects of custom classes) is never read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from forge import dtypes
from forge.errors import ImportModelError
from forge.frontends.formats import refuse_other_formats
from forge.frontends.model_files import mapped_file
from forge.frontends.torch import schema
from forge.frontends.torch.program import Program
from forge.frontends.torch.records import Record, parse

MAX_FILE_BYTES = 1 << 44
MAX_JSON_BYTES = 1 << 29
MAX_REPEATED_BYTES = 1 << 28
"""Bytes of all weights in whose place fewer bytes stand, because strides repeat them."""

_STORED, _ENCRYPTED = 0, 1
_END, _END64, _LOCATOR, _CENTRAL, _LOCAL = b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\1\2", b"PK\3\4"
_END_FORMAT, _END64_FORMAT, _LOCATOR_FORMAT = "<4s4H2LH", "<4sQ2H2L4Q", "<4sLQL"
_CENTRAL_FORMAT, _LOCAL_FORMAT = "<4s6H3L5H2L", "<4s5H3L2H"
_SAVE = "save it with torch.export.save of a current torch"
_PICKLED = "is of an earlier version of torch, with pickled weights, which Forge never loads"


@dataclass(frozen=True)
class _Entry:
    start: int
    size: int
    crc: int
    method: int
    flags: int


def read_program(path: Path) -> Program:
    """The program in a file; its weights are views of it.

    Raises:
        ImportModelError: it cannot be read, is damaged, or holds no program.
    """
    data = mapped_file(path, ".pt2", MAX_FILE_BYTES, "expected a program of torch.export.save")
    if data[:4] != _LOCAL:
        refuse_other_formats(data, path.name, "a .pt2 archive", "torch")
        raise ImportModelError(f"{path.name}: got {len(data)} bytes that are no zip archive; expected a .pt2 file; {_SAVE}")
    return _Archive(path.name, data).program()


class _Archive:
    def __init__(self, where: str, data: bytes | memoryview) -> None:
        self.where = where
        self.data = memoryview(data)
        self.entries = self._entries()
        self.repeated = 0

    def fail(self, message: str) -> NoReturn:
        raise ImportModelError(f"{self.where}: {message}")

    def program(self) -> Program:
        name = self._model_name()
        if f"data/weights/{name}.pt" in self.entries:
            self.fail(f"{_PICKLED}; {_SAVE}")
        payloads: dict[str, tuple[str, Record]] = {}
        for folder, kind in (("data/weights", "weights"), ("data/constants", "constants")):
            config = self._json(f"{folder}/{name}_{kind}_config.json")
            for label, payload in config["config"].pairs():
                if label in payloads:
                    raise payload.wrong("each weight once")
                payloads[label] = folder, payload
        return schema.read(self._json(f"models/{name}.json"), self.where, lambda label: self._array(label, payloads))

    def _model_name(self) -> str:
        """The name of the one program in the archive."""
        names = sorted(n[len("models/") : -len(".json")] for n in self.entries if n.startswith("models/") and n.endswith(".json"))
        if len(names) == 1:
            self._check_header()
            return names[0]
        if names:
            self.fail(f"holds {len(names)} programs ({', '.join(names)[:200]}); expected one; save each in a file of its own")
        if "serialized_exported_program.json" in self.entries:
            self.fail(f"{_PICKLED}; {_SAVE}")
        if any(n.startswith("data/aotinductor/") for n in self.entries):
            self.fail(f"holds code that AOTInductor compiled; expected a program; {_SAVE}")
        refuse_other_formats(self.data, self.where, "a .pt2 archive", "torch")
        self.fail(f"holds no program (models/NAME.json); {_SAVE}")

    def _check_header(self) -> None:
        kind = self._bytes("archive_format", 16) if "archive_format" in self.entries else b""
        if kind != b"pt2":
            self.fail(f"archive_format: got {kind[:16]!r}; expected b'pt2'; {_SAVE}")
        order = self._bytes("byteorder", 16) if "byteorder" in self.entries else b"little"
        if order != b"little":
            self.fail(f"byteorder: got {order[:16]!r}; expected b'little'; save it on a little-endian machine")

    def _json(self, name: str) -> Record:
        return parse(self._bytes(name, MAX_JSON_BYTES), f"{self.where}: {name}")

    def _bytes(self, name: str, limit: int) -> bytes:
        """The contents of an entry, whose checksum is compared."""
        view, entry = self._view(name), self.entries[name]
        if len(view) > limit:
            self.fail(f"entry {name!r}: got {len(view)} bytes; expected at most {limit}")
        if zlib.crc32(view) != entry.crc:
            self.fail(f"entry {name!r}: its checksum differs from what the archive says; the file is damaged: copy it again")
        return bytes(view)

    def _view(self, name: str) -> memoryview:
        entry = self.entries.get(name)
        if entry is None:
            self.fail(f"has no entry {name[:200]!r}; the file is incomplete; {_SAVE}")
        if entry.flags & _ENCRYPTED or entry.method != _STORED:
            self.fail(f"entry {name!r} is compressed or encrypted; expected stored ones; {_SAVE}")
        return self.data[entry.start : entry.start + entry.size]

    def _array(self, label: str, payloads: Mapping[str, tuple[str, Record]]) -> np.ndarray:
        """The weight called ``label``, as a view of the file."""
        if label not in payloads:
            self.fail(f"weight {label[:200]!r}: the archive has no data of it; {_SAVE}")
        folder, payload = payloads[label]
        if payload["use_pickle"].flag():
            self.fail(
                f"weight {label!r} is pickled (an object, or a subclass of tensors), and Forge loads no pickles; expected plain "
                "tensors; save exported.run_decompositions({}), which has them in the place of quantised weights"
            )
        meta = schema.array_meta(payload["tensor_meta"])
        dtype = dtypes.numpy_dtype(meta.dtype)
        view = self._view(f"{folder}/{payload['path_name'].text()}")
        if 0 in meta.shape:
            return np.empty(meta.shape, dtype)
        last = meta.offset + sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides))
        if (last + 1) * dtype.itemsize > len(view):
            self.fail(
                f"weight {label!r}: got {len(view)} bytes; {meta.dtype}{list(meta.shape)} of strides {list(meta.strides)} needs "
                f"{(last + 1) * dtype.itemsize}; the file is damaged, or was saved without data"
            )
        self._count_repeated(label, meta.elements * dtype.itemsize, len(view))
        strides = [stride * dtype.itemsize for stride in meta.strides]
        try:
            array: np.ndarray = np.ndarray(meta.shape, dtype, view, meta.offset * dtype.itemsize, strides)
        except ValueError as error:
            self.fail(f"weight {label!r}: {meta.dtype}{list(meta.shape)} is no array: {error}; the file is damaged")
        if meta.dtype == "bool" and array.view(np.uint8).max() > 1:
            self.fail(f"weight {label!r}: got bytes other than 0 and 1 in a tensor of type bool; the file is damaged")
        return array

    def _count_repeated(self, label: str, needed: int, present: int) -> None:
        self.repeated += needed if needed > present else 0
        if self.repeated > MAX_REPEATED_BYTES:
            self.fail(
                f"weight {label!r}: {needed} bytes stand for {present} in the file, and with the weights before it for more than "
                f"{MAX_REPEATED_BYTES}; expected weights that strides do not repeat"
            )

    def _entries(self) -> dict[str, _Entry]:
        """The entries by their names without the first folder, which is the archive's name."""
        start, count, end = self._directory()
        found: dict[str, _Entry] = {}
        position = start
        for _ in range(count):
            name, position, header, entry = self._directory_entry(position, end)
            place = self._contents_start(name, header, start)
            if place + entry.size > start:
                self.fail(f"entry {name[:200]!r}: {entry.size} bytes at {place} reach out of the archive; it is damaged")
            inner = name.partition("/")[2] or name
            if inner in found:
                self.fail(f"entry {name[:200]!r} is there twice; the file is damaged")
            found[inner] = _Entry(place, entry.size, entry.crc, entry.method, entry.flags)
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
        return name, following, header, _Entry(0, packed, crc, method, flags)

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
        fields = self._unpack(_LOCAL_FORMAT, header, _LOCAL, f"the header of entry {name[:200]!r}")
        start = header + struct.calcsize(_LOCAL_FORMAT) + fields[-2] + fields[-1]
        if start > limit:
            self.fail(f"entry {name[:200]!r} begins at {start}, outside of the archive; it is damaged")
        return start
