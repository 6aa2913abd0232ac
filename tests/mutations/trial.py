"""Runs the tests on a copy that has a fault, the nearest ones first, until one fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutations.areas import AREAS, nearest
from tests.mutations.catalogue import Fault
from tests.mutations.checkout import BrokenCopy, Checkout

CAUGHT, SURVIVED, STALE, LIMIT = "caught", "survived", "stale", "time limit"
_SUMMARY = "short test summary info"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_CRASHED = re.compile(r'File "[^"]*?(tests/[\w/]*test_\w+\.py)", line \d+ in (test_\w+)')
"""In the traceback that Python writes when a signal ends it."""
_NO_TESTS = 5
_PASSED = (0, _NO_TESTS)
_RETRIES = 20
"""Tests that fail in the copy without a fault, left out one after another, before a trial gives up."""


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: which test caught it, in a run with slow tests or without, and after how many seconds."""

    state: str
    test: str = ""
    slow: bool = False
    seconds: float = 0.0

    @property
    def caught(self) -> bool:
        return self.state in (CAUGHT, LIMIT)


@dataclass
class Settings:
    """Processes of the whole runs, what samples are chosen by, seconds that one run may take, and which runs there are."""

    processes: str = "0"
    seed: str = "0"
    limit: float = 7200.0
    quick: bool = True
    slow: bool = False
    whole: bool = True
    options: Sequence[str] = ()
    unreliable: set[str] = field(default_factory=set)
    """Tests that fail without a fault, too."""
    reliable: set[str] = field(default_factory=set)


def pytest_options(slow: bool, seed: str) -> list[str]:
    """Which tests ``make test`` runs, and with ``slow`` those of ``make test-all``: the one place that says so."""
    return [] if slow else ["--quick", f"--seed={seed}"]


def try_fault(copy: Checkout, fault: Fault, settings: Settings) -> Outcome:
    """Plants the fault, and runs tests until one fails that passes without it."""
    begin = time.monotonic()
    for slow in [False] * settings.quick + [True] * settings.slow:
        for arguments, whole in _runs(copy, fault, settings):
            found = _run(copy, fault, arguments, slow, whole, settings)
            if found.state != SURVIVED:
                return Outcome(found.state, found.test, slow, round(time.monotonic() - begin, 1))
    return Outcome(SURVIVED, seconds=round(time.monotonic() - begin, 1))


def _runs(copy: Checkout, fault: Fault, settings: Settings) -> Iterator[tuple[list[str], bool]]:
    """Arguments of pytest, and whether they mean the whole run: what caught the fault before, the nearest tests, all of them."""
    file, _, function = fault.test.partition("[")[0].partition("::")
    if function and (copy.path / file).exists():
        yield [file, "-k", function.rpartition("::")[2]], False
    area = next(area for area in AREAS if area.name == fault.area)
    for arguments in nearest(copy.path, area, fault.file):
        yield arguments, False
    if settings.whole:
        yield ["tests"], True


def _run(copy: Checkout, fault: Fault, arguments: list[str], slow: bool, whole: bool, settings: Settings) -> Outcome:
    """One run of pytest, again without tests that fail in the copy as it is."""
    for _ in range(_RETRIES):
        try:
            with copy.with_fault(fault):
                chosen = [*arguments, *pytest_options(slow, settings.seed)]
                code, printed = _pytest(copy, chosen, settings, settings.processes if whole else "0")
        except BrokenCopy as problem:
            return Outcome(STALE if str(problem) == "stale" else CAUGHT, "the build of the extension")
        failed = _failed(printed)
        if code in _PASSED:
            return Outcome(SURVIVED)
        if code is None:
            return Outcome(LIMIT, f"{' '.join(arguments)}: more than {settings.limit:.0f} s")
        if failed is None:
            return Outcome(CAUGHT, f"{' '.join(arguments)}: exit status {code}")
        if _passes_without(copy, failed, settings):
            return Outcome(CAUGHT, failed)
    raise BrokenCopy(f"more than {_RETRIES} tests fail without a fault: {sorted(settings.unreliable)}")


def _failed(printed: str) -> str | None:
    """The first test of pytest's summary, or the one in which the process has crashed, as far as the output says it."""
    found = _FAILED.search(printed.rpartition(_SUMMARY)[2]) if _SUMMARY in printed else None
    if found:
        return found[1]
    crashed = _CRASHED.search(printed)
    return f"{crashed[1]}::{crashed[2]}" if crashed else None


def _passes_without(copy: Checkout, test: str, settings: Settings) -> bool:
    if test not in settings.reliable | settings.unreliable:
        code, _ = _pytest(copy, [test], settings, "0")
        (settings.reliable if code in _PASSED else settings.unreliable).add(test)
    return test in settings.reliable


def _pytest(copy: Checkout, arguments: list[str], settings: Settings, processes: str) -> tuple[int | None, str]:
    """Exit status, None after the time limit, and what was printed."""
    left_out = [f"--{'deselect' if '::' in test else 'ignore'}={test}" for test in sorted(settings.unreliable)]
    command = [copy.python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", processes, "--tb=no", "-rfE", *arguments,
               *settings.options, *left_out]
    process = subprocess.Popen(command, cwd=copy.path, env=copy.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    _is_first_to_go(process.pid)
    try:
        printed, _ = process.communicate(timeout=settings.limit)
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and the processes that it has started
        process.wait()
    return process.returncode, printed


def _is_first_to_go(process: int) -> None:
    """Where a fault in an extent takes all memory, the system ends this process, or one that it has started, and no other."""
    with suppress(OSError):
        Path(f"/proc/{process}/oom_score_adj").write_text("1000", encoding="ascii")
