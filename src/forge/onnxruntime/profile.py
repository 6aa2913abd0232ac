"""Profiles of sessions, in the format of Chrome's trace viewer, as onnxruntime writes them."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from forge.onnxruntime.devices import CPU
from forge.onnxruntime.model import Program


class Profiler:
    """Collects the times of calls. Code that was compiled for it has one output more: when each kernel ended."""

    def __init__(self, prefix: str) -> None:
        self.start_ns = time.time_ns()
        self._start = time.perf_counter_ns()
        self._prefix = prefix
        self._events: list[tuple[str, str, int, int, int, dict[str, str]]] = []
        self._is_over = False
        self._calls: list[tuple[Program, int, int, int, np.ndarray]] = []

    def phase(self, name: str, begin: int) -> None:
        """A part of the session's life that began at ``begin`` (``time.perf_counter_ns``) and ends now."""
        self._events.append(("Session", name, threading.get_native_id(), begin, time.perf_counter_ns(), {}))

    def call(self, program: Program, run: Callable[[], Sequence[Any]]) -> list[Any]:
        begin = time.perf_counter_ns()
        *results, stamps = run()
        if not self._is_over:
            end = time.perf_counter_ns()
            self._calls.append((program, threading.get_native_id(), begin, end, np.array(stamps, np.float64)))
        return results

    def write(self) -> str:
        """Ends collecting; the path of the file, whose name ends with the current time."""
        self._is_over = True
        path = f"{self._prefix}_{datetime.now():%Y-%m-%d_%H-%M-%S_%f}.json"
        rows = [self._row(*event) for event in sorted([*self._events, *self._kernels()], key=lambda event: event[3])]
        with open(path, "w", encoding="utf-8") as stream:
            stream.write("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
        return path

    def _kernels(self) -> Iterator[tuple[str, str, int, int, int, dict[str, str]]]:
        """Each call and its kernels; the cycles that these are counted in are told by the length of calls."""
        for program, thread, begin, end, stamps in self._calls:
            yield "Session", "model_run", thread, begin, end, {}
            scale = (end - begin) / (float(stamps[-1] - stamps[0]) or 1.0)
            moments = begin + (stamps - stamps[0]) * scale
            for (name, args), first, last in zip(_described(program), moments, moments[1:]):
                yield "Node", name, thread, int(first), int(last), args

    def _row(self, category: str, name: str, thread: int, begin: int, end: int, args: dict[str, str]) -> dict[str, Any]:
        times = {"dur": (end - begin) // 1000, "ts": (begin - self._start) // 1000}
        return {"cat": category, "pid": os.getpid(), "tid": thread, **times, "ph": "X", "name": name, "args": args}


def _described(program: Program) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and arguments of the event of each kernel."""
    from forge.driver.profiler import items_of
    from forge.lowering.texts import parts

    assert program.compiled is not None
    for item, kernel in items_of(program.compiled):
        nodes, _, _ = parts(item)
        operators = " ".join(node.op.removeprefix("nn.") for node in nodes)
        name = next((node.name for node in reversed(nodes) if node.name), operators or kernel)
        yield f"{name}_kernel_time", {"op_name": operators, "provider": CPU, "kernel": kernel}
