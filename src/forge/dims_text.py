"""Reads the text of symbolic dimensions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NoReturn

from forge.dims import MAX_COEFFICIENT, MAX_NESTING, MAX_TEXT, OPERATIONS, Dim, is_identifier, shown, symbol, too_large
from forge.errors import InvalidGraphError, ParseError


def parse(text: str) -> Dim:
    """Reads what ``str`` writes (integers, names, quoted names, + - * // %, min, max, parentheses).

    Raises:
        ParseError: ``text`` is something else, or exceeds the bounds on expressions.
    """
    try:
        return _Parser(text).whole()
    except InvalidGraphError as error:
        raise ParseError(f"dimension: {shown(text)}: {error}") from error


class _Parser:
    """Recursive descent over the tokens of one expression."""

    _TOKEN = re.compile(r'\s*(?:([0-9]+)|([A-Za-z_][A-Za-z0-9_]*)|(//|[-+*%(),])|(\$"(?:[^"\\\n]|\\.)*"))')

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._split() if len(text) <= MAX_TEXT else self._fail()
        self.position = 0
        self.depth = 0

    def whole(self) -> Dim:
        dim = self._sum()
        return dim if self.position == len(self.tokens) else self._fail()

    def _split(self) -> list[str]:
        tokens, position, end = [], 0, len(self.text.rstrip())
        while position < end:
            match = self._TOKEN.match(self.text, position) or self._fail()
            tokens.append(match.group().strip())
            position = match.end()
        return tokens

    def _fail(self) -> NoReturn:
        expected = "expected + - * // % min max of names and integers, as in '2*n + 1'"
        raise ParseError(f"dimension: {shown(self.text)} is not an integer expression; {expected}")

    def _accept(self, *tokens: str) -> str | None:
        if self.position < len(self.tokens) and self.tokens[self.position] in tokens:
            self.position += 1
            return self.tokens[self.position - 1]
        return None

    def _sum(self, end: str = "") -> Dim:
        """A sum, and ``end`` after it."""
        self.depth += 1
        if self.depth > 3 * MAX_NESTING:
            raise too_large("too many parentheses inside each other")
        total = self._chain(("+", "-"), self._term)
        self.depth -= 1
        return total if not end or self._accept(end) else self._fail()

    def _term(self) -> Dim:
        return self._chain(("*", "//", "%"), self._factor)

    def _chain(self, signs: tuple[str, ...], operand: Callable[[], Dim]) -> Dim:
        total = operand()
        while sign := self._accept(*signs):
            total = OPERATIONS[_SIGNS[sign]](total, operand())
        return total

    def _factor(self) -> Dim:
        sign = 1
        while self._accept("-"):
            sign = -sign
        return sign * self._atom()

    def _atom(self) -> Dim:
        if self._accept("("):
            return self._sum(")")
        token = self.tokens[self.position] if self.position < len(self.tokens) else self._fail()
        self.position += 1
        if token.isdigit():
            return _integer(token)
        if token in ("min", "max"):
            return OPERATIONS[token](self._sum(","), self._sum(")")) if self._accept("(") else self._fail()
        if token.startswith("$"):
            return symbol(self._unquoted(token))
        return symbol(token) if is_identifier(token) else self._fail()

    def _unquoted(self, token: str) -> str:
        try:
            return str(json.loads(token[1:]))
        except ValueError:
            self._fail()


_SIGNS = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "floormod"}


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= 40 else MAX_COEFFICIENT
    if value >= MAX_COEFFICIENT:
        raise too_large("an integer")
    return value
