"""Atomic creation and replacement of files and folders, and removal of what killed processes left behind.

Work in progress has a temporary name in the target's folder, ``.forge-`` and 16 hexadecimal digits, and is locked (``flock``) by
the process that writes it. The next writer into the same folder removes those whose lock is free. On a file system without locks,
nothing is removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO

from forge.errors import ForgeError, OptionError, OutputPathError

_PREFIX = ".forge-"
_TEMPORARY = re.compile(re.escape(_PREFIX) + "[0-9a-f]{16}")
_LOCK = ".forge-lock"


@contextmanager
def temporary_folder(home: Path, mode: int = 0o777) -> Iterator[Path]:
    """A fresh folder in ``home``, which is removed at the end unless it was renamed.

    Raises:
        OSError: it cannot be made.
    """
    remove_abandoned(home)
    path, lock = _made(home, lambda path: os.mkdir(path, mode), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield path
    finally:
        try:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


@contextmanager
def replacing(target: Path, sync: bool = False) -> Iterator[IO[bytes]]:
    """A stream whose contents replace the file ``target`` at the end, or are discarded on an error.

    A file that replaces another is flushed to the disk first, so that a power cut leaves the old or the new one; ``sync`` flushes
    a new file too.

    Raises:
        OSError: it cannot be written.
    """
    remove_abandoned(target.parent)
    with _naming(target):
        path, lock = _made(target.parent, lambda path: os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o666)), os.O_RDWR)
    try:
        with os.fdopen(lock, "w+b") as stream:
            yield stream
            stream.flush()
            if sync or target.exists():
                _sync(lock)
            with _naming(target):
                os.replace(path, target)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Errors of the system name ``target``, which the user knows, instead of a temporary file."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(target), None
        raise


@contextmanager
def writing(what: str, path: str | PathLike[str]) -> Iterator[None]:
    """The block writes the file ``path``.

    Raises:
        OptionError: ``path`` is none; OutputPathError: it cannot be written. ``what`` begins the message.
    """
    if not isinstance(path, str | PathLike) or not str(path) or "\0" in str(path):
        raise OptionError(f"{what}: got {path!r}; expected the path of a file")
    place = Path(path)
    if not place.parent.is_dir():
        raise OutputPathError(f"{what}: {place}: there is no folder {place.parent}; create it first, or choose another path")
    if place.is_dir():
        raise OutputPathError(f"{what}: {place} is a folder; expected the path of a file")
    try:
        yield
    except OSError as error:
        if isinstance(error, ForgeError):
            raise
        problem = f"{error.strerror or error}; expected a folder that can be written to, with enough space"
        raise OutputPathError(f"{what}: {place}: {problem}") from error


def flush(path: Path) -> None:
    """Flushes the contents of a file, or the entries of a folder, to the disk.

    Raises:
        OSError: the disk is full or broken.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _sync(handle)
    finally:
        os.close(handle)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Holds an exclusive lock on ``folder``, across processes and threads."""
    path = folder / _LOCK
    lock = _held(path, os.O_RDWR | os.O_CREAT)
    try:
        yield
    finally:
        try:
            path.unlink(missing_ok=True)
        finally:
            os.close(lock)


def remove_abandoned(home: Path) -> None:
    """Removes the temporary files and folders of ended processes of this user."""
    with suppress(OSError):
        for name in os.listdir(home):
            if _TEMPORARY.fullmatch(name):
                _remove_unless_held(home / name)


def _remove_unless_held(path: Path) -> None:
    with suppress(OSError):
        if path.lstat().st_uid != os.geteuid():
            return
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
        finally:
            os.close(handle)


def remove(path: Path) -> None:
    """Removes a file, a link or a folder with all it holds, as far as that is possible."""
    with suppress(OSError):
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)


def _made(home: Path, make: Callable[[Path], None], flags: int) -> tuple[Path, int]:
    """A new file or folder, and the descriptor that locks it."""
    while True:
        path = home / f"{_PREFIX}{secrets.token_hex(8)}"
        make(path)
        with suppress(FileNotFoundError):  # taken for abandoned before it was locked
            return path, _held(path, flags)


def _held(path: Path, flags: int) -> int:
    """A locked descriptor of ``path``, opened again until it is the file there now: its previous holder may have removed it."""
    while True:
        handle = os.open(path, flags | os.O_CLOEXEC, 0o666)
        try:
            with suppress(OSError):  # no locks there
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _lies_at(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lies_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _sync(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):  # the file system cannot flush
            raise
