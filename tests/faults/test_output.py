"""Output paths that cannot be written: a clear error, nothing half-written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forge
from forge.driver import artifact
from forge.errors import CompileError, OutputExistsError
from forge_runtime import artifact as sealing
from tests.driver.support import DIGITS, files

pytestmark = pytest.mark.usefixtures("compile_cache")  # these tests are about what follows compilation


def test_existing_path(digits: forge.IRModule, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    with pytest.raises(ValueError, match="build exists; pass force_overwrite=True") as caught:
        digits.compile(output_path=tmp_path / "build")
    assert isinstance(caught.value, OutputExistsError)
    assert files(tmp_path) == ["build"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_existing_file_and_broken_link(digits: forge.IRModule, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        with pytest.raises(OutputExistsError, match=name):
            digits.compile(output_path=tmp_path / name, force_overwrite=overwrite)
    assert (tmp_path / "file").read_text() == "mine"
    assert files(tmp_path) == ["file", "link"]


def test_path_that_comes_to_exist_meanwhile(
    digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = sealing.seal

    def meanwhile(*arguments: Any) -> None:
        (tmp_path / "build").mkdir()
        seal(*arguments)

    monkeypatch.setattr(sealing, "seal", meanwhile)
    with pytest.raises(OutputExistsError):
        digits.compile(output_path=tmp_path / "build")
    assert files(tmp_path) == ["build"]


def test_path_below_a_file(digits: forge.IRModule, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CompileError, match="expected a writable directory"):
        digits.compile(output_path=tmp_path / "file" / "build")
    assert files(tmp_path) == ["file"]


def test_file_system_that_takes_no_files(digits: forge.IRModule) -> None:
    with pytest.raises(CompileError, match="/proc"):
        digits.compile(output_path="/proc/build")


def test_name_that_is_too_long(digits: forge.IRModule, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="too long"):
        digits.compile(output_path=tmp_path / "made" / ("x" * 300))
    assert files(tmp_path) == []


def test_parents_that_were_made_go_again(
    digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "seal", _raise(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(CompileError, match="No space left on device"):
        digits.compile(output_path=tmp_path / "a" / "b" / "build")
    assert files(tmp_path) == []


@pytest.mark.parametrize("writer", [
    "pathlib.Path.write_text", "forge.backends.cpu.link_library", "forge_runtime.artifact.seal",
])
@pytest.mark.parametrize("overwrite", [False, True])
def test_full_disk(
    digits: forge.IRModule, tmp_path: Path, writer: str, overwrite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if overwrite:
        digits.compile(output_path=tmp_path / "build", uuid="old")
    before = files(tmp_path)
    monkeypatch.setattr(writer, _raise(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(CompileError, match="No space left on device; expected a writable directory with enough space"):
        digits.compile(
            output_path=tmp_path / "build", export_relay=True, export_metadata=True, force_overwrite=overwrite)
    assert files(tmp_path) == before
    assert not overwrite or forge.Runtime(tmp_path / "build").model_id == "old"


@pytest.mark.parametrize("password", [None, "secret"])
def test_interrupt(
    digits: forge.IRModule, tmp_path: Path, password: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = set(os.listdir("/dev/shm"))
    monkeypatch.setattr(sealing, "seal", _raise(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        digits.compile(output_path=tmp_path / "build", encrypt_password=password)
    assert files(tmp_path) == []
    assert not {n for n in set(os.listdir("/dev/shm")) - shared if n.startswith(".forge-")}


def test_no_memory_file_system_for_encryption(
    digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact.os, "access", lambda path, mode: not str(path).startswith("/dev/shm"))
    with pytest.raises(CompileError, match="encrypt_password: cannot write in /dev/shm"):
        digits.compile(output_path=tmp_path / "build", encrypt_password="secret")
    assert files(tmp_path) == []


def _raise(error: BaseException) -> Callable[..., Any]:
    def function(*arguments: Any, **named: Any) -> Any:
        raise error

    return function


LIMITED = """
import resource, sys
import forge
from forge.errors import CompileError
resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))
try:
    forge.from_onnx(sys.argv[1]).compile(output_path=sys.argv[2])
except CompileError as error:
    print(error)
"""


def test_files_that_cannot_grow(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(DIGITS / "digits.onnx"), str(tmp_path / "build")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stdout or "failed to" in done.stdout
    assert files(tmp_path) == []
