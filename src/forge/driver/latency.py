"""Fair timing of several implementations of one model.

Machines drift: frequency, neighbours, page cache. So implementations take turns in every round, the order moves on by
one from round to round, and each sample follows an untimed call that brings the caches back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

_SAMPLE_SECONDS = 2e-3


@dataclass(frozen=True)
class Latencies:
    """Seconds per call, one entry a round."""

    samples: tuple[float, ...]

    def quantile(self, fraction: float) -> float:
        """The value below which ``fraction`` of the samples lie, interpolated."""
        return float(np.quantile(self.samples, fraction))

    @property
    def minimum(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return self.quantile(0.5)


def measure(calls: Mapping[str, Callable[[], object]], rounds: int, *, pause: float = 0.0) -> dict[str, Latencies]:
    """Times every call of ``calls`` in ``rounds`` interleaved rounds.

    Args:
        calls: What to time, by name. Each has been called before: first calls are not warm.
        rounds: Number of samples of each.
        pause: Seconds of sleep before each sample, for the spinning threads of the previous library to fall asleep.

    A call shorter than 2 ms is repeated within a sample, which then holds the mean.
    """
    names = list(calls)
    repeats = {name: _repeats(calls[name]) for name in names}
    samples: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds):
        first = round_number % len(names)
        for name in names[first:] + names[:first]:
            if pause:
                time.sleep(pause)
            calls[name]()
            samples[name].append(_time(calls[name], repeats[name]))
    return {name: Latencies(tuple(taken)) for name, taken in samples.items()}


def _time(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _repeats(call: Callable[[], object]) -> int:
    call()
    return max(1, math.ceil(_SAMPLE_SECONDS / max(_time(call, 1), 1e-7)))
