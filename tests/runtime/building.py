"""Compiling and describing the hand-written models of ``models.c``."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from forge_runtime import include_directory, static_sources
from tests.runs import kept

SOURCE = Path(__file__).parent / "models.c"
FLAGS = ["-std=c11", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{include_directory()}"]

Build = Callable[..., Path]


def compile_c(*arguments: str | Path) -> None:
    result = subprocess.run(["cc", *FLAGS, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


MAX_KEPT = 20
"""Of the C runtime, compiled with some flags from some sources."""


@cache
def runtime_objects(*flags: str) -> list[Path]:
    """Object files of the C runtime, compiled with ``flags``; kept for later runs by all that they depend on."""
    home = kept.folder() / "runtime"
    folder = home / _digest(flags)
    if not folder.is_dir():
        work = home / f".{folder.name}-{os.getpid()}"
        work.mkdir(parents=True)
        for source in static_sources():
            compile_c(*flags, "-c", source, "-o", work / f"{source.stem}.o")
        try:
            work.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(work)
    os.utime(folder)
    for old in sorted(home.iterdir(), key=lambda path: -path.stat().st_mtime)[MAX_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return [folder / f"{source.stem}.o" for source in static_sources()]


def _digest(flags: tuple[str, ...]) -> str:
    compiler = subprocess.run(["cc", "-v"], capture_output=True, text=True, check=True).stderr
    state = hashlib.sha256(repr((FLAGS, flags, compiler)).encode())
    for path in sorted(path for path in include_directory().iterdir() if path.suffix in (".c", ".h")):
        state.update(path.name.encode() + path.read_bytes())
    return state.hexdigest()[:32]


def metadata(**fields: Any) -> dict[str, Any]:
    return {"uuid": "0000-test", "precision": "float32", "target": "llvm", "cpu_features": "", **fields}
