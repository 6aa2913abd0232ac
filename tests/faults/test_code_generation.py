"""Accidents while machine code is made: a clear error, and the next compilation works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import forge
from forge.codegen import compile as codegen
from forge.driver import compile_module
from forge.errors import CompileError, ForgeError
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import UnrankedType
from tests.driver.support import LIMIT, difference, files, pictures


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM compiles everything, however often it has done so."""
    monkeypatch.setenv("FORGE_CACHE", "0")


def test_values_without_native_code_are_named(tmp_path: Path) -> None:
    builder = Builder()
    module = forge.IRModule(Module(builder.output(builder.call("copy", builder.input(UnrankedType("float32"), "s")))))
    with pytest.raises(CompileError, match=r"input %s: got Tensor\[\?, float32\]"):
        module.compile(output_path=tmp_path / "build")
    assert files(tmp_path) == []


def test_killed_worker(digits: forge.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    start = codegen.Worker.start
    killed: list[int] = []

    def and_kill(worker: codegen.Worker, job: int, frames: Any) -> bool:
        started = start(worker, job, frames)
        if killed.count(job) < times and set(killed) <= {job}:
            killed.append(job)
            os.kill(worker._process.pid, signal.SIGKILL)
        return started

    monkeypatch.setattr(codegen.Worker, "start", and_kill)
    times = 1
    assert difference(digits, pictures()) <= LIMIT
    assert len(killed) == 1
    killed.clear()
    times = 2
    with pytest.raises(CompileError, match=r"could not compile k\d+_\w+: .* died over it twice: exit status -9 \(killed"):
        compile_module(digits.mod)
    monkeypatch.undo()
    assert difference(digits, pictures()) <= LIMIT


LIMITED = """
import os, resource, sys
import forge
from forge.errors import ForgeError
module = forge.IRModule("def @main(%x: Tensor[(4,), float32]) { add(%x, 5f) }")
for number in range(40):
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + number, 4096))
    try:
        module.compile(output_path=sys.argv[1])
    except ForgeError as error:
        print(error)
    else:
        break
"""


def test_few_open_files(tmp_path: Path) -> None:
    """Whatever cannot be opened for want of descriptors is an error of the catalogue, and none is lost."""
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "build")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cannot start a compile worker: [Errno 24] Too many open files; too few files may be open" in done.stdout
    assert files(tmp_path) == ["build", "build/modelLibrary.so"]


def test_interrupted_compilation(digits: forge.IRModule) -> None:
    def interrupt(phase: str, done: int, total: int) -> None:
        if phase == "compile" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_module(digits.mod, progress=interrupt)
    assert difference(digits, pictures()) <= LIMIT


def test_sizes_that_no_input_gives() -> None:
    module = forge.IRModule("def @main(%x: Tensor[((n + 1),), float32]) { nn.relu(%x) }")
    with pytest.raises(ForgeError, match="n"):
        compile_module(module.mod)
