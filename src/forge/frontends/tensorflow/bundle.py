"""Checkpoints of TensorFlow: an index in the form of a sorted table of strings, and files with the tensors.

The table is that of LevelDB: blocks of entries whose keys share beginnings, an index of blocks, and a footer. Everything is
compared with the files before it is read.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from forge.errors import ImportModelError
from forge.frontends.convert import located
from forge.frontends.model_files import data_file, mapped_file
from forge.frontends.tensorflow.messages import dtype_of, parse
from forge.frontends.tensorflow.packing import decompressed, varint
from forge.frontends.tensorflow.tensors import from_bytes

_FOOTER, _MAGIC = 48, 0xDB4775248B80FB57
_TRAILER = 5
"""Bytes after a block: its compression, and a checksum."""
_PLAIN, _SNAPPY = 0, 1
_MAX_SHARDS, _MAX_KEY = 1 << 16, 1 << 12
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Bundle:
    """The tensors of a checkpoint.

    Attributes:
        entries: their descriptions, by key.
    """

    def __init__(self, prefix: Path) -> None:
        """Raises ImportModelError: the index is damaged, or missing."""
        self._prefix = prefix
        index = prefix.with_name(f"{prefix.name}.index")
        self._where = str(index)
        self._data = memoryview(mapped_file(index, ".index", sys.maxsize, "")).cast("B")
        self._shards: dict[int, memoryview] = {}
        self.entries: dict[str, Any] = {}
        self._count = 1
        with located(self._where):
            self._read()

    def _read(self) -> None:
        for key, value in self._table():
            if not key:
                header = parse("BundleHeaderProto", value, "header of a checkpoint")
                self._count = header.num_shards
                if header.endianness:
                    raise self._damaged("its numbers are big-endian")
                if not 0 < self._count <= _MAX_SHARDS:
                    raise self._damaged(f"it has {self._count} files")
            else:
                self.entries[key.decode("utf-8", "replace")] = parse("BundleEntryProto", value, "entry of a checkpoint")

    def array(self, key: str) -> np.ndarray:
        """The contents of a tensor.

        Raises:
            ImportModelError: it is not there, is divided, or is outside of its file.
        """
        if key not in self.entries:
            raise ImportModelError(f"{self._where}: has no tensor {key!r}; the checkpoint does not belong to the model")
        entry = self.entries[key]
        if entry.slices:
            raise ImportModelError(f"{self._where}: tensor {key!r} is stored in slices; expected whole tensors; save it again")
        dtype = dtype_of(entry.dtype)
        if any(d.size < 0 for d in entry.shape.dim) or dtype in ("resource", "variant"):
            raise self._damaged(f"tensor {key!r} is {dtype} of unknown sizes")
        shape = tuple(d.size for d in entry.shape.dim)
        data = self._bytes(entry, key)
        if dtype != "string":
            return from_bytes(data, dtype, shape)
        found = np.empty(math.prod(shape), object)
        found[:] = [text.decode("utf-8", "replace") for text in _texts(data, shape)]
        return found.reshape(shape)

    def objects(self) -> Any:
        """The ``TrackableObjectGraph``, empty where there is none."""
        entry = self.entries.get(_OBJECTS)
        found = parse("TrackableObjectGraph", b"", "graph of objects")
        if entry is None or dtype_of(entry.dtype) != "string" or entry.shape.dim:
            return found
        data = self._bytes(entry, _OBJECTS)
        (text,) = _texts(data, ())
        return parse("TrackableObjectGraph", text, "graph of objects")

    def _bytes(self, entry: Any, key: str) -> memoryview:
        shard = self._shard(entry.shard_id)
        if not 0 <= entry.offset <= entry.offset + entry.size <= len(shard) or entry.size < 0:
            raise self._damaged(f"tensor {key!r} lies outside of its file")
        return shard[entry.offset : entry.offset + entry.size]

    def _shard(self, number: int) -> memoryview:
        if number not in self._shards:
            if not 0 <= number < self._count:
                raise self._damaged(f"a tensor is in file {number} of {self._count}")
            name = f"{self._prefix.name}.data-{number:05}-of-{self._count:05}"
            path = data_file(name, (self._prefix.parent,), self._where)
            self._shards[number] = memoryview(mapped_file(path, "data", sys.maxsize, "")).cast("B")
        return self._shards[number]

    def _damaged(self, what: str) -> ImportModelError:
        return ImportModelError(f"{self._where}: {what}; the checkpoint is damaged: copy it again")

    def _table(self) -> Iterator[tuple[bytes, bytes]]:
        if len(self._data) < _FOOTER:
            raise self._damaged("it is too short")
        footer = self._data[-_FOOTER:]
        if struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
            raise self._damaged("it does not end as an index does")
        _, place = self._handle(footer, 0)
        (start, size), _ = self._handle(footer, place)
        end = 0
        for _, handle in self._block(start, size):
            (start, size), _ = self._handle(memoryview(handle), 0)
            if start < end:
                raise self._damaged("its blocks overlap")
            end = start + size
            yield from self._block(start, size)

    @staticmethod
    def _handle(data: memoryview, place: int) -> tuple[tuple[int, int], int]:
        start, place = varint(data, place)
        size, place = varint(data, place)
        return (start, size), place

    def _contents(self, start: int, size: int) -> memoryview:
        """A block as it was before it was compressed."""
        if start + size + _TRAILER > len(self._data):
            raise self._damaged("a block lies outside of it")
        block, compression = self._data[start : start + size], self._data[start + size]
        if compression not in (_PLAIN, _SNAPPY):
            raise self._damaged(f"a block has compression {compression}")
        found = block if compression == _PLAIN else memoryview(decompressed(block))
        if len(found) < 4:
            raise self._damaged("a block is too short")
        return found

    def _block(self, start: int, size: int) -> Iterator[tuple[bytes, bytes]]:
        block = self._contents(start, size)
        (restarts,) = struct.unpack("<I", block[-4:])
        end, place, key = len(block) - 4 - 4 * restarts, 0, b""
        if end < 0:
            raise self._damaged("a block has too many restarts")
        while place < end:
            shared, place = varint(block, place)
            rest, place = varint(block, place)
            length, place = varint(block, place)
            if shared > len(key) or shared + rest > _MAX_KEY or place + rest + length > end:
                raise self._damaged("an entry lies outside of its block")
            key = key[:shared] + bytes(block[place : place + rest])
            yield key, bytes(block[place + rest : place + rest + length])
            place += rest + length


def _texts(data: memoryview, shape: tuple[int, ...]) -> list[bytes]:
    """Texts: their lengths, a checksum of four bytes, then all of them."""
    count, lengths, place = math.prod(shape), [], 0
    if count > len(data):
        raise ImportModelError(f"a tensor of texts with sizes {shape} has {len(data)} bytes; the checkpoint is damaged")
    for _ in range(count):
        number, place = varint(data, place)
        lengths.append(number)
    place += 4
    found = []
    for length in lengths:
        if place + length > len(data):
            raise ImportModelError("a tensor of texts ends too early; the checkpoint is damaged")
        found.append(bytes(data[place : place + length]))
        place += length
    return found
