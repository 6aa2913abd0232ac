"""Tokens of MLIR's text, one at a time: the reader looks at one and decides."""

from __future__ import annotations

import re
from typing import NoReturn

from forge.errors import ImportModelError
from forge.frontends.scope import MAX_NESTING

_TOKEN = re.compile(
    r"""(?>\s+|//[^\n]*+)*+(?:
    (?P<string>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+")
  | (?P<value>%[\w$.-]++(?:\#\d++)?)
  | (?P<symbol>@(?:[\w$.-]++|"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"))
  | (?P<label>\^[\w$.-]++)
  | (?P<attribute>\#[A-Za-z_\d][\w$.-]*+)
  | (?P<type>![A-Za-z_\d][\w$.-]*+)
  | (?P<punctuation>->|::|\{-\#|\#-\}|[\[\](){}<>,:=?*+/|])
  | (?P<number>-?(?:0x[0-9a-fA-F]++|\d++(?:\.\d*+(?:[eE][-+]?\d++)?)?))
  | (?P<word>[A-Za-z_][\w$.]*+)
  | (?P<end>\Z)
  )""", re.VERBOSE)
_NESTED = re.compile(r'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"|->|[<({\[]|[>)}\]]')
_MAX_DIGITS = 20
_CLOSES = {"<": ">", "(": ")", "{": "}", "[": "]"}
_ESCAPE = re.compile(rb'\\([0-9A-Fa-f]{2}|[\\"ntr])')
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\", b'"': b'"'}


class Lexer:
    """The token that the reader is at.

    Attributes:
        kind: "string", "value", "symbol", "label", "attribute", "type", "punctuation", "number", "word" or "end".
        token: its text.
        start, stop: where it is.
        parts: how many attributes, types and regions have been read; those that aliases stand for count again.
    """

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where
        self.depth = 0
        self.parts = 0
        self.alias_parts: dict[str, int] = {}
        self.jump(0)

    def fail(self, message: str) -> NoReturn:
        """Raises ImportModelError about the place of the token."""
        line = self.text.count("\n", 0, self.start) + 1
        column = self.start - self.text.rfind("\n", 0, self.start)
        message = message.encode("utf-8", "backslashreplace").decode()
        raise ImportModelError(f"{self.where}:{line}:{column}: {message}")

    def unexpected(self, expected: str) -> NoReturn:
        got = repr(self.token[:60]) if self.kind != "end" else "the end of the text"
        self.fail(f"got {got}; expected {expected}")

    def unquoted(self, token: str) -> str:
        """The contents of a string. Bytes that are not UTF-8 are kept, as surrogates."""
        if "\\" not in token:
            return token[1:-1]
        try:
            raw = token[1:-1].encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            self.fail("got text that is not Unicode; expected UTF-8")
        plain = _ESCAPE.sub(lambda found: _ESCAPES.get(found[1]) or bytes([int(found[1], 16)]), raw)
        return plain.decode("utf-8", "surrogateescape")

    def jump(self, place: int) -> None:
        """Goes on with the token at ``place``."""
        found = _TOKEN.match(self.text, place)
        if found is None:
            self.start = place
            self.fail(f"got {self.text[place : place + 20]!r}; expected text of MLIR")
        self.kind = found.lastgroup or ""
        self.start, self.stop = found.span(self.kind)
        self.token = found[self.kind]

    def take(self) -> str:
        """The token, which is read."""
        token = self.token
        self.jump(self.stop)
        return token

    def take_kind(self, kind: str, expected: str) -> str:
        if self.kind != kind:
            self.unexpected(expected)
        return self.take()

    def at(self, token: str) -> bool:
        return self.token == token and self.kind != "string"

    def accept(self, token: str) -> bool:
        """Whether the token is this one, which is read then."""
        if not self.at(token):
            return False
        self.jump(self.stop)
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.unexpected(repr(token))

    def more(self, close: str) -> bool:
        """Between the entries of a list: whether another one follows, else its end is read."""
        if self.accept(","):
            return True
        self.expect(close)
        return False

    def string(self, expected: str = "a string") -> str:
        return self.unquoted(self.take_kind("string", expected))

    def symbol_name(self) -> str:
        """The name of ``@name``."""
        token = self.take_kind("symbol", "a symbol, @name")
        return self.unquoted(token[1:]) if token.startswith('@"') else token[1:]

    def integer(self) -> int:
        token = self.take_kind("number", "an integer")
        if "." in token or len(token) > _MAX_DIGITS:
            self.fail(f"got {token[:40]}; expected an integer of 64 bits")
        return int(token, 16) if "x" in token else int(token)

    def enter(self) -> None:
        """Goes one level deeper, of types, attributes or regions."""
        self.depth += 1
        self.parts += 1
        if self.depth > MAX_NESTING:
            self.fail(f"is nested more than {MAX_NESTING} deep")

    def alias(self) -> str:
        """The name of an alias, which is read."""
        self.parts += self.alias_parts.get(self.token, 0)
        return self.take()[1:]

    def leave(self) -> None:
        self.depth -= 1

    def balanced(self) -> str:
        """The text of a token and of what is in brackets right behind it, which are read; of brackets alone if it is one."""
        begin = self.start
        opening = self.start if self.token in _CLOSES else self.stop
        if self.text[opening : opening + 1] not in _CLOSES:
            return self.take()
        pending: list[str] = []
        for found in _NESTED.finditer(self.text, opening):
            token = found[0]
            if token in _CLOSES:
                pending.append(_CLOSES[token])
            elif len(token) == 1:
                if token != pending.pop():
                    self.fail("its brackets do not match; expected a closed attribute or type")
                if not pending:
                    self.jump(found.end())
                    return self.text[begin : found.end()]
        self.fail("its brackets are not closed; expected a whole file")
