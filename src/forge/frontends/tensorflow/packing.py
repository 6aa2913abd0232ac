"""How files of TensorFlow pack bytes: numbers of variable length, and the format of Snappy."""

from __future__ import annotations

from forge.errors import ImportModelError

_LONG = 60
"""From here on, what is said of a literal's size is the number of bytes that say it."""
_DISTANCES = (0, 1, 2, 4)
"""How many bytes of its distance follow a copy, by its kind."""
_MAX_GROWTH = 32
"""An element of three bytes gives 64 at most."""


def varint(data: bytes | memoryview, place: int) -> tuple[int, int]:
    """A number, seven bits a byte, and the place after it.

    Raises:
        ImportModelError: it does not end.
    """
    number = 0
    for shift in range(0, 64, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise ImportModelError("a number does not end; the file is damaged")


def decompressed(data: memoryview) -> bytes:
    """What Snappy made smaller: literals, and copies of what came before.

    Raises:
        ImportModelError: the data are damaged.
    """
    length, place = varint(data, 0)
    if length > _MAX_GROWTH * len(data):
        raise _damaged()
    found = bytearray()
    while place < len(data):
        kind, number = data[place] & 3, data[place] >> 2
        if kind:
            after = place + 1 + _DISTANCES[kind]
            distance = int.from_bytes(data[place + 1 : after], "little")
            size = number + 1
            if kind == 1:
                distance, size = distance | number >> 3 << 8, 4 + (number & 7)
            if not 0 < distance <= len(found):
                raise _damaged()
            piece = found[len(found) - distance :][:size]
            found += (piece * (size // len(piece) + 1))[:size]
        else:
            start = place + 1 + max(0, number - _LONG + 1)
            size = (number if number < _LONG else int.from_bytes(data[place + 1 : start], "little")) + 1
            after = start + size
            found += data[start:after]
        place = after
        if place > len(data) or len(found) > length:
            raise _damaged()
    if len(found) != length:
        raise _damaged()
    return bytes(found)


def _damaged() -> ImportModelError:
    return ImportModelError("a compressed block is not what Snappy writes; the file is damaged")
