"""What rules have done, noted while somebody wants to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from forge.ir.nodes import Node

_current: ContextVar[Journal | None] = ContextVar("journal", default=None)


@dataclass(frozen=True)
class Attempt:
    """A rule that has replaced a node, or declined to.

    Attributes:
        stage: during which it was tried.
        label: of ``node``, as it was then.
        made: the new nodes.
        reason: why the rule declined; empty: it has not.
    """

    stage: str
    rule: str
    node: Node
    label: str
    made: tuple[Node, ...] = ()
    reason: str = ""


class Journal:
    """Attempts in their order, each reason once."""

    def __init__(self) -> None:
        self.stage = ""
        self.attempts: dict[Attempt, None] = {}
        self.changes: dict[str, int] = {}  # by stage

    def note(self, rule: str, node: Node, label: str, made: Sequence[Node], reason: str) -> None:
        self.attempts[Attempt(self.stage, rule, node, label, tuple(made), reason)] = None


def current() -> Journal | None:
    """The journal that is kept now."""
    return _current.get()


@contextmanager
def recorded() -> Iterator[Journal]:
    """Keeps a journal of what happens in the block."""
    kept = Journal()
    token = _current.set(kept)
    try:
        yield kept
    finally:
        _current.reset(token)
