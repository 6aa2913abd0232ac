"""Operations in text, in their generic form: ``%0 = "dialect.name"(%a, %b) <{...}> ({...}) {...} : (...) -> ...``."""

from __future__ import annotations

import re

from forge.frontends.stablehlo import spelling
from forge.frontends.stablehlo.module import Block, FunctionType, Operation, Type, Value
from forge.frontends.stablehlo.spelling import MAX_PARTS
from forge.frontends.stablehlo.text.attributes import AttributeReader
from forge.frontends.stablehlo.text.locations import LocationReader

_ALIAS = re.compile(r"\s*+=")


class OperationReader(LocationReader, AttributeReader):
    """Reads operations; `pretty` reads those that are not in the generic form."""

    def __init__(self, text: str, where: str, resources: dict[str, bytes] | None = None) -> None:
        self.scopes: list[dict[str, list[Value]]] = [{}]
        super().__init__(text, where, resources)

    def pretty(self, operation: Operation, count: int) -> None:
        """Reads what follows the name of an operation with ``count`` results."""
        raise NotImplementedError

    def file(self) -> list[Operation]:
        """The operations at the top, up to the end."""
        found: list[Operation] = []
        while self.kind != "end":
            if self.kind in ("attribute", "type") and _ALIAS.match(self.text, self.stop):
                self._alias()
            else:
                found.append(self.operation())
        self.resolve_locations()
        return found

    def _alias(self) -> None:
        """``#name = attribute``, ``!name = type``; locations may be used before."""
        is_type, token = self.kind == "type", self.take()
        self.expect("=")
        before = self.parts
        if is_type:
            self.type_aliases[token[1:]] = self.type()
        elif self.at("loc"):
            self.location_aliases[token[1:]] = self.location()
        else:
            self.attribute_aliases[token[1:]] = self.attribute()
        self.alias_parts[token] = self.parts - before
        if self.parts - before > MAX_PARTS:
            self.fail(f"{token}: an attribute or type has more than {MAX_PARTS} parts")

    def operation(self) -> Operation:
        """The operation that the reader is at; its results are defined then."""
        names = self._result_names()
        is_generic = self.kind == "string"
        name = self.string() if is_generic else self.take_kind("word", "an operation")
        operation = Operation(spelling.operation_name(name))
        if is_generic:
            self.generic(operation)
        else:
            self.pretty(operation, sum(count for _, count in names))
        if self.at("loc"):
            self.locate(operation)
        operation.attributes = spelling.attributes(operation.name, operation.attributes, self.fail)
        self._define_results(operation, names)
        return operation

    def _result_names(self) -> list[tuple[str, int]]:
        """``%a:2, %b = ``: each name, and how many results it has."""
        names: list[tuple[str, int]] = []
        if self.kind != "value":
            return names
        while True:
            name, count = self.take_kind("value", "the name of a result"), 1
            if "#" in name:
                self.fail(f"got {name}; expected a name without #")
            if self.accept(":"):
                count = self.integer()
                if count < 1:
                    self.fail(f"got {count} results; expected one at least")
            names.append((name, count))
            if not self.more("="):
                return names

    def _define_results(self, operation: Operation, names: list[tuple[str, int]]) -> None:
        if names and sum(count for _, count in names) != len(operation.results):
            self.fail(
                f"{operation.name}: got names for {sum(count for _, count in names)} results; "
                f"expected {len(operation.results)}, as its type says")
        results = iter(operation.results)
        for name, count in names:
            values = [next(results) for _ in range(count)]
            for index, value in enumerate(values):
                value.name = name[1:] if count == 1 else f"{name[1:]}#{index}"
            self.define(name, values)

    def define(self, name: str, values: list[Value]) -> None:
        if name in self.scopes[-1]:
            self.fail(f"value {name} is defined twice; expected names that differ")
        self.scopes[-1][name] = values

    def value(self) -> Value:
        """The value that ``%name`` or ``%name#1`` refers to."""
        if self.kind != "value":
            self.unexpected("a value, %name")
        name, _, index = self.token.partition("#")
        found = next((scope[name] for scope in reversed(self.scopes) if name in scope), None)
        if found is None:
            self.fail(f"got value {self.token}, which is not defined before it is used")
        if len(index) > 9 or int(index or 0) >= len(found):
            self.fail(f"got value {self.token}; {name} has {len(found)} results")
        self.take()
        return found[int(index or 0)]

    def values(self, close: str) -> list[Value]:
        """Values with commas between them, up to ``close``, which is read."""
        if self.accept(close):
            return []
        found = [self.value()]
        while self.more(close):
            found.append(self.value())
        return found

    def generic(self, operation: Operation) -> None:
        """Reads an operation of any kind, behind its name."""
        self.expect("(")
        operation.operands = self.values(")")
        if self.at("["):
            self.fail(f"{operation.name}: got blocks that follow it; expected structured control flow (while, if, case)")
        if self.accept("<"):
            operation.attributes = self.dictionary()
            self.expect(">")
        if self.accept("("):
            operation.regions = [self.region()]
            while self.more(")"):
                operation.regions.append(self.region())
        if self.at("{"):
            operation.attributes = {**operation.attributes, **self.dictionary()}
        self.expect(":")
        self.set_types(operation, self.function_type())

    def set_types(self, operation: Operation, given: FunctionType) -> None:
        """Results of the types that text gives, after a check of operands."""
        self.check_operands(operation, given.inputs)
        operation.results = [Value(kind) for kind in given.results]

    def check_operands(self, operation: Operation, types: tuple[Type, ...] | list[Type]) -> None:
        if [value.type for value in operation.operands] != list(types):
            got = ", ".join(spelling.type_text(value.type) for value in operation.operands)
            expected = ", ".join(map(spelling.type_text, types))
            self.fail(f"{operation.name}: got operands of types {got[:500]}; expected {expected[:500]}, as its type says")

    def region(self, arguments: list[Value] | None = None) -> Block:
        """``{ ... }``: one block, whose arguments may be named outside of it."""
        self.enter()
        self.expect("{")
        block = Block(arguments or [])
        self.scopes.append({})
        for argument in block.arguments:
            self.define(f"%{argument.name}", [argument])
        if self.kind == "label" and not arguments:
            self._label(block)
        while not self.accept("}"):
            if self.kind == "label":
                self.fail("got a region of several blocks; expected structured control flow (while, if, case)")
            block.operations.append(self.operation())
        self.scopes.pop()
        self.leave()
        return block

    def _label(self, block: Block) -> None:
        """``^bb0(%a: type, %b: type loc(...)):``."""
        self.take()
        if self.accept("(") and not self.accept(")"):
            while True:
                block.arguments.append(self.named_type())
                self.define(f"%{block.arguments[-1].name}", block.arguments[-1:])
                if not self.more(")"):
                    break
        self.expect(":")

    def named_type(self) -> Value:
        """``%a: type loc(...)``."""
        name = self.take_kind("value", "the name of an argument")
        self.expect(":")
        value = Value(self.type(), name[1:])
        if self.at("loc"):
            self.locate(value)
        return value

    def optional_attributes(self, operation: Operation, keyword: str = "") -> None:
        """``{...}``, with a keyword before it where one is asked for; properties, ``<{...}>``, too."""
        if self.accept("<"):
            operation.attributes = {**operation.attributes, **self.dictionary()}
            self.expect(">")
        if keyword and not self.accept(keyword):
            return
        if self.at("{"):
            operation.attributes = {**operation.attributes, **self.dictionary()}
