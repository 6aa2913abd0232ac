"""A limit on how many nodes rules replace, so that a search finds the one replacement that is to blame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


@dataclass
class Budget:
    """Rules replace ``limit`` nodes and leave all others; None: no limit.

    Attributes:
        replaced: rules and labels of the nodes that they have replaced, in order.
    """

    limit: int | None = None
    replaced: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_spent(self) -> bool:
        return self.limit is not None and len(self.replaced) >= self.limit

    def note(self, rule: str, label: str) -> None:
        self.replaced.append((rule, label))


def current() -> Budget | None:
    """The budget that holds now."""
    return _current.get()


@contextmanager
def limited(limit: int | None = None) -> Iterator[Budget]:
    """Counts the replacements in the block, and ends them after ``limit``."""
    budget = Budget(limit)
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)
