"""Object files that are kept between compilations, by what they were made of.

Each is one file: a SHA-256 over its group, name and contents, then the contents. Files are written atomically and checked on
every use; a damaged one is compiled again. Without a usable folder, objects are compiled every time.

Where a store has a limit, each of its groups has the same part of it, and the objects of a full one that were not used for
longest go. Nothing but the group is looked at for that, so that storing costs the same however much is kept.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from forge import files, knobs
from forge.errors import OptionError

_DIGEST_SIZE = 32

GROUPS = 256
"""Of a store with a limit: two hexadecimal digits. Each then holds a few hundred objects."""


class ObjectStore:
    """Object files by group and name in one folder.

    Attributes:
        folder: where they are kept; None where there is no folder for that.
        limit: bytes that all together may take; None: as many as there are.
    """

    def __init__(self, folder: Callable[[], Path | None], limit: Callable[[], int] | None = None) -> None:
        self.folder = folder
        self.limit = limit

    def load(self, group: str, name: str) -> bytes | None:
        """The contents; None where they are not there, or damaged."""
        home = self.folder()
        if home is None:
            return None
        path = home / group / name
        try:
            content = path.read_bytes()
            if self.limit is not None:
                os.utime(path)
        except OSError:
            return None
        digest, code = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
        return code if digest == _digest(group, name, code) else None

    def store(self, group: str, name: str, code: bytes) -> None:
        """Keeps an object, if that is possible."""
        home = self.folder()
        if home is None:
            return
        with suppress(OSError):
            (home / group).mkdir(parents=True, exist_ok=True, mode=0o700)
            with files.replacing(home / group / name, sync=self.limit is None) as stream:
                stream.write(_digest(group, name, code) + code)
            if self.limit is not None:
                _trim(home / group, self.limit() // GROUPS)

    def size(self) -> int:
        """Bytes of all that is kept."""
        home, total = self.folder(), 0
        with suppress(OSError):  # another process clears it
            total = sum(path.lstat().st_size for path in home.rglob("*") if not path.is_dir()) if home is not None else 0
        return total

    def clear(self) -> int:
        """Removes all objects; returns the bytes that were freed."""
        freed, home = self.size(), self.folder()
        if home is not None:
            files.remove(home)
        return freed - self.size()


def _digest(group: str, name: str, code: bytes) -> bytes:
    return hashlib.sha256(f"{group}/{name}\n".encode() + code).digest()


def _trim(group: Path, limit: int) -> None:
    """Removes what was not used for longest until the group takes ``limit`` bytes at most."""
    found = []
    for entry in os.scandir(group):
        with suppress(FileNotFoundError):  # another process removes it
            state = entry.stat(follow_symlinks=False)
            found.append((state.st_mtime_ns, state.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit:
            return
        total -= size
        with suppress(OSError):
            os.unlink(path)


def _runtime_folder() -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "forge" / "runtime"
    except RuntimeError:  # no home directory
        return None


def _kernel_folder() -> Path | None:
    if not knobs.keeps_objects():
        return None
    try:
        return knobs.cache_folder() / "objects"
    except OptionError:  # no home directory
        return None


RUNTIME = ObjectStore(_runtime_folder)
"""The C runtime's: a group is what all of its objects depend on."""

KERNELS = ObjectStore(_kernel_folder, lambda: knobs.CACHE_LIMIT.number << 18)
"""What LLVM made, by a digest of all that it depends on: a quarter of the limit of the compile cache."""
