"""Which cases a run has.

``--quick`` leaves out what is marked ``slow``, and takes one of n cases of a function that is marked ``sampled(n)``: other ones
for every commit, the same ones for the same commit. Of cases that differ in their target only it takes that of this machine, and
one of ``OTHER_TARGETS`` of the others. ``--sweeps=N`` takes one of N of all that ``--quick`` does not take whole (of large
sweeps, at most ``MORE`` times as many as that), and one of ``UNCHANGED * N`` where the sources that they depend on are those
with which they passed. Without either, all run.

A case that fails in a sample is watched: it is in every run until it has passed at ``COMMITS`` commits.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import pytest

from tests.runs import dependencies, kept
from tests.sampling import sample

COMMITS = 30
OTHER_TARGETS = 4
UNCHANGED = 4
WATCHED_SWEEPS = 12  # of a watched test that runs many cases by itself, --quick takes as --sweeps=12 does
MORE = 4
TARGET_PARAMETERS, HOST = ("target", "mcpu"), ("llvm", "native")
WATCHED = "watched.json"
ROOT = Path(__file__).parents[2]


def commit() -> str:
    """The commit that is checked out; nothing where that cannot be told."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def add_options(parser: pytest.Parser) -> None:
    """Those of the command line."""
    parser.addoption("--quick", action="store_true", help="leave out slow cases; of `sampled` ones take a part, by commit")
    parser.addoption("--sweeps", metavar="N", type=int, help="of slow and `sampled` cases take one of N, by commit")
    parser.addoption("--seed", help="choose samples by this instead of the commit")
    parser.addoption("--note-passed", metavar="FILE", help="write the names of the tests that pass to FILE")
    parser.addoption("--except-passed", metavar="FILE", help="leave out the tests that FILE names")


def seed_of(config: pytest.Config) -> str:
    """What samples are chosen by."""
    given = config.getoption("--seed")
    return commit() if given is None else str(given)


class Selection:
    """Leaves out cases that the options leave out, and counts them."""

    def __init__(self, config: pytest.Config) -> None:
        self.quick = bool(config.getoption("--quick"))
        self.sweeps: int | None = config.getoption("--sweeps")
        self.seed = seed_of(config) if self.quick or self.sweeps else ""
        self.watched: set[str] = set(kept.read(WATCHED, {})) if self.quick or self.sweeps else set()
        self.counts = {"whole": 0, "sampled": 0, "of": 0, "slow": 0, "watched": 0, "passed before": 0}
        self.sampled: list[str] = []
        path = config.getoption("--except-passed")
        self.passed = {json.loads(line) for line in Path(path).read_text().splitlines()} if path else set()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """What stays is in ``items``."""
        chosen = self._chosen(items)
        left = [item for item in items if item.nodeid in chosen]
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = left

    def _chosen(self, items: list[pytest.Item]) -> set[str]:
        swept = _by_sweep(items, self.quick, self.sweeps) if self.quick or self.sweeps else []
        whole = {item.nodeid for item in items}
        kept_cases: set[str] = set()
        for part, cases in swept:
            whole -= set(cases)
            kept_cases |= set(sample(cases, self.seed, part)) if part else set()
        watched = {case for _, cases in swept for case in cases if case in self.watched}
        self.sampled = sorted(kept_cases | watched)
        self.counts |= {
            "whole": len(whole), "sampled": len(kept_cases), "of": sum(len(cases) for part, cases in swept if part),
            "slow": sum(len(cases) for part, cases in swept if not part), "watched": len(watched),
            "passed before": len(self.passed & (whole | kept_cases | watched))}
        return (whole | kept_cases | watched) - self.passed


def _by_sweep(items: list[pytest.Item], quick: bool, sweeps: int | None) -> list[tuple[int, list[str]]]:
    """Which part of which cases of one function to take, with 0 for none. What is not named runs.

    With ``sampled(n, by_name=True)`` cases of a function whose names begin with another word are sampled apart, so that of each
    there is one.
    """
    found: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    others = _for_other_targets(items)
    for item in items:
        mark, is_slow = item.get_closest_marker("sampled"), item.get_closest_marker("slow") is not None
        part = int(mark.args[0]) if mark is not None else 1
        part *= OTHER_TARGETS if item.nodeid in others else 1
        if is_slow or part > 1:
            taken = (0 if is_slow else part) if quick else max(part_of_sweeps(item.nodeid, sweeps or 1), part // MORE)
            function, _, case = item.nodeid.partition("[")
            name = re.split(r"[^\w.]", case, maxsplit=1)[0] if mark is not None and mark.kwargs.get("by_name") else ""
            found[function, name, taken].append(item.nodeid)
    return [(part, cases) for (_, _, part), cases in found.items()]


def part_of_sweeps(case: str, sweeps: int) -> int:
    """One of how many cases to take of the sweep that ``case`` belongs to."""
    return sweeps * UNCHANGED if dependencies.folder_of(case) in dependencies.unchanged() else sweeps


def taker(config: pytest.Config, case: str) -> Callable[..., list[str]]:
    """For a test that runs many cases by itself: chooses those of a sweep, ``take(names)``, or all where all are to run.

    ``take(names, part)`` divides further. With ``--quick`` such a test runs only if it is watched.
    """
    sweeps: int | None = config.getoption("--sweeps") or (WATCHED_SWEEPS if config.getoption("--quick") else None)
    if not sweeps:
        return lambda names, part=1: list(names)
    return lambda names, part=1: sample(names, seed_of(config), part * part_of_sweeps(case, sweeps))


def _for_other_targets(items: Iterable[pytest.Item]) -> set[str]:
    """Cases for other targets than this machine, where there is one for this machine that is otherwise equal."""
    cases: dict[object, list[tuple[str, bool]]] = defaultdict(list)
    for item in items:
        spec = getattr(item, "callspec", None)
        name = next((n for n in TARGET_PARAMETERS if spec is not None and isinstance(spec.params.get(n), str)), None)
        if spec is not None and name is not None:
            rest = tuple((n, id(value)) for n, value in sorted(spec.params.items()) if n != name)  # one object in all cases
            cases[item.nodeid.partition("[")[0], rest].append((item.nodeid, spec.params[name] in HOST))
    groups = [group for group in cases.values() if any(is_host for _, is_host in group)]
    return {case for group in groups for case, is_host in group if not is_host}


class Watch:
    """Notes which sampled cases failed, and at which commits they passed since; writes down what passed."""

    def __init__(self, note_passed: str | None, sweeps: bool) -> None:
        self.note_passed = note_passed
        self.sweeps = sweeps
        self.passed: list[str] = []
        self.failed: set[str] = set()
        self.sampled: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of each phase of each case."""
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.passed and report.when == "call":
            self.passed.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Writes both."""
        if self.note_passed:
            passed = [name for name in self.passed if name not in self.failed]
            Path(self.note_passed).write_text("".join(f"{json.dumps(name)}\n" for name in passed))
        before: dict[str, list[str]] = kept.read(WATCHED, {})
        after = updated(before, self.failed & self.sampled, set(self.passed) - self.failed, commit())
        if after != before:
            kept.write(WATCHED, after)
        if self.sweeps:
            dependencies.note(self.sampled, self.failed)


def updated(watched: dict[str, list[str]], failed: Iterable[str], passed: Collection[str], at: str) -> dict[str, list[str]]:
    """``watched``, the commits at which each case passed since it failed, after a run at the commit ``at``."""
    known = {case: sorted({*commits, at}) if case in passed else commits for case, commits in watched.items()}
    return {case: commits for case, commits in known.items() if len(commits) < COMMITS} | {case: [] for case in failed}
