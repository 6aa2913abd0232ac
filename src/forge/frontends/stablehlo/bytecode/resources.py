"""Resources of bytecode: contents of constants, beside the attributes that name them."""

from __future__ import annotations

from forge.frontends.stablehlo.bytecode.cursor import Cursor

_BLOB = 0


def read_resources(sizes: Cursor, contents: Cursor) -> list[memoryview | None]:
    """Contents of the resources of dialects, by their numbers; None for those that are not bytes."""
    for _ in range(sizes.count()):  # groups of the program that wrote the file, which say nothing of the module
        sizes.varint()
        _group(sizes, contents)
    found: list[memoryview | None] = []
    while sizes.remaining:
        sizes.varint()
        found += _group(sizes, contents)
    return found


def _group(sizes: Cursor, contents: Cursor) -> list[memoryview | None]:
    return [_entry(sizes, contents) for _ in range(sizes.count())]


def _entry(sizes: Cursor, contents: Cursor) -> memoryview | None:
    sizes.varint()
    size, kind = sizes.varint(), sizes.byte()
    end = contents.position + len(contents.bytes(size))
    if kind != _BLOB or not size:
        return None
    item = Cursor(contents.data, end - size, end, contents.where)
    alignment, count = item.varint(), item.varint()
    item.align(alignment)
    return item.bytes(count)
