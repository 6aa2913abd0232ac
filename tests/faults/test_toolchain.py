"""C compilers that are missing or fail: a clear error, nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

import forge
from forge.errors import ToolchainError
from tests.driver.support import files, pictures

pytestmark = pytest.mark.usefixtures("compile_cache")  # these tests are about what follows compilation


def write_program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_no_c_compiler(digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="no C compiler; looked for cc, gcc, clang"):
        digits.compile(output_path=tmp_path / "build")
    assert files(tmp_path) == []


@pytest.mark.parametrize(("command", "message"), [
    ("no-such-compiler", "no-such-compiler"), ("no-such-compiler -m64", "no-such-compiler"), ("'unbalanced", "CC"),
])
def test_bogus_compiler(
    digits: forge.IRModule, tmp_path: Path, command: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", command)
    with pytest.raises(ToolchainError, match=message):
        digits.compile(output_path=tmp_path / "build")
    assert files(tmp_path) == []


@pytest.mark.parametrize("program", ["echo 'the disk is on fire' >&2; exit 3", "kill -9 $$"])
def test_compiler_that_fails(
    digits: forge.IRModule, tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = write_program(tmp_path / "cc", program)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(ToolchainError) as caught:
        digits.compile(output_path=tmp_path / "new" / "build")
    assert str(compiler) in str(caught.value)
    assert "echo" not in program or "the disk is on fire" in str(caught.value)
    assert files(tmp_path) == ["cc"]


def test_compiler_for_another_machine_that_fails(
    digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = "if [ \"$1\" = -dumpmachine ]; then echo aarch64-linux-gnu; else echo 'no header' >&2; exit 3; fi"
    monkeypatch.setenv("CC", str(write_program(tmp_path / "cc", answer)))
    with pytest.raises(ToolchainError, match="no header"):
        digits.compile("llvm -mtriple=aarch64-linux-gnu", output_path=tmp_path / "new" / "build")
    assert files(tmp_path) == ["cc"]


def test_compiler_that_is_no_program(digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cc").write_text("no program")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    with pytest.raises(ToolchainError, match="set CC to a working C compiler"):
        digits.compile(output_path=tmp_path / "build")
    assert files(tmp_path) == ["cc"]


def test_compiler_with_options_works(digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc -m64")
    digits.compile(output_path=tmp_path / "build")
    assert forge.Runtime(tmp_path / "build")(pictures()).shape == (5, 10)


def test_running_in_this_process_needs_no_compiler(digits: forge.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert digits.get_inference_function()(pictures()).shape == (5, 10)
