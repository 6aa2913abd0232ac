"""Processes that may crash or hang: started, asked for answers within a time limit, held still, ended."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_ROOT = Path(__file__).parent.parent


class WorkerFailed(Exception):
    """Why a process gave no answer, in one line."""


class Worker:
    """A running ``python -m benchmarks.worker``; what it prints besides its answers goes to ``log``."""

    def __init__(self, *arguments: object, log: Path, module: str = "benchmarks.worker") -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=_ROOT)
        self._received = b""

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def request(self, seconds: float) -> dict[str, Any]:
        """Asks for one more answer.

        Raises:
            WorkerFailed: the process says that it failed, ended, or did not answer in time.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(self._ending()) from None
        return self.answer(seconds)

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next answer; raises as `request`."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._received:
            self._received += self._read(deadline, seconds)
        line, self._received = self._received.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if "failure" in answer:
            raise WorkerFailed(" ".join(str(answer["failure"]).split())[:300])
        return answer

    def _read(self, deadline: float, seconds: float) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise WorkerFailed(f"no answer in {seconds:.0f} s")
        part = os.read(self._process.stdout.fileno(), 1 << 16)
        if not part:
            raise WorkerFailed(self._ending())
        return part

    def _ending(self) -> str:
        status = self._process.wait()
        how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"{how}: {lines[-1][:200]}" if lines else how

    def hold(self) -> None:
        """Stops all its threads, those that spin for work included, until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def run(*arguments: object, log: Path, seconds: float) -> dict[str, Any]:
    """The one answer of a process; raises `WorkerFailed`."""
    with Worker(*arguments, log=log) as worker:
        return worker.answer(seconds)
