"""Compiling and describing the hand-written models of ``models.c``."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forge_runtime import include_directory

SOURCE = Path(__file__).parent / "models.c"
FLAGS = ["-std=c11", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{include_directory()}"]

Build = Callable[..., Path]


def compile_c(*arguments: str | Path) -> None:
    result = subprocess.run(["cc", *FLAGS, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def metadata(**fields: Any) -> dict[str, Any]:
    return {"uuid": "0000-test", "precision": "float32", "target": "llvm", "cpu_features": "", **fields}
