"""Writes a compiled model to a directory: ``modelLibrary.so`` and what was asked for beside it.

Everything is written to a temporary directory next to the final one, which is then renamed: an artifact is there whole or
not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import uuid as uuids
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from forge import dtypes
from forge._version import __version__
from forge.codegen.link import find_compiler, link_library
from forge.driver.compiled import CompiledModel
from forge.errors import CompileError, OutputExistsError
from forge.ir import hashing
from forge.ir.nodes import Module, Value
from forge.ir.printer import print_module
from forge_runtime import artifact as format_
from forge_runtime import encryption, include_directory

LIBRARY_NAME = format_.LIBRARY_NAME
KEY_NAME = "modelLibrary.key"


@dataclass(frozen=True)
class Options:
    """What ``IRModule.compile`` was told of the output."""

    output_path: str | PathLike[str] | None
    export_relay: bool = False
    export_metadata: bool = False
    force_overwrite: bool = False
    uuid: str | None = None
    encrypt_password: str | None = None

    @property
    def path(self) -> Path:
        return Path(self.output_path if self.output_path is not None else "compile_output")

    def check(self) -> None:
        """Everything that can be known to fail before the work begins.

        Raises:
            OutputExistsError, CompileError, ValueError, ToolchainError: what is wrong and what to do.
        """
        if self.path.exists() and not self.force_overwrite:
            raise OutputExistsError(f"compile: output path {self.path} exists; pass force_overwrite=True or choose another")
        if self.path.exists() and not self.path.is_dir():
            raise OutputExistsError(f"compile: output path {self.path} is a file; expected a directory to create")
        if self.encrypt_password is not None and not self.encrypt_password:
            raise ValueError("compile: encrypt_password: got an empty text; expected a password")
        if self.uuid is not None and not self.uuid:
            raise ValueError("compile: uuid: got an empty text; expected an identifier")
        parent = _existing_parent(self.path)
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise CompileError(f"compile: output path {self.path}: cannot create it in {parent}; expected a writable directory")
        find_compiler()


def _existing_parent(path: Path) -> Path:
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    return parent


def write(compiled: CompiledModel, module: Module, options: Options) -> Path:
    """Writes the artifact and returns its directory.

    Raises:
        OutputExistsError: the path came to exist; CompileError: it cannot be written; ToolchainError: linking failed.
    """
    final = options.path.absolute()
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    except OSError as error:
        raise CompileError(f"compile: output path {final}: {error.strerror}; expected a writable directory") from error
    try:
        _fill(work, compiled, module, options)
        os.chmod(work, 0o755)
        _replace(work, final, options.force_overwrite)
    except OSError as error:
        raise CompileError(f"compile: writing {final}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return final


def _fill(work: Path, compiled: CompiledModel, module: Module, options: Options) -> None:
    metadata = describe(compiled, module, options.uuid)
    if options.encrypt_password is None:
        _link(work / LIBRARY_NAME, compiled, metadata, None)
    else:
        with tempfile.TemporaryDirectory(prefix="forge-", dir=_memory_folder()) as private:
            plain = Path(private) / LIBRARY_NAME
            _link(plain, compiled, metadata, Path(private))
            with plain.open("rb") as stream:
                pieces = iter(lambda: stream.read(1 << 20), b"")
                encryption.encrypt_file(pieces, work / LIBRARY_NAME, work / KEY_NAME, options.encrypt_password)
    if options.export_relay:
        (work / "model.relay").write_text(print_module(module, types=True, names=True), encoding="utf-8")
    if options.export_metadata:
        (work / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


def _link(library: Path, compiled: CompiledModel, metadata: dict[str, Any], scratch: Path | None) -> None:
    objects = [*compiled.kernels, compiled.embedded_entry]
    link_library(objects, memoryview(compiled.weights), include_directory(), library, scratch)
    format_.seal(library, metadata)


def _memory_folder() -> Path:
    """A folder in memory, so that what will be encrypted never lies on a disk.

    Raises:
        CompileError: the system has none.
    """
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CompileError("compile: encrypt_password: needs the memory file system /dev/shm to link in; mount it, or compile without")
    return folder


def _replace(work: Path, final: Path, overwrite: bool) -> None:
    """Renames ``work`` to ``final``; an old artifact is moved aside first and comes back if that fails."""
    if not final.exists():
        os.rename(work, final)
        return
    if not overwrite:
        raise OutputExistsError(f"compile: output path {final} exists; pass force_overwrite=True or choose another")
    aside = Path(tempfile.mkdtemp(prefix=f".{final.name}.old.", dir=final.parent))
    os.rename(final, aside / "old")
    try:
        os.rename(work, final)
    except OSError:
        os.rename(aside / "old", final)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def describe(compiled: CompiledModel, module: Module, uuid: str | None = None) -> dict[str, Any]:
    """The artifact's metadata. Reproducible but for ``uuid`` and ``created`` (which obeys SOURCE_DATE_EPOCH)."""
    inputs = [v for v in module.main.inputs if v.name not in module.params]
    return {
        "uuid": uuid or str(uuids.uuid4()),
        "fingerprint": hashing.fingerprint(module),
        "created": _creation_time(),
        "target": str(compiled.target),
        "cpu_features": ",".join(compiled.target.features),
        "precision": "float16" if compiled.options.get("float16") else _precision(module),
        "inputs": [_tensor(v, v.name) for v in inputs],
        "outputs": list(map(_tensor, module.main.outputs, module.main.output_names)),
        "options": compiled.options,
        "versions": {"forge": __version__},
        "weights_size": compiled.weights.size,
        "arena_size": compiled.summary["arena_size"],
        "annotations": dict(compiled.target.annotations),
    }


def _creation_time() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = int(epoch) if epoch and epoch.isdigit() else int(time.time())
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _precision(module: Module) -> str:
    """The element type of most floating-point weights."""
    counts: dict[str, int] = {}
    for node in module.main.walk():
        array = node.results[0].constant if node.results else None
        if array is not None and dtypes.is_float(dtypes.canonical(array.dtype)):
            name = dtypes.canonical(array.dtype)
            counts[name] = counts.get(name, 0) + array.size
    return max(counts, key=counts.__getitem__) if counts else "float32"


def _tensor(value: Value, name: str) -> dict[str, Any]:
    layout = {3: "NCW", 4: "NCHW", 5: "NCDHW"}.get(value.rank, "")
    return {
        "name": name,
        "dtype": value.dtype,
        "shape": [d if isinstance(d, int) else str(d) for d in value.shape],
        "layout": layout,
    }
