"""What runs of the tests keep for later ones: object code, durations, cases that failed in a sample.

All of it may be removed at any time. It is in ``$FORGE_TEST_CACHE``, else in ``forge-tests`` in the user's cache folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Where it is."""
    chosen = os.environ.get("FORGE_TEST_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forge-tests"


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
