"""The tables of bytecode that operations refer to: strings, names of operations, attributes and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forge.errors import ImportModelError
from forge.frontends.scope import MAX_NESTING
from forge.frontends.stablehlo.bytecode.cursor import Cursor
from forge.frontends.stablehlo.bytecode.resources import read_resources
from forge.frontends.stablehlo.module import Opaque, Symbol, Type
from forge.frontends.stablehlo.spelling import MAX_PARTS
from forge.frontends.stablehlo.text.attributes import AttributeReader

STRINGS, DIALECTS, ENTRIES, ENTRY_SIZES, IR, RESOURCES, RESOURCE_SIZES, _, PROPERTIES = range(9)
"""Numbers of sections; those of versions of dialects are not needed."""

_OPAQUE = ("sdy",)
"""Dialects of which attributes may be there whose contents do not matter on one device."""

Decoder = Callable[["Decoding"], Any]
Entry = tuple[str, bool, Cursor]


class Tables:
    """Tables of one file.

    Attributes:
        operations: dialect and name of each kind of operation, and whether the writer knew it.
    """

    def __init__(
        self, sections: dict[int, Cursor], version: int, decoders: Mapping[str, tuple[Decoder, Decoder]], where: str,
    ) -> None:
        self.version = version
        self.where = where
        self.decoders = decoders
        self.strings = _strings(sections[STRINGS])
        self._decoded: dict[int, str] = {}
        self._dialects: list[str] = []
        self.operations: list[tuple[str, str, bool]] = []
        self._read_dialects(sections[DIALECTS])
        self._attributes, self._types = self._read_entries(sections[ENTRY_SIZES], sections[ENTRIES])
        self._values: dict[tuple[bool, int], tuple[Any, int]] = {}
        self._depth = 0
        self.resources: list[memoryview | None] = []
        if RESOURCES in sections and RESOURCE_SIZES in sections:
            self.resources = read_resources(sections[RESOURCE_SIZES], sections[RESOURCES])

    def string(self, index: int) -> str:
        if index not in self._decoded:
            if index >= len(self.strings):
                raise ImportModelError(f"{self.where}: got string {index}; expected one of {len(self.strings)}")
            self._decoded[index] = bytes(self.strings[index]).decode("utf-8", "surrogateescape")
        return self._decoded[index]

    def attribute(self, index: int) -> Any:
        return self.value(False, index)[0]

    def type(self, index: int) -> Type:
        kind: Type = self.value(True, index)[0]
        return kind

    def value(self, is_type: bool, index: int) -> tuple[Any, int]:
        """An attribute or type, and how many parts it has."""
        known = self._values.get((is_type, index))
        if known is not None:
            return known
        entries = self._types if is_type else self._attributes
        if index >= len(entries):
            kind = "type" if is_type else "attribute"
            raise ImportModelError(f"{self.where}: got {kind} {index}; expected one of {len(entries)}")
        dialect, is_encoded, cursor = entries[index]
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise ImportModelError(f"{self.where}: attributes or types are nested more than {MAX_NESTING} deep, or in themselves")
        decoding = Decoding(Cursor(cursor.data, cursor.position, cursor.end, self.where), self)
        found = decoding.decode(dialect, is_type) if is_encoded else decoding.text(is_type)
        self._depth -= 1
        if decoding.parts > MAX_PARTS:
            raise ImportModelError(f"{self.where}: an attribute or type has more than {MAX_PARTS} parts")
        self._values[is_type, index] = found, decoding.parts
        return found, decoding.parts

    def _read_dialects(self, section: Cursor) -> None:
        for _ in range(section.count()):
            if self.version < 1:
                name, has_version = section.varint(), False
            else:
                name, has_version = section.flagged()
            if has_version:
                section.section()
            self._dialects.append(self.string(name))
        if self.version >= 4:
            section.count()
        while section.remaining:
            dialect = self._dialect(section)
            for _ in range(section.count()):
                name, is_known = section.flagged() if self.version >= 5 else (section.varint(), True)
                self.operations.append((dialect, self.string(name), is_known))

    def _dialect(self, cursor: Cursor) -> str:
        index = cursor.varint()
        if index >= len(self._dialects):
            cursor.fail(f"got dialect {index}; expected one of {len(self._dialects)}")
        return self._dialects[index]

    def _read_entries(self, sizes: Cursor, contents: Cursor) -> tuple[list[Entry], list[Entry]]:
        """Of attributes and of types: the dialect, whether it encodes them itself, and where they are."""
        count, type_count = sizes.count(), sizes.count()
        entries: list[Entry] = []
        while len(entries) < count + type_count:
            dialect = self._dialect(sizes)
            for _ in range(sizes.count()):
                size, is_encoded = sizes.flagged()
                begin = contents.position
                contents.bytes(size)
                entries.append((dialect, is_encoded, Cursor(contents.data, begin, begin + size, self.where)))
        if len(entries) != count + type_count:
            sizes.fail(f"got {len(entries)} attributes and types; expected {count + type_count}")
        return entries[:count], entries[count:]


class Decoding(Cursor):
    """One attribute or type being read.

    Attributes:
        parts: how many parts it has with those that it refers to.
    """

    __slots__ = ("parts", "tables")

    def __init__(self, cursor: Cursor, tables: Tables) -> None:
        super().__init__(cursor.data, cursor.position, cursor.end, cursor.where)
        self.tables = tables
        self.parts = 1

    def decode(self, dialect: str, is_type: bool) -> Any:
        if dialect not in self.tables.decoders:
            if dialect in _OPAQUE and not is_type:
                return Opaque(f"#{dialect}")
            self.fail(
                f"got bytecode of dialect {dialect!r} itself; expected a portable artifact: write it with "
                "stablehlo.serialize_portable_artifact (jax.export does), or as text")
        found = self.tables.decoders[dialect][is_type](self)
        if self.remaining:
            self.fail(f"{dialect}: got {self.remaining} bytes behind {'a type' if is_type else 'an attribute'}; expected none")
        return found

    def text(self, is_type: bool) -> Any:
        """One that its dialect has no encoding for."""
        reader = AttributeReader(self.terminated(), self.where)
        return reader.type() if is_type else reader.attribute()

    def attribute(self) -> Any:
        return self._reference(False, self.varint())

    def type(self) -> Type:
        kind: Type = self._reference(True, self.varint())
        return kind

    def _reference(self, is_type: bool, index: int) -> Any:
        found, parts = self.tables.value(is_type, index)
        self.parts += parts
        return found

    def optional(self) -> Any:
        """An attribute that may be absent."""
        index, is_present = self.flagged()
        return self._reference(False, index) if is_present else None

    def attributes(self) -> list[Any]:
        return self.list(self.attribute)

    def types(self) -> list[Type]:
        return self.list(self.type)

    def string(self) -> str:
        return self.tables.string(self.varint())

    def name(self) -> str:
        """An attribute that is a string, or the name of a symbol."""
        found = self.attribute()
        if isinstance(found, Symbol):
            return found.name
        if not isinstance(found, str):
            self.fail("got another attribute; expected a string")
        return found

    def dictionary(self) -> dict[str, Any]:
        return dict(self.list(lambda: (self.name(), self.attribute())))


def _strings(section: Cursor) -> list[memoryview]:
    """All strings. Their sizes come in reverse order, with the zero behind each."""
    sizes = [section.varint() for _ in range(section.count())]
    if sum(sizes) != section.remaining or 0 in sizes:
        section.fail(f"got {section.remaining} bytes of strings; expected {sum(sizes)}, as their sizes say")
    return [section.bytes(size)[:-1] for size in reversed(sizes)]
