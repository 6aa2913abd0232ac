"""Contents of arrays in an HDF5 file, and texts of any length."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from forge.frontends.keras.hdf5_bytes import Hdf5Bytes
from forge.frontends.keras.hdf5_objects import DATASPACE, DATATYPE, EXTERNAL, FILTERS, LAYOUT, Message
from forge.frontends.keras.hdf5_types import element_type, shape

_COMPACT, _CONTIGUOUS, _CHUNKED = 0, 1, 2
_DEFLATE, _SHUFFLE = 1, 2
_MAX_EXPANSION = 1100
"""Deflate makes no more than about 1032 bytes of one."""
_MAX_LEVELS = 16
_FEW = 1 << 20
"""Bytes that an array of a damaged file may have in any case."""


def read_array(file: Hdf5Bytes, found: Sequence[Message], path: str) -> np.ndarray:
    """The array that an object's messages describe."""
    by_kind = {message.kind: message for message in found}
    missing = [kind for kind in (DATASPACE, DATATYPE, LAYOUT) if kind not in by_kind]
    if missing:
        file.fail(f"{path!r}: got a group; expected an array; the file is damaged, or of another model")
    if EXTERNAL in by_kind:
        file.refuse(f"{path!r}: got contents in another file")
    if any(by_kind[kind].is_shared for kind in (DATASPACE, DATATYPE, LAYOUT)):
        file.refuse(f"{path!r}: got a shared type")
    kind, sizes = element_type(file, by_kind[DATATYPE].start), shape(file, by_kind[DATASPACE].start)
    if kind.is_variable or kind.dtype.kind == "S":
        file.refuse(f"{path!r}: got texts")
    at = by_kind[LAYOUT].start
    version, layout = file.integer(at, 1), file.integer(at + 1, 1)
    size = math.prod(sizes) * kind.dtype.itemsize
    if version not in (3, 4) or layout == _CHUNKED and version != 3 or layout > _CHUNKED:
        file.refuse(f"{path!r}: got the layout {layout} of version {version}")
    if layout == _CHUNKED:
        return _chunked(file, at, by_kind.get(FILTERS), kind.dtype, sizes, path)
    if layout == _COMPACT:
        start, stored = at + 4, file.integer(at + 2, 2)
    else:
        start, stored = file.offset(at + 2), file.length(at + 2 + file.offset_size)
    if start < 0 and not size:
        start, stored = 0, 0
    if stored < size or start < 0:
        file.damaged(f"{path!r}: got {max(stored, 0)} bytes; expected the {size} of {sizes}")
    return np.frombuffer(file.take(start, size), kind.dtype).reshape(sizes)


