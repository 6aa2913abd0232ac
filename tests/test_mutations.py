"""The faults that judge the tests: their catalogue, how they are drawn, planted and found again."""

from __future__ import annotations

import ast
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutations import c_faults, catalogue, python_faults, report, trial
from tests.mutations.areas import AREAS, area_of, nearest
from tests.mutations.catalogue import Fault
from tests.mutations.checkout import Checkout
from tests.mutations.draw import draw
from tests.mutations.trial import CAUGHT, SURVIVED, Outcome

ROOT = Path(__file__).parent.parent
FAULTS = catalogue.read()
PYTHON = '''
def first(x, y):
    """Not x < y."""
    if x < y and y != 3:
        raise ValueError(f"{x + 1}")
    return x[y:], max(x, y)


class Kept:
    size: int = 4

    def second(self, x, y):
        if x < y:
            return x // 2
        total = x < y
        return total
'''
C = """
/* a < b */
static int first(int a, int b) {
  // a < b
  if (a < b && b != 3) return forge_fail("a < b", 7);
  return a + 1;
}

static inline __attribute__((always_inline)) int second(int a,
                                                        int b) {
  return a < b;
}
"""


def test_no_fault_is_stale() -> None:
    assert not [f"{f.file}: {f.function}: {f.before}" for f in FAULTS if catalogue.is_stale(f, ROOT)]


def test_there_are_faults_of_every_area() -> None:
    counted = Counter(fault.area for fault in FAULTS)
    assert len({fault.key for fault in FAULTS}) == len(FAULTS) >= catalogue.LEAST
    assert set(counted) == {area.name for area in AREAS}
    assert min(counted.values()) >= 5


def test_faults_are_of_the_area_of_their_file() -> None:
    assert not [fault.file for fault in FAULTS if getattr(area_of(fault.file), "name", None) != fault.area]


def test_every_fault_leaves_python() -> None:
    for fault in FAULTS:
        changed = catalogue.planted(fault, (ROOT / fault.file).read_text(encoding="utf-8"))
        if changed is not None and fault.file.endswith(".py"):
            ast.parse(changed)


def changed(text: str, change: python_faults.Change) -> str:
    line = text.splitlines()[change.line]
    return (line[: change.start] + change.text + line[change.end :]).strip()


def test_changes_of_python() -> None:
    found = {changed(PYTHON, change) for change in python_faults.changes(PYTHON)}
    assert {"if x <= y and y != 3:", "if x < y or y != 3:", "if x < y and y == 3:", "if x < y and y != 4:", "if x < y:",
            "if y != 3:", "return x[y + 1:], max(x, y)", "return x[y:], min(x, y)", "size: int = 5", "return x % 2",
            "pass"} <= found
    assert not [line for line in found if line.startswith(("raise", '"""'))]


def test_changes_of_c() -> None:
    found = {changed(C, change) for change in c_faults.changes(C)}
    assert {"return a - 1;", "return a + 2;", "return a <= b;", 'if (a < b || b != 3) return forge_fail("a < b", 7);'} <= found
    assert not [line for line in found if "*" in line or "//" in line or "fail" in line and 'forge_fail("a < b", 7)' not in line]


@pytest.mark.parametrize(("text", "suffix", "scopes"), [
    (PYTHON, ".py", {"", "first", "Kept", "Kept.second"}),
    (C, ".c", {"", "first", "second"}),
])  # fmt: skip
def test_scopes(text: str, suffix: str, scopes: set[str]) -> None:
    assert set(catalogue.scopes(text, suffix)) == scopes


def test_a_line_is_found_in_its_function_only() -> None:
    fault = Fault("ops", "file.py", "Kept.second", "total = x < y", "total = x <= y")
    assert catalogue.planted(fault, PYTHON) == PYTHON.replace("total = x < y", "total = x <= y")
    moved = "\n\n" + PYTHON
    assert catalogue.planted(fault, moved) == moved.replace("total = x < y", "total = x <= y")
    assert catalogue.planted(Fault("ops", "file.py", "first", "total = x < y", ""), PYTHON) is None
    assert catalogue.planted(fault, PYTHON.replace("total = x < y", "total = x < y\n        total = x < y")) is None


