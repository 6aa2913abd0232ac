"""Locations in text, of which the reader keeps what messages can say: a name, else a file and a line."""

from __future__ import annotations

from typing import Any

from forge.frontends.stablehlo.module import Operation, Value
from forge.frontends.stablehlo.text.lexer import Lexer

_MAX_ALIASES = 64
"""That lead to one another."""
_MAX_TEXTS = 8

Texts = tuple[str, ...]
"""What can be said of a location, the best first. Text that begins with ``#`` is an alias, which may be defined later."""


class LocationReader(Lexer):
    """Reads locations."""

    def __init__(self, *arguments: Any) -> None:
        self.location_aliases: dict[str, Texts] = {}
        self.located: list[tuple[Operation | Value, Texts]] = []
        super().__init__(*arguments)

    def locate(self, item: Operation | Value) -> None:
        """Reads the location of an operation or an argument."""
        self.located.append((item, self.location()))

    def location(self) -> Texts:
        """``loc(...)``."""
        self.expect("loc")
        self.expect("(")
        found = self._location()
        self.expect(")")
        return found

    def _location(self) -> Texts:
        self.enter()
        found = self._one_location()
        self.leave()
        return found[:_MAX_TEXTS]

    def _one_location(self) -> Texts:
        if self.kind == "attribute":
            return (self.take(),)
        if self.kind == "string":
            return self._named_or_file()
        if self.accept("unknown"):
            return ()
        if self.accept("callsite"):
            self.expect("(")
            callee = self._location()
            self.expect("at")
            caller = self._location()
            self.expect(")")
            return callee + caller
        if self.accept("fused"):
            return self._fused()
        if self.at("loc"):
            return self.location()
        self.unexpected("a location: a name, a file, callsite, fused or unknown")

    def _named_or_file(self) -> Texts:
        name = self.string().lstrip("#")
        if self.accept(":"):
            line = self.integer()
            self.expect(":")
            self.integer()
            if self.accept("to"):  # a range: to :column, or to line:column
                if self.kind == "number":
                    self.integer()
                self.expect(":")
                self.integer()
            return (f"{name}:{line}",)
        child: Texts = ()
        if self.accept("("):
            child = self._location()
            self.expect(")")
        if not name:
            return child
        return (*child, name) if name.endswith(":") else (name,)  # jax has "sort:" around "jit(f)/sort"

    def _fused(self) -> Texts:
        if self.at("<"):
            self.balanced()
        self.expect("[")
        found: Texts = ()
        if self.accept("]"):
            return found
        while True:
            found += self._location()
            if not self.more("]"):
                return found

    def resolve_locations(self) -> None:
        """Puts locations in their places, when all aliases are known."""
        for item, texts in self.located:
            item.location = self._resolved(texts)

    def _resolved(self, texts: Texts) -> str:
        pending, seen = list(reversed(texts)), set[str]()
        while pending and len(seen) < _MAX_ALIASES:
            text = pending.pop()
            if not text.startswith("#"):
                return text
            if text not in seen:
                seen.add(text)
                pending += reversed(self.location_aliases.get(text[1:], ()))
        return ""
