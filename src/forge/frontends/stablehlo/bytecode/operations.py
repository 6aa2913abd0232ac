"""Operations of bytecode, with their blocks and regions."""

from __future__ import annotations

from typing import Any

from forge.frontends.scope import MAX_NESTING
from forge.frontends.stablehlo import spelling
from forge.frontends.stablehlo.bytecode import builtin, upgrade
from forge.frontends.stablehlo.bytecode.cursor import Cursor
from forge.frontends.stablehlo.bytecode.properties import PROPERTIES
from forge.frontends.stablehlo.bytecode.tables import IR, Decoding, Tables
from forge.frontends.stablehlo.module import Block, Operation, Value

_HAS_ATTRIBUTES, _HAS_RESULTS, _HAS_OPERANDS, _HAS_SUCCESSORS = 1, 2, 4, 8
_HAS_REGIONS, _HAS_USES, _HAS_PROPERTIES = 16, 32, 64
_CAST = "builtin.unrealized_conversion_cast"
_MODULE_PROPERTIES = ("sym_name", "sym_visibility")


class Scope:
    """Values by their numbers, from an isolated region on. A region has a range of them for its own.

    Attributes:
        size: how many numbers the regions have that the reader is in.
    """

    def __init__(self) -> None:
        self.values: dict[int, Value] = {}
        self.size = 0


