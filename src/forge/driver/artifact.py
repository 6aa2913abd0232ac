"""Writes a compiled model to a directory: ``modelLibrary.so`` and what was asked for next to it.

All is made in a temporary directory next to (or, where the output directory exists, inside) the final one and then renamed:
an artifact is there whole or not at all. ``force_overwrite`` replaces the files that Forge writes and touches no others
(``replacement``: at every instant the old artifact can be loaded, or the new one).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from forge import backend, files
from forge.backends.compiled import CompiledModel
from forge.backends.weights import Weights
from forge.codegen.link import page_size
from forge.driver import replacement
from forge.driver.metadata import creation_time, describe
from forge.driver.replacement import KEY_NAME, LIBRARY_NAME, METADATA_NAME, RELAY_NAME, weights_name
from forge.errors import CompileError, OutputExistsError, TargetError, option
from forge.ir.graph import Module
from forge.ir.saved import serialize
from forge.ir.text.printer import print_module
from forge.options import OutputOptions
from forge.target import Target
from forge_runtime import artifact as format_
from forge_runtime import encryption

MAX_WEIGHTS_INSIDE = 3 << 29
"""Bytes; more lie in a file next to the library unless the user says where, because loading copies those inside."""

_UNNAMED = "weights"


def check(options: OutputOptions, target: Target) -> None:
    """Everything that can be known to fail before the work begins.

    Raises:
        OutputExistsError, CompileError, TargetError, ToolchainError: what is wrong and what to do.
    """
    serving = backend.of(target)
    if serving.link is None:
        raise TargetError(f"compile: target {target}: backend {serving.name} writes no libraries; expected one that does, "
                          "such as 'llvm'; get_inference_function runs models in this process")
    _check_path(options.path, options.force_overwrite)
    if options.encrypt_password is not None:
        _memory_folder()
    creation_time()
    serving.check(target)


def _check_path(path: Path, overwrite: bool) -> None:
    if os.path.lexists(path):
        if not overwrite:
            replace = option("force_overwrite=True")
            raise OutputExistsError(f"compile: output path {path} exists; pass {replace} or choose another")
        if not path.is_dir():
            raise OutputExistsError(f"compile: output path {path} is not a directory; expected one to create or to write into")
    home = next(p for p in (path, *path.parents) if os.path.exists(p))
    if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
        raise CompileError(f"compile: output path {path}: cannot write in {home}; expected a writable directory; choose another")


class Draft:
    """An artifact in the making, in a folder next to its place. Its weights can be written while code is compiled."""

    def __init__(self, work: Path, options: OutputOptions) -> None:
        self._work = work
        self._options = options
        self._thread = ThreadPoolExecutor(1)
        self._weights: Future[dict[str, Any]] | None = None

    def begin(self, weights: Weights, target: Target) -> None:
        """Starts to write ``weights``, unless they must not lie open."""
        if self._options.encrypt_password is None:
            self._weights = self._thread.submit(self._write_weights, weights, target)

    def finish(self, compiled: CompiledModel, module: Module, fingerprint: str) -> Path:
        """Puts the artifact in its place and returns its directory.

        Raises:
            OutputExistsError: the path came to exist; CompileError: it cannot be written; ToolchainError: linking failed.
        """
        final = self._options.path
        with _reporting(final):
            self._fill(compiled, module, fingerprint)
            if final.is_dir():
                _check_path(final, self._options.force_overwrite)
                replacement.replace(self._work, final)
            else:
                os.rename(self._work, final)
        return final

    def wait(self) -> None:
        """Until the weights that it began to write are written; `finish` says what failed."""
        if self._weights is not None:
            futures.wait([self._weights])

    def close(self) -> None:
        self._thread.shutdown()

    def _write_weights(self, weights: Weights, target: Target) -> dict[str, Any]:
        """What the metadata say of the weights, which are in a file now."""
        if not weights.size:
            return {}
        is_beside = self._are_beside(weights)
        offset = len(format_.weights_header(weights.size)) if is_beside else page_size(target)
        path = self._work / (_UNNAMED if is_beside else LIBRARY_NAME)
        with path.open("wb") as stream:
            if is_beside:
                stream.write(format_.weights_header(weights.size))
                stream.flush()
            digest = weights.write(stream.fileno(), offset)
        described = {"weights_offset": offset, "weights_digest": digest}
        if is_beside:
            described["weights_file"] = weights_name(digest)
            os.rename(path, self._work / weights_name(digest))
        return described

    def _are_beside(self, weights: Weights) -> bool:
        chosen = self._options.weights
        return chosen == "beside" or (chosen is None and weights.size > MAX_WEIGHTS_INSIDE)

    def _fill(self, compiled: CompiledModel, module: Module, fingerprint: str) -> None:
        options, work = self._options, self._work
        metadata = describe(compiled, module, fingerprint, options.uuid)
        if options.encrypt_password is not None:
            _encrypt(work, compiled, metadata, options.encrypt_password)
        else:
            if self._weights is None:
                self.begin(compiled.weights, compiled.target)
            assert self._weights is not None
            metadata |= self._weights.result()
            _link(work / LIBRARY_NAME, compiled, metadata, work)
        if options.export_relay and options.encrypt_password is None:
            serialize.save_text(module, work / RELAY_NAME)
        elif options.export_relay:  # whose weights must not lie open
            (work / RELAY_NAME).write_text(print_module(module, types=True, names=True), encoding="utf-8")
        if options.export_metadata:
            (work / METADATA_NAME).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


@contextmanager
def draft(options: OutputOptions) -> Iterator[Draft]:
    """An artifact that is put in its place by ``finish``; without that, nothing is left.

    Raises:
        CompileError: nothing can be written there.
    """
    with ExitStack() as opened:
        with _reporting(options.path):
            work = opened.enter_context(_working_folder(options.path))
        made = Draft(work, options)
        opened.callback(made.close)
        yield made


@contextmanager
def _reporting(final: Path) -> Iterator[None]:
    """What the system refuses in the block is a CompileError about ``final``."""
    try:
        yield
    except OutputExistsError:
        raise
    except OSError as error:
        hint = "expected a writable directory with enough space; nothing was left there"
        raise CompileError(f"compile: output path {final}: {error.strerror or error}; {hint}") from error


@contextmanager
def _working_folder(final: Path) -> Iterator[Path]:
    """A fresh folder on the same file system as ``final``; on failure, the parents made for it go as well."""
    home = final if final.is_dir() else final.parent
    missing = [p for p in (home, *home.parents) if not os.path.exists(p)]
    done = False
    try:
        home.mkdir(parents=True, exist_ok=True)
        with files.temporary_folder(home) as work:
            yield work
            done = True
    finally:
        for made in [] if done else missing:
            with suppress(OSError):
                made.rmdir()


def _link(library: Path, compiled: CompiledModel, metadata: dict[str, Any], scratch: Path) -> None:
    """Makes ``library`` out of code and metadata; its weights may be there already."""
    is_inside = bool(compiled.weights.size) and "weights_file" not in metadata
    size = compiled.weights.size if is_inside else 0
    link = backend.of(compiled.target).link
    assert link is not None  # whoever asks for an artifact checked it
    link(library, compiled, size, scratch)
    format_.seal(library, metadata)


def _encrypt(work: Path, compiled: CompiledModel, metadata: dict[str, Any], password: str) -> None:
    weights, page = compiled.weights, page_size(compiled.target)
    if weights.size:
        metadata |= {"weights_offset": page, "weights_digest": weights.digest()}
    with files.temporary_folder(_memory_folder(), mode=0o700) as private:
        plain = private / LIBRARY_NAME
        _link(plain, compiled, metadata, private)
        with plain.open("rb") as stream:
            encryption.encrypt_file(_pieces(stream, page, weights), work / LIBRARY_NAME, work / KEY_NAME, password)


def _pieces(library: IO[bytes], page: int, weights: Weights) -> Iterator[bytes]:
    """The bytes of a library without its weights, and those, where they belong."""
    if weights.size:
        yield library.read(page)
        yield from weights.pieces()
        library.seek(page + weights.size)
    yield from iter(lambda: library.read(1 << 20), b"")


def _memory_folder() -> Path:
    """A folder in memory, so that what will be encrypted never lies on a disk.

    Raises:
        CompileError: the system has none.
    """
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK | os.X_OK):
        where = f"compile: {option('encrypt_password')}"
        raise CompileError(f"{where}: cannot write in {folder}; expected a file system in memory, to link in")
    return folder
