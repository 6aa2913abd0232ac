"""Tokens of the text form, with positions; errors show the line with a caret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from forge.errors import ParseError

_PATTERN = re.compile(
    r"""
    (?P<note>/\*\s*(?:ty|name|results)=)
  | (?P<skip>\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
  | (?P<variable>%(?:"(?:[^"\\\n]|\\.)*"|[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*))
  | (?P<global>@(?:"(?:[^"\\\n]|\\.)*"|[A-Za-z_][A-Za-z0-9_.]*))
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<float>-?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?:bf16|f16|f64|f)|inf(?:bf16|f16|f64|f)|(?:\d+\.\d*|\.\d+)(?:e[+-]?\d+)?|\d+e[+-]?\d+)(?![A-Za-z0-9_]))
  | (?P<int>-?\d+(?:[iu](?:8|16|32|64))?(?![A-Za-z0-9_.]))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
  | (?P<endnote>\*/)
  | (?P<punctuation>->|//|[()\[\]{},;:=+\-*%?])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # note endnote variable global string float int name punctuation end
    text: str
    start: int


class Source:
    """Text with positions."""

    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, start: int, message: str) -> ParseError:
        """An error that names line and column and shows the line with a caret."""
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", start)
        line = self.text[line_start : line_end if line_end >= 0 else len(self.text)]
        column = start - line_start
        number = self.text.count("\n", 0, start) + 1
        window = max(0, column - 60)
        shown = line[window : window + 120]
        return ParseError(f"line {number}, column {column + 1}: {message}\n  {shown}\n  {' ' * (column - window)}^")


def tokenize(source: Source) -> Iterator[Token]:
    """Tokens of the text, an ``end`` token last.

    Raises:
        ParseError: a character that starts no token.
    """
    position = 0
    text = source.text
    in_note = False
    while position < len(text):
        match = _PATTERN.match(text, position)
        if match is None:
            raise source.error(position, f"unexpected character {text[position]!r}")
        kind = match.lastgroup or ""
        position = match.end()
        if kind == "note":
            in_note = True
            position = match.start() + 2
            yield Token("note", "/*", match.start())
            continue
        if kind == "endnote" and not in_note:
            raise source.error(match.start(), "'*/' without '/*'")
        if kind == "endnote":
            in_note = False
        if kind != "skip":
            yield Token(kind, match.group(), match.start())
    yield Token("end", "", len(text))
