"""A machine that runs compiled models in a process of its own: this one, or another architecture's in the emulator."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from forge.backends.compiled import CompiledModel
from forge.codegen.link import find_compiler
from forge.driver import artifact
from forge.errors import ToolchainError
from forge.ir.graph import Graph, Module
from forge.options import OutputOptions
from forge.target import Target
from forge_runtime import include_directory, static_sources
from tests.foreign import values

SECONDS = 120.0
"""The longest that a run may take; a case has twice as long."""

_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{include_directory()}")


class RunError(Exception):
    """A run failed: the driver's answer says why, or it ended without one."""


def missing(target: Target) -> str | None:
    """What this machine lacks to run code for ``target``; None: nothing."""
    try:
        find_compiler(target)
    except ToolchainError as error:
        return str(error)
    if target.is_of_host:
        return None
    if _emulator(target) is None:
        return f"no qemu-{target.arch} on PATH; install the package 'qemu-user'"
    if not list((_libraries(target) / "lib").glob("ld-*")):
        return (f"no C library of {target.arch} in {_libraries(target)}; install the package 'libc6-arm64-cross', or set "
                "QEMU_LD_PREFIX")
    return None


def _emulator(target: Target) -> str | None:
    return shutil.which(f"qemu-{target.arch}")


def _libraries(target: Target) -> Path:
    """The folder of the C library that emulated programs are linked with."""
    return Path(os.environ.get("QEMU_LD_PREFIX") or f"/usr/{target.arch}-linux-gnu")


def command(target: Target, program: Path, *options: str) -> list[str]:
    """How to start ``program``; ``options`` are the emulator's."""
    if target.is_of_host:
        return [str(program)]
    return [_emulator(target) or "", "-L", str(_libraries(target)), *options, str(program)]


def build(target: Target, out: Path, *sources: Path) -> None:
    """Compiles a C program for ``target``."""
    subprocess.run([*find_compiler(target), *_FLAGS, *map(str, sources), "-o", str(out), "-lm", "-ldl"], check=True)


class Machine:
    """The driver, started when first needed and again after it died."""

    def __init__(self, target: Target, *options: str) -> None:
        """``options``: the emulator's."""
        self._target = target
        self._options = options
        self._folder = tempfile.TemporaryDirectory(prefix="forge-foreign-")
        self._process: subprocess.Popen[str] | None = None

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def run(self, compiled: CompiledModel, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a model for these inputs.

        Raises:
            RunError: the model refused them, or the process died.
        """
        home = self.folder / "model"
        output = OutputOptions(output_path=home)
        try:
            with artifact.draft(output) as draft:
                draft.finish(compiled, Module(graph), "")
            return self.run_library(home / "modelLibrary.so", values.encoded(inputs, graph.inputs))
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def run_library(self, library: Path, inputs: bytes) -> list[Any]:
        """The outputs of a library that lies in a file.

        Raises:
            RunError: it cannot be loaded, or the run failed.
        """
        given, made = self.folder / "inputs", self.folder / "outputs"
        given.write_bytes(inputs)
        answer = self._ask(f"{library} {given} {made}")
        if answer != "0":
            raise RunError(answer)
        return values.decoded(made.read_bytes())

    def _ask(self, line: str) -> str:
        if self._process is None:
            started = command(self._target, _driver(self._target), *self._options)
            self._process = subprocess.Popen(started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(f"{line}\n")
        stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            answer = stdout.readline() if selector.select(SECONDS) else ""
        if not answer:
            raise RunError(f"the driver ended without an answer: exit status {self._stop()}")
        return answer.rstrip("\n")

    def _stop(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None

    def close(self) -> None:
        self._stop()
        self._folder.cleanup()


@cache
def _built() -> tempfile.TemporaryDirectory[str]:
    """The folder of this process's drivers."""
    return tempfile.TemporaryDirectory(prefix="forge-drivers-")


@cache
def _driver(target: Target) -> Path:
    out = Path(_built().name) / f"driver-{target.arch}"
    build(target, out, Path(__file__).with_name("driver.c"), *static_sources())
    return out
