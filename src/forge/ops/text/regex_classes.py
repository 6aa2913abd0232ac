"""Sets of code points as ascending, disjoint ranges: named classes of regular expressions, negation, equality of cases."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from functools import cache

Range = tuple[int, int]
Ranges = tuple[Range, ...]
LAST = sys.maxunicode
EVERYTHING: Ranges = ((0, LAST),)


def _of(text: str) -> Ranges:
    """Ranges written as pairs of first and last character."""
    return tuple((ord(text[k]), ord(text[k + 1])) for k in range(0, len(text), 2))


DIGIT, SPACE, WORD = _of("09"), _of("\t\n\f\r  "), _of("09AZ__az")
PERL = {"d": DIGIT, "s": SPACE, "w": WORD}
POSIX = {
    "alnum": _of("09AZaz"), "alpha": _of("AZaz"), "ascii": _of("\x00\x7f"), "blank": _of("\t\t  "),
    "cntrl": _of("\x00\x1f\x7f\x7f"),
    "digit": DIGIT, "graph": _of("!~"), "lower": _of("az"), "print": _of(" ~"), "punct": _of("!/:@[`{~"), "space": _of("\t\r  "),
    "upper": _of("AZ"), "word": WORD, "xdigit": _of("09AFaf"),
}  # fmt: skip


def union(ranges: Iterable[Range]) -> Ranges:
    """The same set in canonical form."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """All other code points."""
    gaps, begin = [], 0
    for first, last in union(ranges):
        if first > begin:
            gaps.append((begin, first - 1))
        begin = last + 1
    return tuple([*gaps, (begin, LAST)] if begin <= LAST else gaps)


@cache
def unicode_categories() -> dict[str, Ranges]:
    """General categories (``Lu``) and their groups (``L``)."""
    found: dict[str, list[Range]] = {}
    for point in range(LAST + 1):
        runs = found.setdefault(unicodedata.category(chr(point)), [])
        if runs and runs[-1][1] == point - 1:
            runs[-1] = (runs[-1][0], point)
        else:
            runs.append((point, point))
    groups: dict[str, list[Range]] = {}
    for name, runs in found.items():
        groups.setdefault(name[0], []).extend(runs)
    return {name: union(runs) for name, runs in {**found, **groups}.items()}


def _folded(point: int) -> int:
    text = chr(point)
    return ord(next((form for form in (text.casefold(), text.lower()) if len(form) == 1), text))


@cache
def _orbits() -> dict[int, tuple[int, ...]]:
    """For every code point that has others equal but for case: all of them."""
    members: dict[int, set[int]] = {}
    for point in range(LAST + 1):
        folded = _folded(point)
        if folded != point:
            members.setdefault(folded, {folded}).add(point)
    return {point: tuple(orbit) for orbit in members.values() for point in orbit}


def fold(ranges: Ranges) -> Ranges:
    """The set with all code points that differ from a member in case only."""
    inside = [orbit for point, orbit in _orbits().items() if any(first <= point <= last for first, last in ranges)]
    return union([*ranges, *((point, point) for orbit in inside for point in orbit)])
