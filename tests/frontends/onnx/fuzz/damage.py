"""Damage to the bytes of a file, which knows nothing of what they mean."""

from __future__ import annotations

import random
from collections.abc import Callable

Damage = Callable[[bytearray, random.Random], None]

MAX_CHUNK = 256
_NASTY = (b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\x80" * 12, b"\0" * 8, b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08")
"""Varints: -1, one without end, zero, 2^31 - 1, 2^31."""


def damage(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """``data`` with one to eight places damaged; chunks may come from ``other``."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not result:
            break
        kind = rng.choice(_KINDS)
        if kind is None:
            _graft(result, other, rng)
        else:
            kind(result, rng)
    return bytes(result)


def _chunk(data: bytes | bytearray, rng: random.Random) -> slice:
    begin = rng.randrange(len(data))
    return slice(begin, min(len(data), begin + rng.randint(1, rng.choice((4, 16, MAX_CHUNK)))))


def _flip(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] = rng.randrange(256)


def _step(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    data[place] = (data[place] + rng.choice((-1, 1))) % 256


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _insert(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    data[place:place] = rng.choice((rng.choice(_NASTY), rng.randbytes(rng.randint(1, 16))))


def _replace_varint(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    data[place : place + 1] = rng.choice(_NASTY)


def _delete(data: bytearray, rng: random.Random) -> None:
    del data[_chunk(data, rng)]


def _duplicate(data: bytearray, rng: random.Random) -> None:
    chunk = _chunk(data, rng)
    data[chunk.stop : chunk.stop] = bytes(data[chunk]) * rng.choice((1, 1, 2, 50))


def _move(data: bytearray, rng: random.Random) -> None:
    chunk = _chunk(data, rng)
    taken = bytes(data[chunk])
    del data[chunk]
    place = rng.randint(0, len(data))
    data[place:place] = taken


def _graft(data: bytearray, other: bytes, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    data[place:place] = other[_chunk(other, rng)] if other else b""


_KINDS: tuple[Damage | None, ...] = (
    _flip, _flip, _flip, _overwrite, _overwrite, _step, _step, _truncate, _insert, _replace_varint, _delete, _duplicate, _move,
    None,
)
