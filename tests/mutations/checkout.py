"""Private copies of a checkout, whose sources are what is imported, and faults in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutations.catalogue import Fault, planted
from tests.runs.selection import WATCHED

_SOURCES = ("src", "runtime/src", ".")
_PACKAGE = "runtime/src/forge_runtime"
_IMPORTED = ("import forge, forge_runtime._native, tests.guard; "
             "print(forge.__file__, forge_runtime._native.__file__, tests.guard.__file__, sep=chr(10))")
_IDENTITY = ["-c", "user.name=mutations", "-c", "user.email=mutations@localhost"]


class BrokenCopy(Exception):
    """A copy that cannot be built, or whose sources are not what is imported."""


def files_of(tree: Path) -> list[str]:
    """Tracked files and new ones that git does not ignore, as they are in the tree now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in {*listed.split("\0")} if name and (tree / name).is_file())


class Checkout:
    """A copy of ``tree`` in a new folder, run by the interpreter ``python``, with its own extension and caches.

    Raises:
        BrokenCopy: the extension cannot be built, or the interpreter imports other sources.
    """

    def __init__(self, tree: Path, folder: Path, python: str) -> None:
        self.path, self.python, self._folder = folder / "checkout", python, folder
        for name in files_of(tree):
            to = self.path / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, to)
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--no-verify", "-m", "copy"]):
            subprocess.run(["git", *_IDENTITY, *command], cwd=self.path, check=True, capture_output=True)
        self.build()
        self.extensions = list((self.path / _PACKAGE).glob("*.so"))
        self._check_imports()

    def environment(self) -> dict[str, str]:
        """The copy comes before an editable installation: that one's finder is asked after all folders of the path."""
        path = os.pathsep.join(str(self.path / source) for source in _SOURCES)
        kept = str(self._folder / "cache" / "forge-tests")
        caches = {"FORGE_CACHE": "objects", "FORGE_TEST_CACHE": kept, "FORGE_CACHE_DIR": kept,
                  "XDG_CACHE_HOME": str(self._folder / "cache")}
        programs = os.pathsep.join([str(Path(self.python).parent), os.environ["PATH"]])
        return {**os.environ, **caches, "PYTHONPATH": path, "PATH": programs, "COLUMNS": "400"}

    def build(self, flags: str = "") -> None:
        """Builds the extension next to the package."""
        done = subprocess.run([self.python, "setup.py", "-q", "build_ext", "--inplace", "--force"], cwd=self.path / "runtime",
                              env={**self.environment(), "CFLAGS": flags}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokenCopy(f"the extension cannot be built: {done.stderr[-2000:]}")

    def forget_failures(self) -> None:
        """A case that fails in a sample would be in every run from then on, and catch other faults."""
        (self._folder / "cache" / "forge-tests" / WATCHED).unlink(missing_ok=True)

    def _check_imports(self) -> None:
        done = subprocess.run([self.python, "-c", _IMPORTED], cwd=self._folder, env=self.environment(), capture_output=True,
                              text=True, check=False)
        imported = done.stdout.splitlines()
        if len(imported) != 3 or not all(Path(name).resolve().is_relative_to(self.path.resolve()) for name in imported):
            raise BrokenCopy(f"other sources than those of {self.path} are imported: {done.stdout}{done.stderr[-2000:]}")

    @contextmanager
    def with_fault(self, fault: Fault) -> Iterator[None]:
        """The copy has the fault inside of ``with``, and compiled where it is one of C.

        Raises:
            BrokenCopy: its line is stale, or the C compiler refuses the fault, or warns of it.
        """
        path = self.path / fault.file
        original = path.read_text(encoding="utf-8")
        changed = planted(fault, original)
        if changed is None:
            raise BrokenCopy("stale")
        kept = {extension: extension.read_bytes() for extension in self.extensions} if path.suffix == ".c" else {}
        try:
            _replace(path, changed)
            if kept:
                self.build("-Werror")  # what the compiler warns of needs no test
            yield
        finally:
            _replace(path, original)
            self.forget_failures()
            for extension, code in kept.items():
                extension.write_bytes(code)


def _replace(path: Path, text: str) -> None:
    """Writes a source file; Python would take bytecode of a file of the same second and size for that of the new one."""
    path.write_text(text, encoding="utf-8")
    for bytecode in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        bytecode.unlink()
