"""The section of resources at the end of a text: ``{-# dialect_resources: { builtin: { name: "0x..." } } #-}``."""

from __future__ import annotations

from typing import Any

from forge.frontends.stablehlo.text.attributes import AttributeReader

_ALIGNMENT_BYTES = 4


def read_resources(text: str, begin: int, where: str) -> dict[str, bytes]:
    """Contents of resources of all dialects, by their names."""
    reader = AttributeReader(text, where)
    reader.jump(begin)
    sections = _section(reader, "{-#", "#-}")
    found = sections.get("dialect_resources", {})
    if not isinstance(found, dict):
        reader.fail("got other resources; expected dialect_resources: { builtin: { name: \"0x...\" } }")
    return {name: blob for entries in found.values() if isinstance(entries, dict) for name, blob in entries.items()
            if isinstance(blob, bytes)}


def _section(reader: AttributeReader, opening: str, closing: str) -> dict[str, Any]:
    """``name: value`` with commas between them; a value is such a section or the bytes of a resource."""
    reader.enter()
    reader.expect(opening)
    found: dict[str, Any] = {}
    while not reader.accept(closing):
        name = reader.string() if reader.kind == "string" else reader.take_kind("word", "the name of a resource")
        reader.expect(":")
        if reader.at("{"):
            found[name] = _section(reader, "{", "}")
        elif reader.kind == "string":
            found[name] = _contents(reader)
        else:
            found[name] = reader.attribute()
        if not reader.accept(",") and not reader.at(closing):
            reader.unexpected(f"',' or {closing!r}")
    reader.leave()
    return found


def _contents(reader: AttributeReader) -> bytes | str:
    """A resource begins with the alignment of what follows; other strings stay."""
    token = reader.take()
    return reader.hexadecimal(token)[_ALIGNMENT_BYTES:] if token.startswith('"0x') else token
