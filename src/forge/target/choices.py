"""Choices that measurements made better than the cost models do.

A kernel or pass that has several ways gives each problem a key, its default, and the alternatives in the order of its cost model;
``Choices.pick`` answers with what was measured to be the fastest for that key, or with the default. An alternative is a tuple of
whole numbers. What was chosen but is no longer an alternative (by another version) is ignored: choices never make code wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

Numbers = tuple[int, ...]
Choice = TypeVar("Choice", bound=Numbers)

LIMIT = 8
"""Alternatives to a default that are worth a measurement."""


class Choices:
    """What was chosen, as text by key; a value, as targets are."""

    def __init__(self, entries: Mapping[str, str] = MappingProxyType({})) -> None:
        self.entries = MappingProxyType(dict(sorted(entries.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choices) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(tuple(self.entries.items()))

    def __repr__(self) -> str:
        return f"<{len(self.entries)} choices {self.digest}>"

    def pick(self, key: str, default: Choice, alternatives: Callable[[], Iterable[Choice]], kernel: str = "") -> Choice:
        """The choice for ``key``; ``kernel`` names the function that is being built, if one is."""
        wanted = self.entries.get(key)
        if wanted is None:
            return default
        return next((choice for choice in alternatives() if as_text(choice) == wanted), default)

    def note(self, key: str, kernel: str) -> None:
        """Function ``kernel`` came out of the choice for ``key``, which a pass made."""

    @property
    def digest(self) -> str:
        """Of the entries; empty where there are none."""
        return hashlib.sha256(repr(list(self.entries.items())).encode()).hexdigest()[:16] if self.entries else ""


def as_text(choice: Numbers) -> str:
    """``2 7 2``."""
    return " ".join(map(str, choice))
