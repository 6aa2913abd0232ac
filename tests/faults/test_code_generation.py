"""Accidents while machine code is made: a clear error, and the next compilation works."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import forge
from forge.codegen import compile as codegen
from forge.driver import compile_module
from forge.errors import CompileError, ForgeError
from forge.ir.builder import Builder
from forge.ir.nodes import Module
from forge.ir.types import UnrankedType
from tests.driver.support import LIMIT, difference, files, pictures


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
        if not killed:
            killed.append(job)
            os.kill(worker._process.pid, signal.SIGKILL)
        return started

    monkeypatch.setattr(codegen.Worker, "start", and_kill)
    with pytest.raises(CompileError, match=r"LLVM could not compile \S+: the compile worker died: exit status -9"):
        compile_module(digits.mod)
    monkeypatch.undo()
    assert difference(digits, pictures()) <= LIMIT


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
