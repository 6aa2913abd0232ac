"""Puts a finished artifact into the place of another, in a folder that may hold other files.

``modelLibrary.so`` is replaced by one rename, and whatever either library needs is there at that instant: weights have names of
their own contents, and the key file opens both. So whoever loads the artifact gets the old one or the new one, and a process that
is killed leaves one of them. What only describes (``metadata.json``, ``model.relay``) goes before that instant and comes after
it: it may be missing for a moment, but never tells of another library. New files lie on the disk before they take the place of
old ones.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from forge import files
from forge_runtime import artifact as format_
from forge_runtime import encryption

LIBRARY_NAME = format_.LIBRARY_NAME
KEY_NAME = "modelLibrary.key"
RELAY_NAME = "model.relay"
RELAY_WEIGHTS_NAME = "model.relay.safetensors"
METADATA_NAME = "metadata.json"

_DESCRIPTIONS = (RELAY_NAME, RELAY_WEIGHTS_NAME, METADATA_NAME)
_WEIGHTS = re.compile(r"weights(-[0-9a-f]{16})?\.bin")


def weights_name(digest: str) -> str:
    """The file of weights that lie beside the library, by their SHA-256."""
    return f"weights-{digest[:16]}.bin"


def replace(work: Path, final: Path) -> None:
    """Moves the artifact in ``work`` to ``final``, and removes what belongs to the one that was there.

    Where that fails or is interrupted, it is undone, or finished if the new library is in place already.

    Raises:
        OSError: files cannot be moved.
    """
    with files.alone_in(final):
        _Replacement(work, final).run()


class _Replacement:
    def __init__(self, work: Path, final: Path) -> None:
        self.work = work
        self.final = final
        self.old = work / "old"
        self.weights = [p.name for p in work.iterdir() if _WEIGHTS.fullmatch(p.name)]
        self.known = os.listdir(final)

    def run(self) -> None:
        library = self.work / LIBRARY_NAME
        self.old.mkdir()
        try:
            self._prepare()
            os.replace(library, self.final / LIBRARY_NAME)
        finally:
            if library.exists():
                self._undo()
            else:
                self._finish()

    def _prepare(self) -> None:
        for name in (*self.weights, LIBRARY_NAME):
            files.flush(self.work / name)
        for name in self.weights:
            os.replace(self.work / name, self.final / name)
        if (self.work / KEY_NAME).exists():
            self._add_key()
        if self.weights or (self.work / KEY_NAME).exists():
            files.flush(self.final)
        for name in _DESCRIPTIONS:
            if name in self.known:
                os.replace(self.final / name, self.old / name)

    def _add_key(self) -> None:
        """The key file opens the old library still, and the new one already."""
        ours, theirs = self.work / KEY_NAME, self.final / KEY_NAME
        if KEY_NAME in self.known:
            encryption.write_private(self.old / KEY_NAME, theirs.read_bytes())
        both = self.old / "both.key"
        encryption.write_private(both, encryption.joined_keys(ours, theirs, self.final / LIBRARY_NAME))
        files.flush(both)
        os.replace(both, theirs)

    def _undo(self) -> None:
        for name in (*_DESCRIPTIONS, KEY_NAME):
            if (self.old / name).exists():
                os.replace(self.old / name, self.final / name)
        for name in (KEY_NAME, *self.weights):
            if name not in self.known:
                (self.final / name).unlink(missing_ok=True)

    def _finish(self) -> None:
        files.flush(self.final)
        for name in (KEY_NAME, *_DESCRIPTIONS):
            if (self.work / name).exists():
                os.replace(self.work / name, self.final / name)
            else:
                (self.final / name).unlink(missing_ok=True)
        for name in self.known:
            if _WEIGHTS.fullmatch(name) and name not in self.weights:
                (self.final / name).unlink(missing_ok=True)
