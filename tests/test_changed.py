"""Which tests are nearest to a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests import changed
from tests.onnx_backend import pool
from tests.onnx_backend.pool import Outcome


@pytest.mark.parametrize(("name", "found"), [
    ("src/forge/frontends/onnx/converters/microsoft/norms.py", {"tests/frontends/onnx/microsoft/test_norms.py"}),
    ("src/forge/passes/integers/steps.py", {"tests/passes/integers/test_steps.py"}),
    ("src/forge/kernels/cpu/depthwise.py", {"tests/kernels/test_depthwise.py"}),
    ("src/forge/options.py", {"tests/test_options.py"}),
    ("runtime/src/forge_runtime/csrc/forge_fft.c", {"tests/runtime/test_fft.py"}),
    ("tests/kernels/support.py", {"tests/kernels"}),
    ("tests/kernels/test_dense.py", {"tests/kernels/test_dense.py"}),
    ("tests/ops/cases/nn/pool.py", {"tests/ops"}),
    ("src/forge/compose/resize.py", {"tests/ops/compose/test_resize.py"}),
    ("src/forge/relay/build.py", {"tests/test_relay.py", "tests/test_relay_converters.py"}),
    ("benchmarks/compare.py", {"tests/benchmarks"}),
    ("README.md", set()),
])
def test_the_nearest(name: str, found: set[str]) -> None:
    assert changed.tests_of(name) == found


def test_without_tests_of_its_name_those_of_its_folder_are_taken() -> None:
    found = changed.tests_of("src/forge/frontends/onnx/converters/nn/pool.py")
    assert "tests/frontends/onnx/test_opsets.py" in found
    assert {str(PurePosixPath(path).parent) for path in found} == {"tests/frontends/onnx"}, "and none of its subfolders"
    assert "tests/passes/test_folding.py" in changed.tests_of("src/forge/passes/fold_scale.py")


def test_every_folder_of_sources_has_tests() -> None:
    for folder in (changed.ROOT / "src" / "forge").rglob("*.py"):
        name = folder.relative_to(changed.ROOT).as_posix()
        found = changed.tests_of(name)
        assert found or name.count("/") == 2, name
        assert all((changed.ROOT / path).exists() for path in found)


def test_operators_of_a_converter() -> None:
    found = changed.operators_of(["src/forge/frontends/onnx/converters/nn/softmax.py", "README.md"])
    assert ("", "Softmax") in found and ("", "MaxPool") not in found
    assert changed.operators_of(["src/forge/passes/fold_scale.py"]) == set()


def test_cases_of_the_suite_have_an_operator() -> None:
    names = changed.suite_cases({("", "HardSwish")})
    assert "test_hardswish" in names and "test_add" not in names


def test_failing_cases_of_the_suite_are_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {"test_a": Outcome("test_a", "passed", ""), "test_b": Outcome("test_b", "wrong", "bad")}
    monkeypatch.setattr(pool, "run_cases", lambda names, *_: {name: outcomes[name] for name in names})
    assert (changed.run_suite(["test_a"]), changed.run_suite(["test_a", "test_b"])) == (0, 1)
    shown = capsys.readouterr().out
    assert "1 passed, 0 failed" in shown and "1 passed, 1 failed" in shown
    assert "FAILED test_b: wrong: bad; again: python -m tests.onnx_backend -k test_b" in shown


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert changed.main(["src/forge/nothing.py"]) == 2
    assert "no file src/forge/nothing.py" in capsys.readouterr().out


def test_it_runs_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.changed", "tests/test_dims.py", "--", "-n", "0", "-k", "nothing_has_this_name"]
    done = subprocess.run(command, cwd=changed.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stdout
    assert "changed: tests/test_dims.py" in done.stdout
    assert "deselected" in done.stdout
