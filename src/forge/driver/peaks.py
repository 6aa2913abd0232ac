"""What this machine can do at most: multiply-adds from registers, bytes copied in memory. Measured, not looked up."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge.backends.core_rates import ACCUMULATORS, best_seconds, multiply_adds, native
from forge.target import Target

_STEPS = 1_000_000
"""About 2 ms: some of many such runs are not interrupted on a busy machine."""
_COPIED = 1 << 26
_REPEAT, _COPIES = 30, 10


@dataclass(frozen=True)
class Peaks:
    """``flops``: float32 operations per second, of all threads; ``bandwidth``: bytes per second, read and written."""

    flops: float
    bandwidth: float


def measure(target: Target, threads: int = 1) -> Peaks:
    """Both peaks, of ``threads`` threads at once, each on a CPU of its own; takes about 0.3 s."""
    cpus = itertools.cycle(sorted(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(threads, initializer=lambda: os.sched_setaffinity(0, {next(cpus)})) as pool:
        return Peaks(_flops(target, threads, pool), _bandwidth(threads, pool))


def _at_once(pool: ThreadPoolExecutor, work: Callable[[Any], object], items: Sequence[Any]) -> None:
    """Does each item's work on a thread of its own: none begins, and may so finish, before the last thread is there."""
    ready = threading.Barrier(len(items))

    def run(item: Any) -> None:
        ready.wait()
        work(item)

    list(pool.map(run, items))


def _flops(target: Target, threads: int, pool: ThreadPoolExecutor) -> float:
    kernel = native(target, multiply_adds(target, _STEPS))
    arrays = [np.full(ACCUMULATORS * target.lanes("float32"), 0.5, np.float32) for _ in range(threads)]
    seconds = best_seconds(lambda: _at_once(pool, lambda array: kernel(array.ctypes.data), arrays), _REPEAT)
    return 2 * sum(a.size for a in arrays) * _STEPS / seconds


def _bandwidth(threads: int, pool: ThreadPoolExecutor) -> float:
    pairs = [(np.ones(_COPIED // threads, np.uint8), np.ones(_COPIED // threads, np.uint8)) for _ in range(threads)]
    seconds = best_seconds(lambda: _at_once(pool, lambda pair: np.copyto(*pair), pairs), _COPIES)
    return 2 * sum(a.nbytes for a, _ in pairs) / seconds