def _chunked(
    file: Hdf5Bytes, at: int, filters: Message | None, dtype: np.dtype, sizes: tuple[int, ...], path: str
) -> np.ndarray:
    rank = file.integer(at + 2, 1) - 1
    tree = file.offset(at + 3)
    chunk = tuple(file.integer(at + 3 + file.offset_size + 4 * k, 4) for k in range(rank))
    if rank != len(sizes) or 0 in chunk:
        file.damaged(f"{path!r}: got chunks of {chunk} for the sizes {sizes}")
    steps = _filters(file, filters, path)
    if math.prod(sizes) * dtype.itemsize > _FEW + _MAX_EXPANSION * len(file.data):
        file.damaged(f"{path!r}: got the sizes {sizes} in a file of {len(file.data)} bytes")
    wanted = math.prod(-(-size // part) for size, part in zip(sizes, chunk))
    whole = math.prod(chunk) * dtype.itemsize
    if wanted and whole > _FEW + _MAX_EXPANSION * len(file.data):
        file.damaged(f"{path!r}: got chunks of {chunk} in a file of {len(file.data)} bytes")
    array, seen = np.zeros(sizes, dtype), set()
    for start, stored, mask, place in _chunks(file, tree, rank, path) if wanted else ():
        if start in seen or any(s % part or s >= size for s, part, size in zip(start, chunk, sizes)):
            file.damaged(f"{path!r}: got a chunk at {start}")
        seen.add(start)
        raw = _unfiltered(file, bytes(file.take(place, stored)), [s for k, s in enumerate(steps) if not mask >> k & 1], whole,
                          dtype.itemsize, path)
        part = np.frombuffer(raw, dtype).reshape(chunk)
        target = array[tuple(slice(s, s + c) for s, c in zip(start, chunk))]
        target[...] = part[tuple(slice(0, size) for size in target.shape)]
    if len(seen) != wanted:
        file.damaged(f"{path!r}: got {len(seen)} chunks; expected {wanted}")
    return array


def _filters(file: Hdf5Bytes, message: Message | None, path: str) -> list[int]:
    """Numbers of filters, in the order in which they were applied."""
    if message is None:
        return []
    version, count = file.integer(message.start, 1), file.integer(message.start + 1, 1)
    at, found = message.start + (8 if version == 1 else 2), []
    for _ in range(count):
        number = file.integer(at, 2)
        has_name = version == 1 or number >= 256
        name = file.integer(at + 2, 2) if has_name else 0
        at += 4 if has_name else 2
        values = file.integer(at + 2, 2)
        name = -(-name // 8) * 8 if version == 1 else name
        at += 4 + name + 4 * (values + (values & 1 if version == 1 else 0))
        if number not in (_DEFLATE, _SHUFFLE):
            file.refuse(f"{path!r}: got the filter {number} (supported: deflate, shuffle)")
        found.append(number)
    return found


def _chunks(file: Hdf5Bytes, tree: int, rank: int, path: str) -> Iterator[tuple[tuple[int, ...], int, int, int]]:
    """Where each chunk begins in the array, its bytes in the file, the filters that were left out, and its place."""
    pending, seen = [(tree, _MAX_LEVELS)], set()
    while pending:
        place, levels = pending.pop()
        if place in seen or not levels:
            file.damaged(f"{path!r}: its tree has a loop at {place}")
        seen.add(place)
        file.expect(place, b"TREE\1")
        level, count = file.integer(place + 5, 1), file.integer(place + 6, 2)
        first, key = place + 8 + 2 * file.offset_size, 8 + 8 * (rank + 1)
        for k in range(count):
            at = first + k * (key + file.offset_size)
            child = file.offset(at + key)
            if level:
                pending.append((child, levels - 1))
                continue
            start = tuple(file.integer(at + 8 + 8 * axis, 8) for axis in range(rank))
            yield start, file.integer(at, 4), file.integer(at + 4, 4), child


def _unfiltered(file: Hdf5Bytes, raw: bytes, steps: Sequence[int], size: int, width: int, path: str) -> bytes:
    for step in reversed(steps):
        if step == _DEFLATE:
            try:
                raw = zlib.decompressobj().decompress(raw, size + 1)
            except zlib.error as error:
                file.damaged(f"{path!r}: {error}")
        else:
            raw = np.frombuffer(raw[: len(raw) // width * width], np.uint8).reshape(width, -1).T.tobytes()
    if len(raw) != size:
        file.damaged(f"{path!r}: got a chunk of {len(raw)} bytes; expected {size}")
    return raw


def heap_object(file: Hdf5Bytes, reference: bytes) -> bytes:
    """A text of any length, which is in a heap of the file."""
    size = int.from_bytes(reference[:4], "little")
    place = file.base + int.from_bytes(reference[4 : 4 + file.offset_size], "little")
    number = int.from_bytes(reference[4 + file.offset_size :], "little")
    if not size:
        return b""
    file.expect(place, b"GCOL\1")
    end = place + file.length(place + 8)
    at, head = place + 8 + file.length_size, 8 + file.length_size
    while at + head <= end:
        length = file.length(at + 8)
        if file.integer(at, 2) == number:
            if length < size:
                break
            return bytes(file.take(at + head, size))
        at += head + -(-length // 8) * 8
    file.damaged(f"a heap at {place} has no object {number} of {size} bytes")
