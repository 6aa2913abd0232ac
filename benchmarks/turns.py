"""Variants of one computation timed in turns, so that a change of the machine's speed meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

Name = TypeVar("Name", bound=Hashable)

MIN_ROUNDS = 5
SETTLING_SECONDS = 0.01
"""Worker threads of OpenMP, as torch has them, spin on for some milliseconds after a call, and would slow the next variant."""


def take_turns(variants: Mapping[Name, Callable[[], Any]], seconds: float) -> dict[Name, list[float]]:
    """The times of calls in seconds, by variant: of each turn the second, after a pause and a call that warms the caches."""
    times: dict[Name, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < MIN_ROUNDS:
        for name, run in variants.items():
            time.sleep(SETTLING_SECONDS)
            run()
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


__all__ = ["take_turns"]
