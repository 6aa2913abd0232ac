"""Reads modules of StableHLO from MLIR's bytecode, in the versioned dialect that portable artifacts are written in."""

from __future__ import annotations

import re

from forge.errors import ImportModelError
from forge.frontends.stablehlo.assemble import module_of
from forge.frontends.stablehlo.bytecode import builtin, vhlo
from forge.frontends.stablehlo.bytecode.cursor import Cursor
from forge.frontends.stablehlo.bytecode.operations import OperationReader
from forge.frontends.stablehlo.bytecode.tables import DIALECTS, ENTRIES, ENTRY_SIZES, IR, PROPERTIES, STRINGS, Tables
from forge.frontends.stablehlo.module import StablehloModule

MAGIC = b"ML\xefR"
MAX_VERSION = 6
_DECODERS = {"builtin": (builtin.attribute, builtin.kind), "vhlo": (vhlo.attribute, vhlo.kind)}
_PRODUCER = re.compile(r"StableHLO_v(\d{1,4})\.(\d{1,4})\.(\d{1,4})\Z")


def read_bytecode(data: bytes | memoryview, where: str) -> StablehloModule:
    """The module that a portable artifact has.

    Args:
        data: of any version of StableHLO since 0.9.
        where: what it is called, for messages.

    Raises:
        ImportModelError: it is damaged, or of another dialect.
    """
    cursor = Cursor(memoryview(data).cast("B"), 0, len(data), where)
    if bytes(cursor.bytes(min(len(data), 4))) != MAGIC:
        raise ImportModelError(f"{where}: is not bytecode of MLIR, which begins with {MAGIC!r}")
    version = cursor.varint()
    if version > MAX_VERSION:
        cursor.fail(f"got version {version} of MLIR's bytecode; expected {MAX_VERSION} at most: write it for an older StableHLO")
    producer = _PRODUCER.match(cursor.terminated())
    sections: dict[int, Cursor] = {}
    while cursor.remaining:
        number, contents = cursor.section()
        if number in sections:
            cursor.fail(f"got section {number} twice")
        sections[number] = contents
    missing = [number for number in (STRINGS, DIALECTS, ENTRIES, ENTRY_SIZES, IR) if number not in sections]
    if missing:
        cursor.fail(f"sections {missing} are missing; expected a whole file")
    tables = Tables(sections, version, _DECODERS, where)
    properties = _properties(sections[PROPERTIES]) if PROPERTIES in sections else []
    operations = OperationReader(tables, properties, where).top(sections[IR])
    numbers = (int(producer[1]), int(producer[2]), int(producer[3])) if producer else None
    return module_of(operations, where, numbers)


def _properties(section: Cursor) -> list[Cursor]:
    """Where each set of properties is."""
    found: list[Cursor] = []
    for _ in range(section.count()):
        size = len(section.blob())
        found.append(Cursor(section.data, section.position - size, section.position, section.where))
    return found
