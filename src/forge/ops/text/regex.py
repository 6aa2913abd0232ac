"""Regular expressions in RE2's syntax, matched against whole texts in time linear in the text.

A pattern becomes a program for a nondeterministic automaton, which Python (``Program.matches``) and the runtime
(``forge_regex.c``) run alike. Syntax::

    literals  . [a-z] [^a-z] [[:alpha:]] \\d \\s \\w \\D \\S \\W (of ASCII)  \\pL \\p{Lu} \\PL (general categories of Unicode)
    xy  x|y  (x)  (?:x)  (?P<name>x)  (?<name>x)  (?i) (?m) (?s) (?U) (?i-s:x)
    x*  x+  x?  x{n}  x{n,}  x{n,m} (n and m at most 1000), each may be followed by ?
    ^ $ \\A \\z \\b \\B  \\a \\f \\n \\r \\t \\v \\077 \\x7F \\x{10FFFF}  \\Q...\\E

Refused, as in RE2: backreferences, look-around, atomic groups, possessive repeats; also scripts (``\\p{Greek}``) and ``\\C``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from forge.errors import TypeInferenceError
from forge.ops.core.inference import fail
from forge.ops.core.signatures import Array
from forge.ops.text import regex_classes as classes
from forge.ops.text.regex_classes import Ranges

MATCH, RANGES, SPLIT, JUMP, ASSERT = range(5)
BEGIN_TEXT, END_TEXT, BEGIN_LINE, END_LINE, WORD_BOUNDARY, NO_WORD_BOUNDARY = range(6)
MAX_REPEAT = 1000
MAX_DEPTH = 100
MAX_INSTRUCTIONS = 1 << 16
_NOTHING = -1
_NEWLINE = ((10, 10),)
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_ASSERTIONS = {"A": BEGIN_TEXT, "z": END_TEXT, "b": WORD_BOUNDARY, "B": NO_WORD_BOUNDARY}
_OCTAL, _HEX = frozenset("01234567"), frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True)
class RegexNode:
    """Part of a pattern: one character of ``ranges``, an assertion, or (``kind``) concat, alternate or repeat of ``parts``."""

    kind: str
    parts: tuple[RegexNode, ...] = ()
    ranges: Ranges = ()
    assertion: int = 0
    low: int = 0
    high: int | None = None


@dataclass(frozen=True)
class Flags:
    fold: bool = False
    lines: bool = False
    newline: bool = False

    def changed(self, letter: str, on: bool) -> Flags:
        names = {"i": "fold", "m": "lines", "s": "newline"}
        return self if letter == "U" else replace(self, **{names[letter]: on})


@dataclass
class RegexProgram:
    """``code`` holds (operation, a, b): what ``forge_regex.c`` says of instructions."""

    code: list[tuple[int, int, int]] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def table(self) -> Array:
        """The program as the runtime reads it: numbers of instructions and of ranges, then both."""
        flat = [len(self.code), len(self.ranges), *(x for row in self.code for x in row), *(x for r in self.ranges for x in r)]
        return np.array(flat, np.int32)

    def matches(self, text: str) -> bool:
        """Whether the whole of ``text`` matches."""
        points = [_NOTHING, *map(ord, text), _NOTHING]
        places = [0]
        for k in range(1, len(points) - 1):
            places = self._step(self._closed(places, points[k - 1], points[k]), points[k])
            if not places:
                return False
        return any(self.code[p][0] == MATCH for p in self._closed(places, points[-2], _NOTHING))

    def _closed(self, places: list[int], before: int, after: int) -> list[int]:
        """``places`` and all that can be reached from them without a character."""
        reached = dict.fromkeys(places)
        pending = list(reached)
        while pending:
            place = pending.pop()
            op, a, b = self.code[place]
            onward = {JUMP: (a,), SPLIT: (a, b)}.get(op, ())
            if op == ASSERT and _holds(a, before, after):
                onward = (place + 1,)
            fresh = [p for p in onward if p not in reached]
            reached.update(dict.fromkeys(fresh))
            pending.extend(fresh)
        return list(reached)

    def _step(self, places: Iterable[int], point: int) -> list[int]:
        found = []
        for place in places:
            op, first, count = self.code[place]
            if op == RANGES and any(low <= point <= high for low, high in self.ranges[first : first + count]):
                found.append(place + 1)
        return found


def _is_word(point: int) -> bool:
    return any(low <= point <= high for low, high in classes.WORD)


def _holds(assertion: int, before: int, after: int) -> bool:
    if assertion in (BEGIN_TEXT, BEGIN_LINE):
        return before == _NOTHING or (assertion == BEGIN_LINE and before == 10)
    if assertion in (END_TEXT, END_LINE):
        return after == _NOTHING or (assertion == END_LINE and after == 10)
    return (_is_word(before) != _is_word(after)) == (assertion == WORD_BOUNDARY)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.flags = Flags()
        self.names: set[str] = set()

    def error(self, start: int, expected: str) -> TypeInferenceError:
        shown = self.pattern[start : max(self.at, start + 1)] or "the end"
        return fail("string.regex_full_match", "attribute pattern",
                    f"{shown!r} at position {start} of {self.pattern!r}", expected)

    def peek(self, length: int = 1) -> str:
        return self.pattern[self.at : self.at + length]

    def take(self, text: str) -> bool:
        """Skips ``text`` if it comes next."""
        if not self.pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def parse(self) -> RegexNode:
        node = self.alternatives()
        if self.at < len(self.pattern):
            raise self.error(self.at, "a '(' before it")
        return node

    def alternatives(self) -> RegexNode:
        """Branches up to a ')' or the end; flags set inside end with them."""
        outer = self.flags
        branches = [self.branch()]
        while self.take("|"):
            branches.append(self.branch())
        self.flags = outer
        return branches[0] if len(branches) == 1 else RegexNode("alternate", tuple(branches))

    def branch(self) -> RegexNode:
        parts: list[RegexNode] = []
        while self.at < len(self.pattern) and self.peek() not in "|)":
            parts.extend(self.piece())
        return RegexNode("concat", tuple(parts))

    def piece(self) -> list[RegexNode]:
        if self.take("\\Q"):
            return self.quoted()
        atom = self.atom()
        if atom is None:
            return []
        repeated = self.repeat(atom)
        after = self.at
        if repeated is not atom and self.repeat(repeated) is not repeated:
            raise self.error(after, "no repeat after a repeat; put the inner one in '(?:...)'")
        return [repeated]

    def quoted(self) -> list[RegexNode]:
        end = self.pattern.find("\\E", self.at)
        text = self.pattern[self.at : end if end >= 0 else None]
        self.at = len(self.pattern) if end < 0 else end + 2
        parts = [self.one_of(((ord(c), ord(c)),)) for c in text]
        return [*parts[:-1], self.repeat(parts[-1])] if parts else []

    def one_of(self, ranges: Ranges) -> RegexNode:
        return RegexNode("ranges", ranges=classes.fold(ranges) if self.flags.fold else ranges)

    def repeat(self, atom: RegexNode) -> RegexNode:
        start = self.at
        bounds = self.bounds()
        if bounds is None:
            return atom
        self.take("?")
        low, high = bounds
        if max(low, high or 0) > MAX_REPEAT or (high is not None and low > high):
            raise self.error(start, f"a repeat of at most {MAX_REPEAT}, its bounds in order")
        return RegexNode("repeat", (atom,), low=low, high=high)

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in {"*": (0, None), "+": (1, None), "?": (0, 1)}.items():
            if self.take(sign):
                return bounds
        end = self.pattern.find("}", self.at)
        if self.peek() != "{" or end < 0:
            return None
        low, comma, high = self.pattern[self.at + 1 : end].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None
        self.at = end + 1
        return int(low), (int(high) if high else None) if comma else int(low)

    def atom(self) -> RegexNode | None:
        """The next character, class, assertion or group; None for what is only flags."""
        start = self.at
        character = self.peek()
        self.at += 1
        match character:
            case "(":
                return self.group(start)
            case "[":
                return self.one_class(start)
            case "\\":
                return self.escape(start)
            case ".":
                return RegexNode("ranges", ranges=classes.EVERYTHING if self.flags.newline else classes.complement(_NEWLINE))
            case "^":
                return RegexNode("assert", assertion=BEGIN_LINE if self.flags.lines else BEGIN_TEXT)
            case "$":
                return RegexNode("assert", assertion=END_LINE if self.flags.lines else END_TEXT)
            case "*" | "+" | "?":
                raise self.error(start, "something to repeat before it")
        return self.one_of(((ord(character), ord(character)),))

    def group(self, start: int) -> RegexNode | None:
        before = self.flags
        if self.take("?") and not self.group_head(start):
            return None
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(start, f"at most {MAX_DEPTH} groups inside each other")
        node = self.alternatives()
        if not self.take(")"):
            raise self.error(start, "a ')' for it")
        self.depth -= 1
        self.flags = before
        return node

    def group_head(self, start: int) -> bool:
        """What follows '(?'; False where it only sets flags for the rest of the group around it."""
        if self.take("P<") or (self.peek() == "<" and self.peek(2) not in ("<=", "<!") and self.take("<")):
            end = self.pattern.find(">", self.at)
            name = self.pattern[self.at : end] if end >= 0 else ""
            self.at = max(end, self.at) + 1
            if not name.isidentifier() or name in self.names:
                raise self.error(start, "a name of letters, digits and _, given once")
            self.names.add(name)
            return True
        on = True
        while self.peek() not in (":", ")"):
            letter = self.peek()
            self.at += 1
            if letter == "-" and on:
                on = False
            elif letter and letter in "imsU":
                self.flags = self.flags.changed(letter, on)
            else:
                raise self.error(start, "syntax of RE2: (?:...), (?P<name>...) or flags out of i, m, s and U")
        return not self.take(")") and self.take(":")

    def escape(self, start: int) -> RegexNode:
        letter = self.peek()
        if letter in _ASSERTIONS and letter:
            self.at += 1
            return RegexNode("assert", assertion=_ASSERTIONS[letter])
        named = self.named_class(start)
        if named is not None:
            return RegexNode("ranges", ranges=named)
        point = self.escaped_point(start)
        return self.one_of(((point, point),))

    def named_class(self, start: int) -> Ranges | None:
        """The class that follows a backslash: d, s, w, p, their negations."""
        letter = self.peek()
        if letter and letter.lower() in classes.PERL:
            self.at += 1
            return self.signed(classes.PERL[letter.lower()], letter.isupper())
        if letter not in ("p", "P") or not letter:
            return None
        self.at += 1
        name, negative = self.category_name(start), letter == "P"
        if name.startswith("^"):
            name, negative = name[1:], not negative
        known = {"Any": classes.EVERYTHING, **classes.unicode_categories()}
        if name not in known:
            raise self.error(start, "a general category of Unicode, such as L or Lu")
        return self.signed(known[name], negative)

    def category_name(self, start: int) -> str:
        if not self.take("{"):
            self.at += 1
            return self.pattern[self.at - 1 : self.at]
        end = self.pattern.find("}", self.at)
        if end < 0:
            raise self.error(start, "a '}' for it")
        name = self.pattern[self.at : end]
        self.at = end + 1
        return name

    def signed(self, ranges: Ranges, negative: bool) -> Ranges:
        ranges = classes.fold(ranges) if self.flags.fold else ranges
        return classes.complement(ranges) if negative else ranges

    def escaped_point(self, start: int) -> int:
        """The code point that follows a backslash."""
        letter = self.peek()
        self.at += 1
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "x":
            return self.hexadecimal(start)
        if letter == "0" or (letter in _OCTAL and self.peek() in _OCTAL and self.peek()):
            digits = letter
            while len(digits) < 3 and self.peek() and self.peek() in _OCTAL:
                digits += self.peek()
                self.at += 1
            return int(digits, 8)
        if letter and letter.isascii() and not letter.isalnum():
            return ord(letter)
        raise self.error(start, "an escape of RE2")

    def hexadecimal(self, start: int) -> int:
        if self.take("{"):
            end = self.pattern.find("}", self.at)
            digits = self.pattern[self.at : end] if end >= 0 else ""
            self.at = max(end, self.at) + 1
        else:
            digits = self.peek(2)
            self.at += 2
            digits = digits if len(digits) == 2 else ""
        if not digits or not _HEX.issuperset(digits) or int(digits, 16) > classes.LAST:
            raise self.error(start, "a code point: two hexadecimal digits, or some in braces")
        return int(digits, 16)

    def one_class(self, start: int) -> RegexNode:
        negative = self.take("^")
        found: list[tuple[int, int]] = []
        first = True
        while first or self.peek() != "]":
            if self.at >= len(self.pattern):
                raise self.error(start, "a ']' for it")
            found.extend(self.class_item())
            first = False
        self.at += 1
        return RegexNode("ranges", ranges=self.signed(classes.union(found), negative))

    def class_item(self) -> Ranges:
        start = self.at
        if self.peek(2) == "[:" and ":]" in self.pattern[self.at :]:
            return self.posix_class(start)
        if self.take("\\"):
            named = self.named_class(start)
            if named is not None:
                return named
            low = self.escaped_point(start)
        else:
            low = self.plain_point()
        if self.peek() != "-" or self.peek(2) in ("-]", "-"):
            return ((low, low),)
        self.at += 1
        high = self.escaped_point(start) if self.take("\\") else self.plain_point()
        if high < low:
            raise self.error(start, "a range in ascending order")
        return ((low, high),)

    def plain_point(self) -> int:
        self.at += 1
        return ord(self.pattern[self.at - 1])

    def posix_class(self, start: int) -> Ranges:
        end = self.pattern.index(":]", self.at)
        name = self.pattern[self.at + 2 : end]
        self.at = end + 2
        ranges = classes.POSIX.get(name.removeprefix("^"))
        if ranges is None:
            raise self.error(start, f"one of {', '.join(classes.POSIX)}")
        return self.signed(ranges, name.startswith("^"))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


class _Compiler:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.program = RegexProgram()
        self.known: dict[Ranges, int] = {}

    def add(self, op: int, a: int = 0, b: int = 0) -> int:
        """Appends an instruction; its place."""
        code = self.program.code
        if len(code) >= MAX_INSTRUCTIONS:
            raise fail("string.regex_full_match", "attribute pattern", f"{self.pattern[:80]!r}, whose repeats unfold to more",
                       f"a pattern of at most {MAX_INSTRUCTIONS} steps")
        code.append((op, a, b))
        return len(code) - 1

    def patch(self, place: int, a: int, b: int = 0) -> None:
        self.program.code[place] = (self.program.code[place][0], a, b)

    @property
    def end(self) -> int:
        return len(self.program.code)

    def emit(self, node: RegexNode) -> None:
        match node.kind:
            case "concat":
                for part in node.parts:
                    self.emit(part)
            case "alternate":
                self.alternate(node.parts)
            case "repeat":
                self.repeat(node.parts[0], node.low, node.high)
            case "assert":
                self.add(ASSERT, node.assertion)
            case _:
                self.add(RANGES, self.place(node.ranges), len(node.ranges))

    def place(self, ranges: Ranges) -> int:
        """Where ``ranges`` lie in the table."""
        if ranges not in self.known:
            self.known[ranges] = len(self.program.ranges)
            self.program.ranges.extend(ranges)
        return self.known[ranges]

    def alternate(self, branches: tuple[RegexNode, ...]) -> None:
        exits = []
        for branch in branches[:-1]:
            split = self.add(SPLIT)
            self.emit(branch)
            exits.append(self.add(JUMP))
            self.patch(split, split + 1, self.end)
        self.emit(branches[-1])
        for place in exits:
            self.patch(place, self.end)

    def repeat(self, body: RegexNode, low: int, high: int | None) -> None:
        start = self.end
        for _ in range(low):
            self.emit(body)
            if self.end == start:
                return
        if high is None:
            split = self.add(SPLIT)
            self.emit(body)
            self.add(JUMP, split)
            self.patch(split, split + 1, self.end)
            return
        splits = []
        for _ in range(high - low):
            splits.append(self.add(SPLIT))
            self.emit(body)
        for split in splits:
            self.patch(split, split + 1, self.end)


@cache
def compile_pattern(pattern: str) -> RegexProgram:
    """The program of ``pattern``.

    Raises:
        TypeInferenceError: it is not in the syntax above; the message names the construct and its position.
    """
    compiler = _Compiler(pattern)
    compiler.emit(_Parser(pattern).parse())
    compiler.add(MATCH)
    return compiler.program
