"""Relocatable ELF64 files that hold one array of bytes, written without an assembler, which would copy it twice."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from forge.errors import CompileError

Data = bytes | bytearray | memoryview

_FILE = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)
_MACHINE = slice(18, 20)
_RELOCATABLE, _CURRENT = 1, 1
_PROGBITS, _SYMTAB, _STRTAB, _ALLOC = 1, 2, 3, 2
_GLOBAL_OBJECT, _HIDDEN = 0x11, 2


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    size: int
    flags: int = 0
    link: int = 0
    info: int = 0
    align: int = 1
    entry: int = 0


def machine_of(code: bytes) -> int:
    """The architecture's number in a little-endian ELF64 object.

    Raises:
        CompileError: ``code`` is none.
    """
    if len(code) < _FILE.size or code[:6] != _IDENT[:6]:
        raise CompileError("link: the compiled code is not a little-endian ELF64 object; compile for a Linux target")
    return int.from_bytes(code[_MACHINE], "little")


def write_data_object(path: Path, data: Data, symbol: str, section: str, align: int, machine: int) -> None:
    """Writes an object file whose read-only section ``section`` is ``data``, at the hidden global symbol ``symbol``.

    Raises:
        OSError: the file cannot be written.
    """
    symbols = _SYMBOL.pack(0, 0, 0, 0, 0, 0) + _SYMBOL.pack(1, _GLOBAL_OBJECT, _HIDDEN, 1, 0, len(data))
    strings = b"\0" + symbol.encode() + b"\0"
    names = b"\0".join(name.encode() for name in ("", section, ".note.GNU-stack", ".symtab", ".strtab", ".shstrtab")) + b"\0"
    sections = [
        _Section("", 0, 0, align=0),
        _Section(section, _PROGBITS, len(data), _ALLOC, align=align),
        _Section(".note.GNU-stack", _PROGBITS, 0),
        _Section(".symtab", _SYMTAB, len(symbols), link=4, info=1, align=8, entry=_SYMBOL.size),
        _Section(".strtab", _STRTAB, len(strings)),
        _Section(".shstrtab", _STRTAB, len(names)),
    ]
    offsets, end = [0], _FILE.size
    for part in sections[1:]:
        end += -end % part.align
        offsets.append(end)
        end += part.size
    table = end + -end % 8
    header = _FILE.pack(_IDENT, _RELOCATABLE, machine, _CURRENT, 0, 0, table, 0, _FILE.size, 0, 0, _SECTION.size, len(sections),
                        len(sections) - 1)
    with path.open("wb") as stream:
        stream.write(header)
        for offset, content in zip(offsets[1:], (data, b"", symbols, strings, names), strict=True):
            stream.write(bytes(offset - stream.tell()))
            stream.write(content)
        stream.write(bytes(table - stream.tell()))
        for part, offset in zip(sections, offsets, strict=True):
            place = names.index(part.name.encode() + b"\0") if part.name else 0
            stream.write(_SECTION.pack(place, part.kind, part.flags, 0, offset, part.size, part.link, part.info, part.align,
                                       part.entry))
