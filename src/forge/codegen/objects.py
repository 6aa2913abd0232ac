"""The symbol tables of ELF object files (64-bit, little-endian)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
_UNDEFINED = 0
_COMMON = 0xFFF2
_LOCAL, _GLOBAL = 0, 1
_HIDDEN = (1, 2)
_DATA = (1, 5, 6)
_OF_C = {"__cxa_atexit", "__cxa_finalize", "__cxa_thread_atexit_impl"}
"""Of the names of C++'s ABI, those that the C library has."""

_OF_LLVM = ("_ZNSt3__1", "_ZNKSt3__1", "_ZTINSt3__1", "_ZTVNSt3__1", "_ZSt3__1")
"""How names begin in LLVM's library of C++ only."""


class Definition(NamedTuple):
    """Of a symbol.

    Attributes:
        is_strong: there can be no other of the name.
        is_visible: those that link this into a library may see it.
        is_data: it is a variable.
    """

    is_strong: bool
    is_visible: bool
    is_data: bool


def symbols(code: bytes) -> Iterator[tuple[str, bool]]:
    """(name, whether it is defined here) for every named symbol."""
    for names, entries in _tables(code):
        for at in entries:
            name, _, _, section, _, _ = _SYMBOL.unpack_from(code, at)
            if name:
                yield _text(code, _section(code, names)[4] + name), section != _UNDEFINED


def definitions(code: bytes) -> dict[str, Definition]:
    """The global symbols that are defined here."""
    found = {}
    for names, entries in _tables(code):
        for at in entries:
            name, info, other, section, _, _ = _SYMBOL.unpack_from(code, at)
            if name and section != _UNDEFINED and info >> 4 != _LOCAL:
                strong = info >> 4 == _GLOBAL and section != _COMMON
                text = _text(code, _section(code, names)[4] + name)
                found[text] = Definition(strong, other & 3 not in _HIDDEN, info & 15 in _DATA)
    return found


def renamed(code: bytes, old: str, new: str) -> bytes:
    """``code`` whose symbol ``old`` is called ``new``: its table of names moves to the end of the file and grows."""
    for names, entries in _tables(code):
        header = list(_section(code, names))
        begin, size = header[4], header[5]
        found = [at for at in entries if _text(code, begin + _SYMBOL.unpack_from(code, at)[0]) == old]
        if found:
            header[4:6] = len(code), size + len(new) + 1
            made = bytearray(code + code[begin:begin + size] + new.encode() + b"\0")
            _HEADER.pack_into(made, _header_offset(code, names), *header)
            for at in found:
                struct.pack_into("<I", made, at, size)
            return bytes(made)
    return code


def _header_offset(code: bytes, section: int) -> int:
    (table,) = struct.unpack_from("<Q", code, 0x28)
    (size,) = struct.unpack_from("<H", code, 0x3A)
    return int(table + section * size)


def _section(code: bytes, section: int) -> tuple[int, ...]:
    return _HEADER.unpack_from(code, _header_offset(code, section))


def _tables(code: bytes) -> Iterator[tuple[int, range]]:
    """(section of their names, offsets of their entries) of the symbol tables."""
    (count,) = struct.unpack_from("<H", code, 0x3C)
    for _, kind, _, _, offset, size, names, *_ in (_section(code, k) for k in range(count)):
        if kind == _SYMBOL_TABLE:
            yield names, range(offset, offset + size, _SYMBOL.size)


def _text(code: bytes, at: int) -> str:
    return code[at:code.index(b"\0", at)].decode()


def undefined_symbols(*codes: bytes) -> set[str]:
    """What these objects together need from elsewhere."""
    found = [item for code in codes for item in symbols(code)]
    return {name for name, _ in found} - {name for name, defined in found if defined}


def cpp_library(*codes: bytes) -> str | None:
    """The library of C++ that these objects need: ``stdc++``, ``c++`` (LLVM's) or none."""
    needed = undefined_symbols(*codes) - _OF_C
    if any(name.startswith(_OF_LLVM) for name in needed):
        return "c++"
    return "stdc++" if any(name.startswith(("_Z", "__cxa_", "__gxx_")) for name in needed) else None