class OperationReader:
    """Reads the section of operations."""

    def __init__(self, tables: Tables, properties: list[Cursor], where: str) -> None:
        self.tables = tables
        self.properties = properties
        self.where = where
        self.depth = 0

    def top(self, cursor: Cursor) -> list[Operation]:
        """The operations at the top of the file."""
        block, _ = self._block(cursor, Scope(), 0, "")
        return block.operations

    def _block(self, cursor: Cursor, scope: Scope, following: int, parent: str) -> tuple[Block, int]:
        """A block whose values have numbers from ``following`` on; and the number after its last one."""
        count, has_arguments = cursor.flagged()
        if count > cursor.remaining:
            cursor.fail(f"got a block of {count} operations; expected at most {cursor.remaining}, for which there are bytes")
        block = Block()
        if has_arguments:
            block.arguments = cursor.list(lambda: self._argument(cursor))
            if self.tables.version >= 3 and cursor.byte():
                self._skip_uses(cursor, len(block.arguments))
        following = self._define(scope, following, block.arguments)
        for _ in range(count):
            operation, following = self._operation(cursor, scope, following, parent)
            if operation.name != _CAST:
                block.operations.append(operation)
        return block, following

    def _define(self, scope: Scope, following: int, values: list[Value]) -> int:
        for value in values:
            scope.values[following] = value
            following += 1
        return following

    def _argument(self, cursor: Cursor) -> Value:
        index, has_location = cursor.flagged() if self.tables.version >= 4 else (cursor.varint(), True)
        return Value(self.tables.type(index), location=self._location(cursor) if has_location else "")

    def _location(self, cursor: Cursor) -> str:
        found = self.tables.attribute(cursor.varint())
        return found.text if isinstance(found, builtin.Location) else ""

    def _skip_uses(self, cursor: Cursor, count: int) -> None:
        """Orders of uses of values, which compilers that rewrite in place care for."""
        for _ in range(cursor.count() if count > 1 else 1):
            if count > 1:
                cursor.varint()
            pairs, _ = cursor.flagged()
            if pairs > cursor.remaining:
                cursor.fail(f"got an order of {pairs} uses; expected at most {cursor.remaining}")
            for _ in range(pairs):
                cursor.varint()

    def _operation(self, cursor: Cursor, scope: Scope, following: int, parent: str) -> tuple[Operation, int]:
        index, mask = cursor.varint(), cursor.byte()
        if index >= len(self.tables.operations):
            cursor.fail(f"got operation {index}; expected one of {len(self.tables.operations)}")
        dialect, name, is_known = self.tables.operations[index]
        is_versioned = dialect == "vhlo"
        operation = Operation(upgrade.name_of(name, parent) if is_versioned else spelling.operation_name(f"{dialect}.{name}"))
        operation.location = self._location(cursor)
        if mask & _HAS_ATTRIBUTES:
            operation.attributes = self._dictionary(cursor, self.tables.attribute(cursor.varint()))
        if mask & _HAS_PROPERTIES:
            operation.attributes = {**operation.attributes, **self._properties(cursor, f"{dialect}.{name}", is_known)}
        if mask & _HAS_RESULTS:
            operation.results = cursor.list(lambda: Value(self.tables.type(cursor.varint())))
        if mask & _HAS_OPERANDS:
            operation.operands = cursor.list(lambda: self._value(cursor, scope))
        if mask & _HAS_SUCCESSORS:
            cursor.fail(f"{operation.name}: got blocks that follow it; expected structured control flow (while, if, case)")
        if mask & _HAS_USES and operation.results:
            self._skip_uses(cursor, len(operation.results))
        defined = self._cast(cursor, operation) if operation.name == _CAST else operation.results
        following = self._define(scope, following, defined)
        if mask & _HAS_REGIONS:
            self._regions(cursor, scope, operation)
        if is_versioned:
            operation.attributes = upgrade.attributes_of(operation.name, operation.attributes, cursor.fail)
        operation.attributes = spelling.attributes(operation.name, operation.attributes, cursor.fail)
        return operation, following

    def _cast(self, cursor: Cursor, operation: Operation) -> list[Value]:
        """What a cast gives, which artifacts have between types of VHLO and the same ones of other dialects."""
        if [value.type for value in operation.operands] != [value.type for value in operation.results]:
            cursor.fail(f"{_CAST}: got operands of other types than its results; expected the same")
        return operation.operands

    def _value(self, cursor: Cursor, scope: Scope) -> Value:
        index = cursor.varint()
        if index not in scope.values:
            cursor.fail(f"got value {index}, which is not defined before it is used")
        return scope.values[index]

    def _dictionary(self, cursor: Cursor, found: Any) -> dict[str, Any]:
        if not isinstance(found, dict):
            cursor.fail("got attributes of an operation that are not a dictionary")
        return found

    def _properties(self, cursor: Cursor, name: str, is_known: bool) -> dict[str, Any]:
        """Attributes that an operation has by place: an attribute where the writer did not know the operation."""
        index = cursor.varint()
        if not is_known:
            return self._dictionary(cursor, self.tables.attribute(index))
        if index >= len(self.properties):
            cursor.fail(f"got properties {index}; expected one of {len(self.properties)}")
        item = Decoding(self.properties[index], self.tables)
        if name == "builtin.module":
            optional = {key: item.optional() for key in _MODULE_PROPERTIES}
            return {key: value for key, value in optional.items() if value is not None}
        if name not in PROPERTIES:
            what = "a portable artifact of StableHLO up to 1.20" if name.startswith("vhlo.") else "a portable artifact"
            cursor.fail(
                f"{name}: got properties of an operation that is not known; expected {what}: write one with "
                "stablehlo.serialize_portable_artifact (jax.export does), or text")
        found = {key: item.attribute() for key in PROPERTIES[name]}
        if item.remaining:
            item.fail(f"{name}: got {item.remaining} bytes behind its properties; expected none")
        return found

    def _regions(self, cursor: Cursor, scope: Scope, operation: Operation) -> None:
        count, is_isolated = cursor.flagged()
        if count > cursor.remaining:
            cursor.fail(f"{operation.name}: got {count} regions; expected at most {cursor.remaining}, for which there are bytes")
        self.depth += 1
        if self.depth > MAX_NESTING:
            cursor.fail(f"regions are nested more than {MAX_NESTING} deep")
        if is_isolated and self.tables.version >= 2:
            kind, cursor = cursor.section()
            if kind != IR:
                cursor.fail(f"{operation.name}: got section {kind}; expected its operations ({IR})")
        for _ in range(count):
            operation.regions.append(self._region(cursor, Scope() if is_isolated else scope, operation.name))
        self.depth -= 1

    def _region(self, cursor: Cursor, scope: Scope, name: str) -> Block:
        blocks = cursor.varint()
        if blocks == 0:
            return Block()
        if blocks > 1:
            cursor.fail(f"{name}: got a region of {blocks} blocks; expected structured control flow (while, if, case)")
        own, first = cursor.varint(), scope.size
        scope.size += own
        block, following = self._block(cursor, scope, first, name)
        if following != scope.size:
            cursor.fail(f"{name}: got a region of {following - first} values; expected {own}")
        for index in range(first, following):
            del scope.values[index]
        scope.size = first
        return block
