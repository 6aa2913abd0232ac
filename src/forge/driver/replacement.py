"""Replaces an artifact by another atomically, in a folder that may hold other files.

``modelLibrary.so`` is replaced by one rename, and everything that either library needs is present at that instant: files of
weights are named by their contents, and the key file opens both libraries. So a reader loads the old artifact or the new one, and
a killed process leaves one of them. Files that only describe the library (``metadata.json``, ``model.relay``) are removed before
that instant and added after it: they may be missing for a moment, but never describe another library. New files are flushed to
the disk before they replace old ones.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from forge import files
from forge_runtime import artifact as format_
from forge_runtime import encryption

LIBRARY_NAME = format_.LIBRARY_NAME
KEY_NAME = format_.KEY_NAME
RELAY_NAME = "model.relay"
RELAY_WEIGHTS_NAME = "model.relay.safetensors"
METADATA_NAME = "metadata.json"

_DESCRIPTIONS = (RELAY_NAME, RELAY_WEIGHTS_NAME, METADATA_NAME)
_WEIGHTS = re.compile(r"modelWeights-[0-9a-f]{16}\.safetensors|weights(-[0-9a-f]{16})?\.bin")


def weights_name(digest: str) -> str:
    """Name of the file of weights outside the library, from their digest: other weights never replace those in use."""
    return f"modelWeights-{digest[:16]}.safetensors"


def replace(work: Path, final: Path) -> None:
    """Moves the artifact in ``work`` to ``final``, and removes the files of the previous one.

    On an error or an interruption, it is undone; or completed, if the new library is already in place.

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
        """Installs a key file that opens both the old and the new library."""
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
