"""Locations in text, of which the reader keeps what messages can say: a name, else a file and a line."""

from __future__ import annotations

from typing import Any

from forge.frontends.stablehlo.module import Operation, Value
from forge.frontends.stablehlo.spelling import named_location
from forge.frontends.stablehlo.text.lexer import Lexer

_MAX_ALIASES = 64
"""That lead to one another."""


class LocationReader(Lexer):
    """Reads locations. Text that begins with ``#`` stands for an alias, which may be defined later."""

    def __init__(self, *arguments: Any) -> None:
        self.location_aliases: dict[str, str] = {}
        self.located: list[Operation | Value] = []
        super().__init__(*arguments)

    def locate(self, item: Operation | Value) -> None:
        """Reads the location of an operation or an argument."""
        item.location = self.location()
        if item.location.startswith("#"):
            self.located.append(item)

    def location(self) -> str:
        """``loc(...)``."""
        self.expect("loc")
        self.expect("(")
        found = self._location()
        self.expect(")")
        return found

    def _location(self) -> str:
        self.enter()
        found = self._one_location()
        self.leave()
        return found

    def _one_location(self) -> str:
        if self.kind == "attribute":
            return self.take()
        if self.kind == "string":
            return self._named_or_file()
        if self.accept("unknown"):
            return ""
        if self.accept("callsite"):
            self.expect("(")
            callee = self._location()
            self.expect("at")
            caller = self._location()
            self.expect(")")
            return callee or caller
        if self.accept("fused"):
            return self._fused()
        if self.accept("loc"):
            self.expect("(")
            found = self._location()
            self.expect(")")
            return found
        self.unexpected("a location: a name, a file, callsite, fused or unknown")

    def _named_or_file(self) -> str:
        name = self.string()
        if self.accept(":"):
            line = self.integer()
            self.expect(":")
            self.integer()
            if self.accept("to"):  # a range: to :column, or to line:column
                if self.kind == "number":
                    self.integer()
                self.expect(":")
                self.integer()
            return f"{name}:{line}"
        if self.accept("("):
            child = self._location()
            self.expect(")")
            return named_location(name.lstrip("#"), child)
        return name.lstrip("#")

    def _fused(self) -> str:
        if self.at("<"):
            self.balanced()
        self.expect("[")
        found = ""
        if self.accept("]"):
            return found
        while True:
            found = found or self._location()
            if not self.more("]"):
                return found

    def resolve_locations(self) -> None:
        """Puts what aliases stand for in their places."""
        for item in self.located:
            for _ in range(_MAX_ALIASES):
                if not item.location.startswith("#"):
                    break
                item.location = self.location_aliases.get(item.location[1:], "")
            else:
                item.location = ""
