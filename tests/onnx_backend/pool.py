"""Runs cases in worker processes, so that a crash or a hang is charged to its case."""

from __future__ import annotations

import json
import os
import queue
import selectors
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
START_SECONDS = 120.0
KINDS = ("passed", "refused", "wrong", "crashed", "hung")


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        kind: one of ``KINDS``.
        message: why; empty when it passed.
        note: what the worker says about it besides.
    """

    case: str
    kind: str
    message: str
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.kind == "passed"


class Worker:
    """One worker process, started when first needed and again after it died."""

    def __init__(self, runtime: str, seconds: float, module: str = "tests.onnx_backend.worker") -> None:
        self.runtime = runtime
        self.seconds = seconds
        self.module = module
        self._process: subprocess.Popen[str] | None = None

    def run(self, case: str) -> Outcome:
        """Runs a case; a worker that dies or is silent for too long is ended."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(f"{case}\n")
            process.stdin.flush()
            answer = self._answer(self.seconds)
        except BrokenPipeError:
            answer = None
        if answer is not None:
            kind = "wrong" if answer["message"] else "passed"
            return Outcome(case, answer.get("kind", kind), answer["message"], answer.get("note", ""))
        return Outcome(case, *self.stop())

    def stop(self) -> tuple[str, str]:
        """Ends the process; says how it ended: crashed on its own, or had to be killed."""
        process, self._process = self._process, None
        if process is None:
            return "crashed", "not running"
        try:
            code = process.wait(0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return "hung", f"no answer within {self.seconds:g} s"
        return "crashed", f"worker ended with code {code}"

    def close(self) -> None:
        """Ends an idle process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self.stop()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, self.runtime],
                cwd=ROOT,
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            if self._answer(START_SECONDS) is None:
                raise RuntimeError(f"onnx backend suite: worker did not start: {self.stop()[1]}")
        return self._process

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        assert self._process is not None and self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                return None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None


def run_cases(
    names: Iterable[str],
    runtime: str,
    workers: int = 2,
    seconds: float = 60.0,
    progress: Callable[[Outcome], None] = lambda _: None,
    module: str = "tests.onnx_backend.worker",
) -> dict[str, Outcome]:
    """Outcomes of all cases by name."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def serve() -> None:
        worker = Worker(runtime, seconds, module)
        try:
            while True:
                done.put(worker.run(waiting.get_nowait()))
        except queue.Empty:
            worker.close()

    total = waiting.qsize()
    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(workers, total))]
    for thread in threads:
        thread.start()
    outcomes: dict[str, Outcome] = {}
    while len(outcomes) < total:
        outcome = done.get(timeout=seconds + START_SECONDS)
        outcomes[outcome.case] = outcome
        progress(outcome)
    for thread in threads:
        thread.join()
    return outcomes
