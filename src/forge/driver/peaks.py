"""What this machine can do at most: multiply-adds from registers, bytes copied in memory. Measured, not looked up."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import loops
from forge.backends.core_rates import best_seconds
from forge.codegen.compile import compile_modules
from forge.codegen.jit import JitLibrary
from forge.codegen.module import emit_module, kernel_symbol
from forge.loops import Accumulators, RegisterTile
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer
from forge.tir.stmt import Function, seq, store

_ACCUMULATORS = 12
"""Independent chains of multiply-adds: more than latency times throughput, fewer than the registers."""

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
    function = _multiply_adds(target, _STEPS)
    symbol = kernel_symbol(function.name)
    library = JitLibrary(compile_modules([(function.name, emit_module([function], target))], target), [symbol])
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(library.addresses[symbol])
    arrays = [np.full(_ACCUMULATORS * target.lanes("float32"), 0.5, np.float32) for _ in range(threads)]
    seconds = best_seconds(lambda: _at_once(pool, lambda array: kernel(array.ctypes.data, None), arrays), _REPEAT)
    return 2 * sum(a.size for a in arrays) * _STEPS / seconds


def _bandwidth(threads: int, pool: ThreadPoolExecutor) -> float:
    pairs = [(np.ones(_COPIED // threads, np.uint8), np.ones(_COPIED // threads, np.uint8)) for _ in range(threads)]
    seconds = best_seconds(lambda: _at_once(pool, lambda pair: np.copyto(*pair), pairs), _COPIES)
    return 2 * sum(a.nbytes for a, _ in pairs) / seconds


def _multiply_adds(target: Target, steps: int) -> Function:
    """Independent multiply-adds on registers only."""
    lanes = target.lanes("float32")
    result = Buffer("y", "float32", (E.const(_ACCUMULATORS * lanes),))
    acc = Accumulators(RegisterTile(_ACCUMULATORS, 1, lanes, "float32"))
    lets, x = loops.bind("x", E.load(result, E.ramp(0, 1, lanes)))
    grow = loops.serial("step", steps, lambda _: loops.unroll(
        "row", _ACCUMULATORS, lambda row: acc.set(row, 0, loops.multiply_add(acc.get(row, 0), x, x))))
    write = acc.each(lambda row, _: store(result, E.ramp(row * lanes, 1, lanes), acc.get(row, 0)))
    return Function("peak", (result,), (), seq(lets, acc.allocate(), acc.clear(), grow, write))
