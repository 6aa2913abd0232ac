"""Objects of the C runtime, kept between compilations.

Each object is one file: a SHA-256 over its key, name and contents, then the contents. Files are written atomically, flushed to
the disk, and checked on every use; a damaged one is compiled again. Without a usable cache, objects are compiled every time.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from forge import files

_DIGEST_SIZE = 32


def folder() -> Path | None:
    """Where they are kept; None where the user has no folder for that."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "forge" / "runtime"
    except RuntimeError:  # no home directory
        return None


def load(key: str, name: str) -> bytes | None:
    """The object ``name`` of the runtime ``key``; None where it is not there, or damaged."""
    home = folder()
    if home is None:
        return None
    try:
        content = (home / key / name).read_bytes()
    except OSError:
        return None
    digest, code = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
    return code if digest == _digest(key, name, code) else None


def store(key: str, name: str, code: bytes) -> None:
    """Keeps an object, if that is possible."""
    home = folder()
    if home is None:
        return
    with suppress(OSError):
        (home / key).mkdir(parents=True, exist_ok=True)
        with files.replacing(home / key / name, sync=True) as stream:
            stream.write(_digest(key, name, code) + code)


def _digest(key: str, name: str, code: bytes) -> bytes:
    return hashlib.sha256(f"{key}/{name}\n".encode() + code).digest()


def size() -> int:
    """Bytes of all that is kept."""
    home = folder()
    total = 0
    with suppress(OSError):  # another process clears it
        total = sum(path.lstat().st_size for path in home.rglob("*") if not path.is_dir()) if home is not None else 0
    return total


def clear() -> int:
    """Removes all objects; returns the bytes that were freed."""
    freed, home = size(), folder()
    if home is not None:
        files.remove(home)
    return freed - size()