def test_the_same_seed_draws_the_same_faults() -> None:
    files = ["src/forge/passes/fold_scale.py", "src/forge/ops/shape/arange.py", "runtime/src/forge_runtime/csrc/forge_heap.c"]
    drawn = draw(ROOT, files, 1, 6)
    assert drawn == draw(ROOT, files, 1, 6)
    assert {fault.file for fault in drawn} == set(files)
    assert not any(catalogue.is_stale(fault, ROOT) for fault in drawn)


def test_the_nearest_tests_come_first() -> None:
    area = area_of("src/forge/passes/pack_blocks.py")
    assert area is not None
    first, *_, last = nearest(ROOT, area, "src/forge/passes/pack_blocks.py")
    assert first[0] == "tests/passes/test_pack_blocks.py"
    assert last == ["tests/passes"]


def test_the_catalogue_is_written_as_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    catalogue.write(FAULTS, path)
    assert path.read_bytes() == catalogue.FILE.read_bytes()


class Toy(Checkout):
    """A tree of one module and a few tests, in which nothing is built."""

    def __init__(self, folder: Path, tests: str) -> None:
        self.path, self.python, self._folder, self.extensions = folder, sys.executable, folder, []
        for name, text in (("src/forge/passes/fold.py", "def run(x):\n    return x + 1\n"), ("tests/passes/test_fold.py", tests)):
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text(text)
        (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
        options = "    parser.addoption('--quick', action='store_true')\n    parser.addoption('--seed')\n"
        (folder / "conftest.py").write_text(f"def pytest_addoption(parser):\n{options}")

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.path / "src/forge/passes")}


TOY_TESTS = """
import fold
def test_fails_always(): assert False
def test_type(): assert isinstance(fold.run(3), int)
def test_value(): assert fold.run(3) == 4
"""
TOY_FAULT = Fault("passes", "src/forge/passes/fold.py", "run", "return x + 1", "return x - 1")


def test_a_fault_is_caught_by_a_test_that_passes_without_it(tmp_path: Path) -> None:
    copy = Toy(tmp_path, TOY_TESTS)
    settings = trial.Settings()
    outcome = trial.try_fault(copy, TOY_FAULT, settings)
    assert (outcome.state, outcome.test, outcome.slow) == (CAUGHT, "tests/passes/test_fold.py::test_value", False)
    assert settings.unreliable == {"tests/passes/test_fold.py::test_fails_always"}
    assert (tmp_path / TOY_FAULT.file).read_text() == "def run(x):\n    return x + 1\n"


def test_a_fault_survives_where_no_test_fails(tmp_path: Path) -> None:
    copy = Toy(tmp_path, "import fold\ndef test_type(): assert isinstance(fold.run(3), int)\n")
    assert trial.try_fault(copy, TOY_FAULT, trial.Settings(whole=False)).state == SURVIVED
    assert trial.try_fault(copy, replace(TOY_FAULT, before="return x + 2"), trial.Settings(whole=False)).state == trial.STALE


def test_a_crash_catches_a_fault(tmp_path: Path) -> None:
    crash = "import os, fold\ndef test_crash(): fold.run(3) == 4 or os._exit(9)\n"
    outcome = trial.try_fault(Toy(tmp_path, crash), TOY_FAULT, trial.Settings(whole=False))
    assert (outcome.state, outcome.test) == (CAUGHT, "tests/passes/test_fold.py: exit status 9")


def test_shares() -> None:
    faults = [Fault("ops", f"{k}.py", "", "a", "b") for k in range(4)]
    outcomes = [Outcome(CAUGHT, "test"), Outcome(CAUGHT, "test", slow=True), Outcome(SURVIVED), Outcome(trial.STALE)]
    results = dict(zip([fault.key for fault in faults], outcomes, strict=True))
    assert report.share(faults, results, slow=False) == 0.25
    assert report.share(faults, results, slow=True) == 0.5
    assert report.share(faults, {}, slow=False) == 1.0


def test_results_are_kept_between_runs(tmp_path: Path) -> None:
    results = {"key": Outcome(CAUGHT, "test", slow=True, seconds=1.5)}
    report.write(tmp_path / "results.json", results)
    assert report.read(tmp_path / "results.json") == results
