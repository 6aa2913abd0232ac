"""Runs mutants in worker processes and collects what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tests.onnx_backend.pool import Outcome, run_cases

WALL_SECONDS = 60.0
"""When a silent worker is given up; it measures its own processor time, which other programs do not lengthen."""


def run_campaign(
    seed: int, numbers: Iterable[int], settings: str, workers: int = 2, progress: Callable[[Outcome], None] = lambda _: None
) -> tuple[list[Outcome], Counter[str]]:
    """The findings, and how often each kind of outcome was there."""
    cases = [f"{seed}:{number}" for number in numbers]
    outcomes = run_cases(cases, settings, workers, WALL_SECONDS, progress, "tests.frontends.onnx.fuzz.worker")
    notes = Counter(o.note or "finding" for o in outcomes.values())
    return [o for o in outcomes.values() if not o.passed], notes
