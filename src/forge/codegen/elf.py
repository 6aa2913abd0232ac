"""ELF64 files without an assembler or a linker where bytes of weights are concerned: those go through neither.

The linker sees an object whose section has the size of the weights and no contents (NOBITS), so that the symbol in it gets an
address after everything else. What it links is then laid out as a file in which the weights are at the second page, whatever the
size of the code: they can be written before there is any.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path

from forge.errors import CompileError, ToolchainError

_FILE = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)
_MACHINE = slice(18, 20)
_RELOCATABLE, _CURRENT = 1, 1
_PROGBITS, _SYMTAB, _STRTAB, _NOBITS = 1, 2, 3, 8
_WRITE, _ALLOC = 1, 2
_LOAD, _TABLE, _READABLE = 1, 6, 4
_GLOBAL_OBJECT, _HIDDEN = 0x11, 2


@dataclass(frozen=True)
class _Section:
    """A row of the section table, in the order of its fields in the file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


@dataclass(frozen=True)
class _Segment:
    """A row of the program table, in the order of its fields in the file."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    align: int


@dataclass(frozen=True)
class _Header:
    """The first bytes of the file, in the order of its fields there."""

    ident: bytes
    type: int
    machine: int
    version: int
    entry: int
    segments_at: int
    sections_at: int
    flags: int
    size: int
    segment_size: int
    segment_count: int
    section_size: int
    section_count: int
    names: int


def machine_of(code: bytes) -> int:
    """The architecture's number in a little-endian ELF64 object.

    Raises:
        CompileError: ``code`` is none.
    """
    if len(code) < _FILE.size or code[:6] != _IDENT[:6]:
        raise CompileError("link: the compiled code is not a little-endian ELF64 object; compile for a Linux target")
    return int.from_bytes(code[_MACHINE], "little")


def is_relocatable(code: bytes) -> bool:
    """Whether ``code`` is a little-endian ELF64 object file, not a library or a program."""
    return len(code) >= _FILE.size and code[:6] == _IDENT[:6] and int.from_bytes(code[16:18], "little") == _RELOCATABLE


def reserving_object(size: int, symbol: str, section: str, page: int, machine: int) -> bytes:
    """An object file whose section ``section`` is ``size`` bytes of address space, at the hidden global symbol ``symbol``."""
    symbols = _SYMBOL.pack(0, 0, 0, 0, 0, 0) + _SYMBOL.pack(1, _GLOBAL_OBJECT, _HIDDEN, 1, 0, size)
    strings = b"\0" + symbol.encode() + b"\0"
    names = b"\0".join(name.encode() for name in ("", section, ".note.GNU-stack", ".symtab", ".strtab", ".shstrtab")) + b"\0"
    contents = (b"", b"", b"", symbols, strings, names)
    offsets, body = [], b""
    for content in contents:
        body += bytes(-len(body) % 8)
        offsets.append(_FILE.size + len(body))
        body += content
    body += bytes(-len(body) % 8)
    starts = [0, *(at + 1 for at, byte in enumerate(names[:-1]) if not byte and at)]
    rows = [
        _Section(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        _Section(1, _NOBITS, _WRITE | _ALLOC, 0, offsets[1], size, 0, 0, page, 0),
        _Section(starts[1], _PROGBITS, 0, 0, offsets[2], 0, 0, 0, 1, 0),
        _Section(starts[2], _SYMTAB, 0, 0, offsets[3], len(symbols), 4, 1, 8, _SYMBOL.size),
        _Section(starts[3], _STRTAB, 0, 0, offsets[4], len(strings), 0, 0, 1, 0),
        _Section(starts[4], _STRTAB, 0, 0, offsets[5], len(names), 0, 0, 1, 0),
    ]
    header = _Header(_IDENT, _RELOCATABLE, machine, _CURRENT, 0, 0, _FILE.size + len(body), 0, _FILE.size, 0, 0, _SECTION.size,
                     len(rows), len(rows) - 1)
    return _packed(_FILE, header) + body + b"".join(_packed(_SECTION, row) for row in rows)


def _packed(layout: struct.Struct, row: _Header | _Section | _Segment) -> bytes:
    return layout.pack(*vars(row).values())


@dataclass(frozen=True)
class Layout:
    """A library in a file: ``head`` at its beginning, weights at the next page, ``body`` at ``body_offset``."""

    head: bytes
    body: bytes
    body_offset: int


def with_weights(linked: bytes, section: str) -> Layout:
    """The layout of a linked library in which the reserved ``section``, if it has one, is filled from the file.

    Before: [headers, code, data], a writable segment that ends with the reserved addresses, which are zero.
    After: [headers], weights, [headers, code, data]; a segment for the weights, which is only read.
    ``linked`` moves as a whole: only offsets in tables change. The section's alignment says what a page is.

    Raises:
        ToolchainError: the linker has put something after the reserved addresses.
    """
    header = _Header(*_FILE.unpack_from(linked))
    sections = [_Section(*row) for row in _rows(linked, _SECTION, header.sections_at, header.section_count)]
    names = linked[sections[header.names].offset :]
    place = next((k for k, s in enumerate(sections) if names.startswith(section.encode() + b"\0", s.name)), None)
    if place is None:
        return Layout(b"", linked, 0)
    weights = sections[place]
    segments = [_Segment(*row) for row in _rows(linked, _SEGMENT, header.segments_at, header.segment_count)]
    step = max(weights.align, *(s.align for s in segments))
    shift = -(-(weights.align + weights.size) // step) * step
    moved = [replace(s, offset=s.offset + shift) if s.kind else s for s in sections]
    moved[place] = replace(weights, kind=_PROGBITS, flags=_ALLOC, offset=weights.align)
    table = [_packed(_SEGMENT, s) for s in _with_segment(segments, weights, shift)]
    body = bytearray(linked)
    body[header.sections_at : header.sections_at + len(moved) * _SECTION.size] = b"".join(_packed(_SECTION, s) for s in moved)
    header = replace(header, segments_at=_FILE.size, segment_count=len(table), sections_at=header.sections_at + shift)
    return Layout(b"".join([_packed(_FILE, header), *table]), bytes(body), shift)


def _with_segment(segments: list[_Segment], weights: _Section, shift: int) -> list[_Segment]:
    """``segments``, ``shift`` further in the file, and one for the weights in place of reserved addresses at the end of one."""
    parts = [s for s in segments if s.kind != _TABLE]  # which does not move with the rest
    last = max(k for k, s in enumerate(parts) if s.kind == _LOAD)
    holder = parts[last]
    is_last = holder.address + holder.memory_size == weights.address + weights.size
    if not is_last or weights.address < holder.address + holder.file_size:
        raise ToolchainError(f"link: the linker put something after the weights at {weights.address:#x}; expected them to be the "
                             "last in memory; set CC to a compiler that links with GNU ld or lld")
    moved = [replace(s, offset=s.offset + shift) if s.file_size else s for s in parts]
    rest = replace(moved[last], memory_size=weights.address - holder.address)
    own = _Segment(_LOAD, _READABLE, weights.align, weights.address, weights.address, weights.size, weights.size, weights.align)
    return [*moved[:last], *([rest] if rest.memory_size else []), own, *moved[last + 1 :]]


def _rows(data: bytes, layout: struct.Struct, offset: int, count: int) -> list[tuple[int, ...]]:
    return list(layout.iter_unpack(data[offset : offset + count * layout.size]))


def write_layout(path: Path, layout: Layout) -> None:
    """Writes ``layout`` to the file ``path``, which may hold the weights already.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("r+b" if path.exists() else "wb") as stream:
        stream.write(layout.head)
        stream.seek(layout.body_offset)
        stream.write(layout.body)
