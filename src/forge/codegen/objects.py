"""The symbol tables of ELF object files."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
_UNDEFINED = 0


def symbols(code: bytes) -> Iterator[tuple[str, bool]]:
    """(name, whether it is defined here) for every named symbol of a 64-bit little-endian object file."""
    (table,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    headers = [_HEADER.unpack_from(code, table + k * size) for k in range(count)]
    for header in headers:
        if header[1] != _SYMBOL_TABLE:
            continue
        names = headers[header[6]][4]
        for at in range(header[4], header[4] + header[5], _SYMBOL.size):
            name, _, _, section, _, _ = _SYMBOL.unpack_from(code, at)
            if name:
                yield code[names + name:code.index(b"\0", names + name)].decode(), section != _UNDEFINED


def undefined_symbols(*codes: bytes) -> set[str]:
    """What these objects together need from elsewhere."""
    found = [item for code in codes for item in symbols(code)]
    return {name for name, _ in found} - {name for name, defined in found if defined}
