"""Variants of one computation timed in turns, so that a change of the machine's speed meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

LEAST_ROUNDS = 5


def take_turns(variants: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    """The times of all calls in seconds, by variant; the first call of each is not counted."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < LEAST_ROUNDS:
        for name, run in variants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


__all__ = ["take_turns"]
