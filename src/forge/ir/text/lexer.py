"""Tokens of the text form, with positions; errors show the line with a caret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from forge.errors import ParseError

_PATTERN = re.compile(
    r"""
    (?P<note>/\*\s*(?=(?:ty|name|results|place|span)=))
  | (?P<skip>[ \t\r\f\v]+ | \n[ \t]*//[^\n]* | \A[ \t]*//[^\n]* | \n | /\*(?:[^*]|\*(?!/))*\*/)
  | (?P<variable>%(?:"(?:[^"\\\n]|\\.)*"|[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*))
  | (?P<global>@(?:"(?:[^"\\\n]|\\.)*"|[A-Za-z_][A-Za-z0-9_.]*))
  | (?P<symbol>\$"(?:[^"\\\n]|\\.)*")
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<float>-?(?: (?:inf|nan)(?:bf16|f16|f64|f)
                  | (?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[+-]?[0-9]++)?(?:bf16|f16|f64|f)
                  | (?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:e[+-]?[0-9]++)?
                  | [0-9]++e[+-]?[0-9]++
                 )(?![A-Za-z0-9_]))
  | (?P<int>-?[0-9]++(?:[iu](?:8|16|32|64))?(?![A-Za-z0-9_.]))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
  | (?P<endnote>\*/)
  | (?P<punctuation>->|//|[()\[\]{},;:=+\-*%?])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # note endnote variable global symbol string float int name punctuation end
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
        shown = line[window : window + 120].replace("\t", " ")
        return ParseError(f"line {number}, column {column + 1}: {message}\n  {shown}\n  {' ' * (column - window)}^")


def tokenize(source: Source) -> Iterator[Token]:
    """Tokens of the text, an ``end`` token last. ``//`` at the beginning of a line starts a comment; elsewhere it divides.

    Raises:
        ParseError: a character that starts no token.
    """
    position = 0
    text = source.text
    note: int | None = None
    while position < len(text):
        match = _PATTERN.match(text, position) or _fail(source, position)
        kind = match.lastgroup or ""
        start, position = position, match.end()
        if kind == "note" and note is not None:
            raise source.error(start, "a note inside a note; expected '*/'")
        if kind == "endnote" and note is None:
            raise source.error(start, "'*/' without '/*'")
        note = start if kind == "note" else None if kind == "endnote" else note
        if kind != "skip":
            yield Token(kind, match.group(), start)
    if note is not None:
        raise source.error(note, "'/*' without '*/'")
    yield Token("end", "", len(text))


def _fail(source: Source, position: int) -> NoReturn:
    text = source.text
    opening = {"/*": "'/*' without '*/'", '"': "a string without end on its line"}
    for start, message in opening.items():
        if text.startswith(start, position):
            raise source.error(position, message)
    raise source.error(position, f"unexpected character {text[position]!r}")
