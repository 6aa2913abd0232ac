"""What rules have done, noted while somebody wants to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
        moves_rounding: whether the rule has rounded somewhere else than the model.
    """

    stage: str
    rule: str
    node: Node
    label: str
    made: tuple[Node, ...] = ()
    reason: str = ""
    moves_rounding: bool = False


class Journal:
    """Attempts in their order, each reason once."""

    def __init__(self) -> None:
        self.stage = ""
        self.attempts: dict[Attempt, None] = {}
        self.changes: dict[str, int] = {}  # by stage

    def fired(self) -> list[tuple[str, str, int, list[str]]]:
        """(stage, rule, how often it replaced a node, labels of these), and stages without rules that have changed the graph."""
        rows: dict[tuple[str, str], list[str]] = {}
        for attempt in self.attempts:
            if not attempt.reason:
                rows.setdefault((attempt.stage, attempt.rule), []).append(attempt.label)
        found = [(stage, rule, len(labels), labels) for (stage, rule), labels in rows.items()]
        ruled = {stage for stage, _ in rows}
        return found + [(stage, "", count, []) for stage, count in self.changes.items() if count and stage not in ruled]

    def declined(self) -> list[Attempt]:
        """Attempts at nodes that their stage left in the graph."""
        return [attempt for attempt in self.attempts if attempt.reason]

    def moved(self) -> list[str]:
        """Labels of the nodes whose rounding has moved."""
        return [attempt.label for attempt in self.attempts if attempt.moves_rounding]

    def clear(self) -> None:
        """Forgets all that was noted."""
        self.attempts.clear()
        self.changes.clear()

    def note(self, rule: str, node: Node, label: str, made: Sequence[Node], reason: str, moves_rounding: bool = False) -> None:
        moved = moves_rounding and not reason
        self.attempts[Attempt(self.stage, rule, node, label, tuple(made), reason, moved)] = None


def staged(stage: str, run: Callable[[], int]) -> int:
    """``run``, noted as ``stage``; what was declined for nodes that go in it is forgotten."""
    kept = current()
    if kept is None:
        return run()
    kept.stage = stage
    count = kept.changes[stage] = run()
    gone = [a for a in kept.attempts if a.stage == stage and a.reason and a.node.graph is None]
    for attempt in gone:
        del kept.attempts[attempt]
    return count


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
