"""What runs of the tests keep for later ones: object code, durations, cases that failed in a sample.

All of it may be removed at any time. It is in ``$FORGE_TEST_CACHE``, else in ``forge-tests`` in the user's cache folder, or where
nothing can be written there, in the folder of temporary files.
"""

from __future__ import annotations

import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Where it is; the folder exists."""
    return _folder(os.environ.get("FORGE_TEST_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache",
                   "FORGE_TEST_CACHE" in os.environ)


@cache
def _folder(base: str, is_chosen: bool) -> Path:
    try:
        path = Path(base).expanduser() if is_chosen else Path(base).expanduser() / "forge-tests"
        path.mkdir(parents=True, exist_ok=True)
        if os.access(path, os.W_OK):
            return path
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        pass
    path = Path(tempfile.gettempdir(), f"forge-tests-{os.geteuid()}")
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def read(name: str, default: Any) -> Any:
    """What is kept under ``name``; ``default`` where that is nothing, or damaged."""
    try:
        return json.loads((folder() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return default


def write(name: str, content: Any) -> None:
    """Keeps ``content`` under ``name``."""
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_name(f".{path.name}.{os.getpid()}")
    work.write_text(json.dumps(content, indent=0), encoding="utf-8")
    work.replace(path)
