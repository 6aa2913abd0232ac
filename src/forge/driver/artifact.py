"""Writes a compiled model to a directory: ``modelLibrary.so`` and what was asked for next to it.

All is made in a temporary directory next to (or, where the output directory exists, inside) the final one and then renamed:
an artifact is there whole or not at all. ``force_overwrite`` replaces the files that Forge writes and touches no others
(``replacement``: at every instant the old artifact can be loaded, or the new one).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from forge import files
from forge.codegen.link import find_compiler, link_library
from forge.driver import replacement
from forge.driver.compiled import CompiledModel
from forge.driver.metadata import creation_time, describe
from forge.driver.replacement import KEY_NAME, LIBRARY_NAME, METADATA_NAME, RELAY_NAME, weights_name
from forge.errors import CompileError, OutputExistsError, option
from forge.ir.nodes import Module
from forge.ir.saved import serialize
from forge.ir.text.printer import print_module
from forge.options import OutputOptions
from forge_runtime import artifact as format_
from forge_runtime import encryption, include_directory

MAX_EMBEDDED_WEIGHTS = 3 << 29
"""Bytes; more lie in a file next to the library, because code reaches only 2 GiB far."""


def check(options: OutputOptions) -> None:
    """Everything that can be known to fail before the work begins.

    Raises:
        OutputExistsError, CompileError, ToolchainError: what is wrong and what to do.
    """
    _check_path(options.path, options.force_overwrite)
    if options.encrypt_password is not None:
        _memory_folder()
    creation_time()
    find_compiler()


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


def write(compiled: CompiledModel, module: Module, options: OutputOptions) -> Path:
    """Writes the artifact and returns its directory.

    Raises:
        OutputExistsError: the path came to exist; CompileError: it cannot be written; ToolchainError: linking failed.
    """
    final = options.path
    try:
        with _working_folder(final) as work:
            _fill(work, compiled, module, options)
            if final.is_dir():
                _check_path(final, options.force_overwrite)
                replacement.replace(work, final)
            else:
                os.rename(work, final)
    except OutputExistsError:
        raise
    except OSError as error:
        hint = "expected a writable directory with enough space; nothing was left there"
        raise CompileError(f"compile: output path {final}: {error.strerror or error}; {hint}") from error
    return final


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


def _fill(work: Path, compiled: CompiledModel, module: Module, options: OutputOptions) -> None:
    metadata = describe(compiled, module, options.uuid)
    if options.encrypt_password is not None:
        _encrypt(work, compiled, metadata, options.encrypt_password)
    elif compiled.weights.size > MAX_EMBEDDED_WEIGHTS:
        digest = hashlib.sha256(compiled.weights.data).hexdigest()
        name = weights_name(digest)
        (work / name).write_bytes(compiled.weights.data)
        metadata |= {"weights_file": name, "weights_sha256": digest}
        _link(work / LIBRARY_NAME, [*compiled.kernels, compiled.entry], None, metadata, work)
    else:
        objects = [*compiled.kernels, compiled.embedded_entry]
        _link(work / LIBRARY_NAME, objects, compiled.weights, metadata, work)
    if options.export_relay and options.encrypt_password is None:
        serialize.save_text(module, work / RELAY_NAME)
    elif options.export_relay:  # whose weights must not lie open
        (work / RELAY_NAME).write_text(print_module(module, types=True, names=True), encoding="utf-8")
    if options.export_metadata:
        (work / METADATA_NAME).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


def _encrypt(work: Path, compiled: CompiledModel, metadata: dict[str, Any], password: str) -> None:
    if compiled.weights.size > MAX_EMBEDDED_WEIGHTS:
        size, most = compiled.weights.size, MAX_EMBEDDED_WEIGHTS
        where = f"compile: {option('encrypt_password')}"
        raise CompileError(f"{where}: got {size} bytes of weights; expected at most {most}; compile without")
    with files.temporary_folder(_memory_folder(), mode=0o700) as private:
        plain = private / LIBRARY_NAME
        _link(plain, [*compiled.kernels, compiled.embedded_entry], compiled.weights, metadata, private)
        with plain.open("rb") as stream:
            pieces = iter(lambda: stream.read(1 << 20), b"")
            encryption.encrypt_file(pieces, work / LIBRARY_NAME, work / KEY_NAME, password)


def _link(library: Path, objects: list[bytes], weights: np.ndarray | None, metadata: dict[str, Any], scratch: Path) -> None:
    data = None if weights is None else memoryview(weights.data)
    link_library(objects, data, include_directory(), library, scratch)
    format_.seal(library, metadata)


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
