"""Headers of objects in an HDF5 file: the messages that say what an object is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from forge.frontends.keras.hdf5_bytes import Hdf5Bytes

DATASPACE, LINKS, DATATYPE, LINK, EXTERNAL, LAYOUT, FILTERS, ATTRIBUTE = 0x1, 0x2, 0x3, 0x6, 0x7, 0x8, 0xB, 0xC
CONTINUATION, SYMBOLS, ATTRIBUTES = 0x10, 0x11, 0x15
MAX_MESSAGES = 1 << 16
_SHARED = 2


@dataclass(frozen=True)
class Message:
    """A message: its kind, and where its contents are."""

    kind: int
    start: int
    size: int
    is_shared: bool


def messages(file: Hdf5Bytes, position: int) -> list[Message]:
    """The messages of the object at ``position``."""
    is_new = bytes(file.take(position, 4)) == b"OHDR"
    blocks = [_first_block_2(file, position) if is_new else _first_block_1(file, position)]
    tracks_order = bool(is_new and file.integer(position + 5, 1) & 4)
    found: list[Message] = []
    seen = set()
    while blocks:
        start, size = blocks.pop()
        if start in seen:
            file.damaged(f"the header at {position} has the part at {start} twice")
        seen.add(start)
        for message in _block(file, start, size, (6 if tracks_order else 4) if is_new else 8, is_new):
            if message.kind == CONTINUATION:
                at, length = file.offset(message.start), file.length(message.start + file.offset_size)
                if is_new:
                    file.expect(at, b"OCHK")
                    at, length = at + 4, length - 8
                blocks.append((at, length))
            found.append(message)
            if len(found) > MAX_MESSAGES:
                file.damaged(f"the header at {position} has more than {MAX_MESSAGES} messages")
    return found


def _first_block_1(file: Hdf5Bytes, position: int) -> tuple[int, int]:
    file.expect(position, b"\1")
    return position + 16, file.integer(position + 8, 4)


def _first_block_2(file: Hdf5Bytes, position: int) -> tuple[int, int]:
    file.expect(position + 4, b"\2")
    flags = file.integer(position + 5, 1)
    at = position + 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
    width = 1 << (flags & 3)
    return at + width, file.integer(at, width)


def _block(file: Hdf5Bytes, start: int, size: int, head: int, is_new: bool) -> Iterator[Message]:
    end = start + size
    file.take(start, size)
    while start + head <= end:
        kind = file.integer(start, 1 if is_new else 2)
        length = file.integer(start + (1 if is_new else 2), 2)
        flags = file.integer(start + (3 if is_new else 4), 1)
        if start + head + length > end:
            file.damaged(f"a message of {length} bytes at {start} reaches out of its header")
        yield Message(kind, start + head, length, bool(flags & _SHARED))
        start += head + length
