"""The machinery around the tests themselves: which cases a run has, what it keeps and what it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import clock as clock_command
from tests.runs import clock, dependencies, kept, selection
from tests.runs.clock import Stopwatch

ROOT = Path(__file__).parent.parent

SWEEPS = """
import pytest
TARGETS = pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3"])

@pytest.mark.slow
@pytest.mark.parametrize("case", range(95))
def test_sweep(case): pass

@pytest.mark.slow
def test_long(): pass

@pytest.mark.parametrize("case", range(30))
def test_quick(case): pass

@pytest.mark.sampled(7)
@pytest.mark.parametrize("case", range(30))
def test_sampled(case): pass

@pytest.mark.sampled(9, by_name=True)
@pytest.mark.parametrize("case", [f"{op}(float32[{k}])" for op in ("nn.relu", "add", "nn.relu_6") for k in range(10)])
def test_operators(case): pass

@TARGETS
@pytest.mark.parametrize("case", range(10))
def test_targets(case, target): pass

@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3"])
def test_both(target): pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tests are put; what runs keep is in its folder ``kept``."""
    monkeypatch.setenv("FORGE_TEST_CACHE", str(tmp_path / "kept"))
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path


def run_tests(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest on a folder that holds a copy of ``tests/conftest.py``."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow\n  sampled(n)\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def passed(done: subprocess.CompletedProcess[str]) -> list[str]:
    return sorted(line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith("PASSED"))


def by_function(cases: list[str]) -> Counter[str]:
    return Counter(re.sub(r".*::(\w+).*", r"\1", case) for case in cases)


def test_missing_packages_fail_a_run_that_requires_them(folder: Path) -> None:
    (folder / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_package')\n")
    (folder / "test_function.py").write_text(
        "import pytest\ndef test_it(): pytest.importorskip('no_such_package')\n"
        "def test_other(): pytest.skip('for a reason of its own')\ndef test_passes(): pass\n"
    )

    assert run_tests(folder).returncode == 0
    for workers in ("0", "2"):
        required = run_tests(folder, "--require-optional", "-n", workers)
        assert required.returncode == 1, required.stdout
        named = {line.split()[3].rstrip(":") for line in required.stdout.splitlines() if line.startswith("REQUIRED")}
        assert named == {"test_module.py", "test_function.py::test_it"}


def test_a_quick_run_takes_a_part_of_what_is_sampled(folder: Path) -> None:
    (folder / "test_sweeps.py").write_text(SWEEPS)

    def cases(seed: str, workers: str = "0") -> list[str]:
        done = run_tests(folder, "--quick", f"--seed={seed}", "-rp", "-n", workers)
        assert "42 cases that always run, 16 of 80 that are sampled by --seed=" + seed in done.stdout, done.stdout
        assert "96 slow cases were left out" in done.stdout
        return passed(done)

    first, again, other = cases("a"), cases("a", "2"), cases("b")
    expected = {"test_quick": 30, "test_sampled": 5, "test_operators": 6, "test_targets": 10 + 5, "test_both": 2}
    assert by_function(first) == expected
    assert Counter(case.partition("[")[2].partition("(")[0] for case in first if "operators" in case) == {
        "nn.relu": 2, "add": 2, "nn.relu_6": 2}
    assert sum(case.endswith("-llvm]") for case in first) == 10, "each case for this machine"
    assert first == again
    assert first != other
    assert len(other) == len(first)


def test_sweeps_can_be_sampled_and_leave_out_what_passed(folder: Path) -> None:
    (folder / "test_sweeps.py").write_text(SWEEPS)
    first = run_tests(folder, "--quick", "--seed=a", "--note-passed=passed", "--report=report", "--clock=one")
    assert first.returncode == 0
    done = run_tests(folder, "--sweeps=10", "--seed=a", "--except-passed=passed", "-rp", "--report=report", "--clock=two")
    assert "one:\n42 cases that always run" in done.stdout
    assert "two:\n" in done.stdout and "two:" not in first.stdout
    assert by_function(passed(done)) == {"test_sweep": 10, "test_long": 1}
    assert "of them passed in the run before" in done.stdout
    assert len(passed(run_tests(folder, "-rp"))) == 95 + 1 + 30 + 30 + 30 + 30 + 2, "all without an option"


def test_unchanged_sweeps_are_sampled_less(folder: Path) -> None:
    (folder / "test_sweeps.py").write_text(SWEEPS)
    counts = [by_function(passed(run_tests(folder, "--sweeps=10", "--seed=a", "-rp")))["test_sweep"] for _ in range(2)]
    assert counts == [10, 3]


def test_what_a_folder_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dependencies.folder_of("tests/frontends/onnx/test_x.py::test_y[z]") == "tests/frontends/onnx"
    assert dependencies.folder_of("tests/test_relay.py::test_y") == "tests"
    for names in dependencies.UNUSED.values():
        assert all((ROOT / "src" / "forge" / name).is_dir() for name in names)

    def digests(changed: str) -> set[str]:
        """The folders whose digest changes with a file."""
        found = [{folder: dependencies.digest_of.__wrapped__(folder) for folder in (*dependencies.UNUSED, "tests")}]
        monkeypatch.setattr(dependencies, "_files", lambda: {**files, changed: "other"})
        found.append({folder: dependencies.digest_of.__wrapped__(folder) for folder in (*dependencies.UNUSED, "tests")})
        monkeypatch.undo()
        return {folder for folder in found[0] if found[0][folder] != found[1][folder]}

    files = dependencies._files()
    everything = {*dependencies.UNUSED, "tests"}
    assert digests("src/forge/tir/expr.py") == everything
    assert digests("tests/guard.py") == everything
    assert digests("runtime/src/forge_runtime/csrc/forge_pool.c") == everything
    assert digests("tests/kernels/test_dense.py") == {"tests/kernels", "tests"}
    onnx = digests("src/forge/frontends/onnx/converters/aten.py")
    assert {"tests/frontends/onnx", "tests/onnx_backend", "tests"} <= onnx
    assert not {"tests/kernels", "tests/ops", "tests/codegen"} & onnx


def test_a_case_that_failed_in_a_sample_is_watched(folder: Path) -> None:
    fails = SWEEPS.replace("def test_sweep(case): pass", "def test_sweep(case): assert case != 17")
    (folder / "test_sweeps.py").write_text(fails)
    failing = "test_sweeps.py::test_sweep[17]"
    seed = next(seed for seed in map(str, range(99)) if failing in selection.sample(
        [f"test_sweeps.py::test_sweep[{k}]" for k in range(95)], seed, 10))
    done = run_tests(folder, "--sweeps=10", f"--seed={seed}", "-n", "2")
    assert done.returncode == 1
    assert f"python -m pytest '{failing}'" in done.stdout
    watched = json.loads((folder / "kept" / selection.WATCHED).read_text())
    assert watched == {failing: []}
    (folder / "test_sweeps.py").write_text(SWEEPS)
    done = run_tests(folder, "--quick", "--seed=a", "-rp", "-n", "2")
    assert failing in passed(done)
    assert f"1 that failed in a sample at one of the last {selection.COMMITS} commits" in done.stdout
    assert json.loads((folder / "kept" / selection.WATCHED).read_text()) == {failing: [selection.commit()]}


def test_a_watched_test_of_many_cases_takes_a_part_of_them(folder: Path) -> None:
    (folder / "test_many.py").write_text(
        "import pytest\n@pytest.mark.slow\ndef test_it(take): assert 0 < len(take([str(k) for k in range(1200)])) < 200\n")
    (folder / "kept").mkdir()
    (folder / "kept" / selection.WATCHED).write_text(json.dumps({"test_many.py::test_it": []}))
    assert passed(run_tests(folder, "--quick", "--seed=a", "-rp")) == ["test_many.py::test_it"]


def test_how_long_a_case_is_watched() -> None:
    watched = {"a": [f"{k:02}" for k in range(selection.COMMITS - 1)], "b": ["x"], "c": []}
    assert selection.updated(watched, ["d"], ["a", "b"], "now") == {"b": ["now", "x"], "c": [], "d": []}
    assert selection.updated(watched, ["b"], [], "now")["b"] == []
    assert selection.updated(watched, [], ["a"], "00") == watched, "a commit counts once"


def test_durations_are_recorded_and_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "130")
    (folder / "test_it.py").write_text(
        "import subprocess, sys, time, pytest\n"
        "@pytest.fixture\ndef slow(): time.sleep(0.2)\n"
        "def test_waits(slow): subprocess.run([sys.executable, '-c', 'import time; time.sleep(0.3)'])\n"
        "def test_compiles():\n"
        "    import forge\n"
        "    forge.IRModule('def @main(%x: Tensor[(4,), float32]) { nn.relu(%x) }').get_inference_function()\n")
    assert run_tests(folder, "--clock=mine", "-n", "2").returncode == 0
    found, whole = clock_command.phases("mine")
    seconds = {(p.case, p.when): p.seconds for p in found}
    parts = {(p.case, p.when): p.parts for p in found}
    assert seconds["test_it.py::test_waits", "setup"] >= 0.2
    assert parts["test_it.py::test_waits", "call"]["processes"] >= 0.25
    assert parts["test_it.py::test_compiles", "call"]["llvm"] > 0
    assert parts["test_it.py::test_compiles", "call"]["import"] > 0
    assert whole > 0.5
    assert clock_command.main(["mine", "-n", "5"]) == 0
    shown = capsys.readouterr().out
    assert "2 cases" in shown and "waiting for LLVM's object code" in shown and "test_it.py::test_waits" in shown
    assert clock_command.main(["mine", "--below", "nothing"]) == 1
    assert clock_command.main(["other"]) == 1
    assert "run make test first" in capsys.readouterr().err


def test_nested_parts_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 4.0, 10.0])
    monkeypatch.setattr(clock.time, "perf_counter", lambda: next(now))
    stopwatch = Stopwatch()
    inner = stopwatch.timed("llvm", lambda: None)
    stopwatch.timed("import", inner)()
    assert stopwatch.taken() == {"llvm": 3.0, "import": 7.0}
    assert stopwatch.taken() == {}


def test_where_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a"))
    monkeypatch.delenv("FORGE_TEST_CACHE", raising=False)
    assert kept.folder() == tmp_path / "a" / "forge-tests"
    monkeypatch.setenv("FORGE_TEST_CACHE", str(tmp_path / "b"))
    assert kept.folder() == tmp_path / "b"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FORGE_TEST_CACHE", str(tmp_path / "file" / "c"))
    monkeypatch.setattr(kept.tempfile, "gettempdir", lambda: str(tmp_path))
    assert kept.folder().parent == tmp_path and kept.folder().is_dir()


def test_what_is_kept_survives_damage(folder: Path) -> None:
    kept.write("a.json", {"x": 1})
    assert kept.read("a.json", {}) == {"x": 1}
    (kept.folder() / "a.json").write_text("{")
    assert kept.read("a.json", {"y": 2}) == {"y": 2}
