"""A position in the tokens of a text, and what is read the same everywhere: attributes, dimensions, types, notes.

Grammar::

    attribute = STRING | "True" | "False" | "None" | FLOAT | "[" (attribute ("," attribute)* ","?)? "]" | dimension
    dimension = see ``forge.dims``
    types     = type | "(" (type ("," type)* ","?)? ")"
    type      = DTYPE | "Tensor" "[" ("(" dimension,* ")" | "?" | "none") "," DTYPE "]"
              | ("Sequence" | "Optional") "[" type "]" | "Object" "[" NAME "]"
    notes     = ("/*" ("ty=" types | "name=" STRING | "results=" attribute | "span=" anything)* "*/")*
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from forge import dims_text, dtypes
from forge.dims import Dim
from forge.errors import ForgeError, ParseError
from forge.ir import types as T
from forge.ir.text.lexer import Source, Token, tokenize

MAX_DEPTH = 64
Item = TypeVar("Item")
_IN_DIMENSIONS = ("name", "symbol", "int", "punctuation", "variable")
_FLOAT = re.compile(r"(-?(?:inf|nan|[0-9.]+(?:e[+-]?[0-9]+)?))(bf16|f16|f64|f)?")


@dataclass
class Notes:
    """What stands after a call in ``/* */``."""

    types: list[T.Type] | None = None
    name: str = ""
    results: list[str] = field(default_factory=list)
    place: str = ""


class Cursor:
    """Tokens of a text and the position in them. Every method reads from there and raises ParseError at what does not fit."""

    def __init__(self, text: str) -> None:
        self.source = Source(text)
        self.tokens = list(tokenize(self.source))
        self.position = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def error(self, message: str, token: Token | None = None) -> ParseError:
        return self.source.error((token or self.token).start, message)

    def unexpected(self, expected: str) -> ParseError:
        got = self.token.text
        shown = repr(got if len(got) <= 60 else f"{got[:57]}...") if got else "the end of the text"
        return self.error(f"got {shown}; expected {expected}")

    def advance(self) -> Token:
        token = self.token
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind in ("punctuation", "name")

    def at_keyword(self) -> bool:
        """Whether a name followed by ``=`` comes next."""
        return self.token.kind == "name" and self.tokens[self.position + 1].text == "="

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.unexpected(repr(text))
        return self.advance()

    def expect_kind(self, kind: str, what: str) -> Token:
        if self.token.kind != kind:
            raise self.unexpected(what)
        return self.advance()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One level deeper.

        Raises:
            ParseError: that is too deep.
        """
        if self.depth == MAX_DEPTH:
            raise self.error(f"the text nests deeper than {MAX_DEPTH} levels")
        self.depth += 1
        yield
        self.depth -= 1

    def listed(self, closing: str, read: Callable[[], Item]) -> list[Item]:
        """Items with commas between them, up to ``closing``; a comma after the last is allowed."""
        items: list[Item] = []
        while not self.accept(closing):
            items.append(read())
            if not self.at(closing) and not self.accept(","):
                raise self.unexpected(f"',' or {closing!r}")
        return items

    def name_of(self, token: Token) -> str:
        """The name after ``%`` or ``@``."""
        body = token.text[1:]
        return self.unquoted(body, token) if body.startswith('"') else body

    def unquoted(self, text: str, token: Token) -> str:
        try:
            return str(json.loads(text))
        except ValueError as error:
            raise self.error(f"got {text}, which is not a JSON string ({error})", token) from error

    def string(self) -> str:
        token = self.expect_kind("string", "a string")
        return self.unquoted(token.text, token)

    def attribute(self) -> Any:
        token = self.token
        if token.kind == "string":
            return self.string()
        if token.kind == "name" and token.text in ("True", "False", "None"):
            self.advance()
            return {"True": True, "False": False, "None": None}[token.text]
        if token.kind == "float":
            return self.number(self.advance())[0]
        if self.accept("["):
            with self.nested():
                return tuple(self.listed("]", self.attribute))
        return self.dimension()

    def number(self, token: Token) -> tuple[float, str]:
        """Value and suffix of a float token."""
        match = _FLOAT.fullmatch(token.text)
        assert match is not None
        value = float(match[1])
        if value in (float("inf"), float("-inf")) and "inf" not in match[1]:
            raise self.error(f"{_short(token.text)} is beyond the largest float", token)
        return value, match[2] or ""

    def dimension(self) -> Dim:
        """An integer expression over symbols, up to the next comma or bracket that closes."""
        start = self.token
        depth = 0
        while self.token.kind in _IN_DIMENSIONS and self.token.text not in ("{", "}", ";", ":", "="):
            if depth == 0 and self.token.text in (",", ")", "]"):
                break
            depth += {"(": 1, ")": -1}.get(self.token.text, 0)
            self.advance()
        text = self.source.text[start.start : self.token.start].strip()
        if not text:
            raise self.unexpected("a value")
        try:
            return dims_text.parse(text)
        except ParseError as error:
            raise self.error(str(error), start) from error

    def types(self) -> list[T.Type]:
        return self.listed(")", self.type) if self.accept("(") else [self.type()]

    def type(self) -> T.Type:
        token = self.expect_kind("name", "a type, as in Tensor[(1, 3), float32]")
        try:
            with self.nested():
                return self._type(token)
        except ParseError:
            raise
        except ForgeError as error:
            raise self.error(str(error), token) from error

    def _type(self, token: Token) -> T.Type:
        if token.text not in ("Tensor", "Sequence", "Optional", "Object"):
            return T.TensorType((), self._dtype(token))
        self.expect("[")
        found: T.Type
        if token.text == "Tensor":
            found = self._tensor()
        elif token.text == "Object":
            found = T.ObjectType(self.expect_kind("name", "the name of a kind of object").text)
        else:
            found = (T.SequenceType if token.text == "Sequence" else T.OptionalType)(self.type())
        self.expect("]")
        return found

    def _tensor(self) -> T.Type:
        for mark, is_absent in (("?", False), ("none", True)):
            if self.accept(mark):
                self.expect(",")
                return T.UnrankedType(self._dtype(self.expect_kind("name", "a dtype")), is_absent)
        self.expect("(")
        shape = tuple(self.listed(")", self.dimension))
        self.expect(",")
        return T.TensorType(shape, self._dtype(self.expect_kind("name", "a dtype")))

    def _dtype(self, token: Token) -> str:
        if token.text not in dtypes.NAMES:
            raise self.error(f"unknown dtype {token.text!r}; expected one of {', '.join(dtypes.NAMES)}", token)
        return token.text

    def notes(self) -> Notes:
        notes = Notes()
        while self.token.kind == "note":
            self.advance()
            while self.token.kind != "endnote":
                self._note(notes)
            self.advance()
        return notes

    def _note(self, notes: Notes) -> None:
        token = self.expect_kind("name", "ty=, name=, results=, place= or '*/'")
        self.expect("=")
        match token.text:
            case "ty":
                notes.types = self.types()
            case "name":
                notes.name = self.string()
            case "place":
                notes.place = self.string()
            case "results":
                names = self.attribute()
                if not isinstance(names, tuple) or not all(isinstance(n, str) for n in names):
                    raise self.error("results= is not a list of strings", token)
                notes.results = list(names)
            case "span":
                while self.token.kind not in ("endnote", "end"):
                    self.advance()
            case _:
                raise self.error(f"got {token.text}=; expected ty=, name=, results= or place=", token)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
