"""How long each case took, and what it waited for; ``python -m tests.clock`` shows it.

``--clock=NAME`` writes one line of JSON for each phase of each case to ``clock/NAME.jsonl`` of the kept folder: the case, the
phase (setup, call, teardown), its outcome, seconds, and of these the seconds in each of the parts below, without those of parts
in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.runs import kept

PROPERTY = "clock"

PARTS = {
    "llvm": "waiting for LLVM's object code",
    "link": "linking, into this process or into a library",
    "import": "importing modules",
    "processes": "waiting for other processes than LLVM's",
    "oracle": "onnxruntime, and torch's exporters",
}


class Stopwatch:
    """Seconds by part. Parts may be nested: time counts to the innermost."""

    def __init__(self) -> None:
        self._running: list[list[float]] = []
        self._seconds: dict[str, float] = {}

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, whose time counts to ``part``."""
        def counted(*arguments: Any, **named: Any) -> Any:
            begin, inner = time.perf_counter(), [0.0]
            self._running.append(inner)
            try:
                return function(*arguments, **named)
            finally:
                spent = time.perf_counter() - begin
                self._running.pop()
                self._seconds[part] = self._seconds.get(part, 0.0) + spent - inner[0]
                if self._running:
                    self._running[-1][0] += spent

        return counted

    def taken(self) -> dict[str, float]:
        """Seconds by part since the last call."""
        found, self._seconds = self._seconds, {}
        return {part: round(seconds, 4) for part, seconds in found.items() if seconds >= 0.00005}


class Parts:
    """In the process that runs cases: measures their parts."""

    def __init__(self) -> None:
        self.stopwatch = Stopwatch()
        self._time("processes", subprocess.Popen, "communicate", "wait")
        self._late = {"forge.codegen.compile": self._forge, "forge.codegen.jit": self._forge, "onnxruntime": self._onnxruntime,
                      "torch.export": self._torch}
        bootstrap: Any = sys.modules["importlib._bootstrap"]
        find = self.stopwatch.timed("import", bootstrap._find_and_load)

        def found(name: str, import_: Any) -> Any:
            module = find(name, import_)
            late = self._late.pop(name, None)
            if late is not None:
                late(module)
            return module

        bootstrap._find_and_load = found

    def _time(self, part: str, owner: Any, *names: str) -> None:
        for name in names:
            setattr(owner, name, self.stopwatch.timed(part, getattr(owner, name)))

    def _forge(self, module: Any) -> None:
        if hasattr(module, "WorkerPool"):
            self._time("llvm", module.WorkerPool, "compile")
        else:
            self._time("link", module.JitLibrary, "__init__")

    def _onnxruntime(self, module: Any) -> None:
        self._time("oracle", module.InferenceSession, "__init__", "run")

    def _torch(self, module: Any) -> None:
        self._time("oracle", module, "export")

    def pytest_collection_finish(self) -> None:
        """What was imported until then belongs to no case."""
        self.stopwatch.taken()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Adds what the phase waited for to its report, which goes to the process that writes."""
        report = yield
        report.user_properties = [p for p in report.user_properties if p[0] != PROPERTY] + [(PROPERTY, self.stopwatch.taken())]
        return report


class Recorder:
    """In the process that reports: writes what cases took."""

    def __init__(self, name: str) -> None:
        self.path = path_of(name)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._work = self.path.with_suffix(f".{os.getpid()}")
        self._stream = self._work.open("w", encoding="utf-8")
        self._begin = time.time()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of each phase of each case."""
        parts = dict(report.user_properties).get(PROPERTY, {})
        line = [report.nodeid, report.when, report.outcome, round(report.duration, 4), parts]
        self._stream.write(json.dumps(line) + "\n")

    def pytest_sessionfinish(self) -> None:
        """The record appears under its name with its last line, the seconds of the whole run."""
        self._stream.write(json.dumps(["", "run", "", round(time.time() - self._begin, 2), {}]) + "\n")
        self._stream.close()
        self._work.replace(self.path)


def path_of(name: str) -> Path:
    """Where the record of the run ``name`` is."""
    return kept.folder() / "clock" / f"{name}.jsonl"
