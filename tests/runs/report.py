"""What a run says at its end: what it ran, sampled and left out, the slowest cases, and how to run a failed one again.

With ``--report=FILE`` it says first what the runs before it have put into FILE, and adds its own.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.runs.selection import COMMITS, Selection, Watch

SLOWEST = 10


class Report:
    """In the process that reports. Selections come from the processes that collected, which are equal."""

    def __init__(self, selection: Selection, watch: Watch, name: str, path: str | None) -> None:
        self.name = name
        self.path = path
        self.selection = selection
        self.watch = watch
        self.counts: dict[str, int] = selection.counts
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.outcomes: Counter[str] = Counter()
        self.failed: dict[str, None] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Of a worker of pytest-xdist."""
        output = getattr(node, "workeroutput", {})
        self.counts = output.get("counts", self.counts)
        self.watch.sampled |= set(output.get("sampled", ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of each phase of each case."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed[report.nodeid] = None
        if report.when == "call" or report.skipped:
            self.outcomes[report.outcome] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Where one process does it all, its own selection counts."""
        self.watch.sampled |= set(self.selection.sampled)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Writes it."""
        terminalreporter.section("what was run")
        text = "".join(f"{line}\n" for line in self.lines())
        if self.path is not None:
            with open(self.path, "a+", encoding="utf-8") as stream:
                stream.write(f"{self.name or 'tests'}:\n{text}")
                stream.seek(0)
                text = stream.read()
        terminalreporter.write(text)

    def lines(self) -> list[str]:
        """What `pytest_terminal_summary` writes."""
        c, seed = self.counts, self.selection.seed
        lines = [f"{c['whole']} cases that always run, {c['sampled']} of {c['of']} that are sampled"
                 + (f" by --seed={seed}" if c["of"] else "")
                 + (f", {c['watched']} that failed in a sample at one of the last {COMMITS} commits" if c["watched"] else "")]
        if c["passed before"]:
            lines.append(f"{c['passed before']} of them passed in the run before, and were not run again")
        if c["slow"]:
            lines.append(f"{c['slow']} slow cases were left out; all of them: make test-all")
        if self.outcomes["skipped"]:
            lines.append(f"{self.outcomes['skipped']} were skipped; the reasons: pytest -rs")
        slowest = sorted(self.seconds.items(), key=lambda item: -item[1])[:SLOWEST]
        lines.append("slowest:")
        lines += [f"  {seconds:6.1f} s  {name}" for name, seconds in slowest]
        if self.failed:
            lines.append("to run what failed again:")
            lines += [f"  .venv/bin/python -m pytest {shlex.quote(name)}" for name in self.failed]
        return lines
