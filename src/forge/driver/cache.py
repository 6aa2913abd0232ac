"""The compile cache: compiled models by content.

An entry holds machine code and those weights that compilation computed: others are views of the module's own arrays, which are
at hand when its key is asked for. The key is a digest of the module's fingerprint and names, target, options, and of everything
that takes part in compiling: Forge's own sources and the versions of LLVM and NumPy. An entry is a directory that appears whole
(written aside, then renamed); a damaged one is thrown away. When the cache exceeds its limit, the entries that were not used for
longest go.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import json
import os
import shutil
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from forge import files, knobs
from forge.backends.compiled import CompiledModel
from forge.driver import weight_views
from forge.driver.weight_views import Arrays
from forge.external import LinkedCode
from forge.ir import types as T
from forge.ir.graph import Module
from forge.ir.nodes import CONSTANT, Node
from forge.lowering.objects import place_of, says_place
from forge.options import CompileOptions
from forge.target import Target

_OBJECTS = "objects.bin"
_WEIGHTS = "weights.bin"
_INDEX = "index.json"
_NO_CODE = LinkedCode()
_DAMAGES = (OSError, ValueError, KeyError, TypeError, RecursionError)
_NOT_COMPILING = ("cli", "frontends", "onnxruntime")


def folder() -> Path:
    """Where compiled models are kept.

    Raises:
        OptionError: this user has no home directory, and nothing else is set.
    """
    return knobs.cache_folder() / "models"


def serves(module: Module) -> bool:
    """Whether the cache is on, and sees all operators that the model uses."""
    return knobs.keeps_models() and not any(_is_foreign(node) for graph in module.graphs.values() for node in graph.walk())


def key(
    module: Module, options: CompileOptions, name: str, fingerprint: str, quick: bool = False, external: LinkedCode = _NO_CODE
) -> str:
    """The key of a compilation; ``fingerprint`` is the module's, ``quick`` and ``external`` as `Compilation` has them."""
    state = hashlib.sha256(_compiler_digest().encode())
    target = [options.target.to_dict(), options.target.features]
    described = [fingerprint, _names(module), target, options.recorded, name, quick]
    described += [hashlib.sha256(code).hexdigest() for code in external.objects]
    state.update(json.dumps(described).encode())
    return state.hexdigest()[:40]


def _names(module: Module) -> list[Any]:
    """Names that appear in descriptions and errors, and that the fingerprint leaves out."""
    graphs = [module.graphs[name] for name in sorted(module.graphs)]
    nodes = [node for graph in graphs for node in graph.walk() if node.op_def is not CONSTANT]
    graphs += [region for node in nodes for region in node.regions]
    inputs = [[v.name, *T.symbols(v.type)] for graph in graphs for v in graph.inputs]
    names = [place_of(node) if says_place(node) else node.name for node in nodes]
    named = [[name, *(s for v in node.results for s in T.symbols(v.type))] for name, node in zip(names, nodes)]
    return [inputs, named, *([name, g.output_names, sorted(g.params)] for name, g in module.public.items())]


def _is_foreign(node: Node) -> bool:
    """Whether the operator does not come with Forge: its definition is not among the sources that the digest covers."""
    return not type(node.op_def).__module__.startswith("forge.")


@cache
def _compiler_digest() -> str:
    """Of all that takes part in compiling; read once a process."""
    state = hashlib.sha256(_source_digest(Path(__file__).parent.parent))
    for package in ("llvmlite", "numpy", "ml_dtypes"):
        state.update(f"{package} {importlib.metadata.version(package)}".encode())
    return state.hexdigest()


def _source_digest(root: Path) -> bytes:
    """Of the Python files of the package at ``root``, without what only reads models or talks to users."""
    state = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in _NOT_COMPILING:
            content = path.read_bytes()
            state.update(f"{name.as_posix()} {len(content)}\n".encode() + content)
    return state.digest()


def load(entry: str, target: Target, arrays: Arrays) -> CompiledModel | None:
    """The compiled model of key ``entry``, whose weights are views of ``arrays``; None when it is not there or is damaged."""
    place = folder() / entry
    try:
        compiled = _read(place, target, arrays)
    except _DAMAGES:
        files.remove(place)
        return None
    with contextlib.suppress(OSError):
        os.utime(place)
    return compiled


def _read(place: Path, target: Target, arrays: Arrays) -> CompiledModel:
    """Raises one of ``_DAMAGES`` where the entry is not what was written."""
    index = json.loads((place / _INDEX).read_text(encoding="utf-8"))
    content = index["content"]
    data = (place / _OBJECTS).read_bytes()
    path = place / _WEIGHTS
    made = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    if index["sha256"] != _digest(content) or content["objects"] != hashlib.sha256(data).hexdigest():
        raise ValueError("damaged")
    if content["made"] != [int(made.size), _checksum(made)]:
        raise ValueError("damaged")
    *kernels, entry = _split(data, content["sizes"])
    weights = weight_views.restored(content["weights"], arrays, made)
    return CompiledModel(target, kernels, entry, weights, content["options"], content["summary"])


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _checksum(data: np.ndarray) -> int:
    """Against damage, not against attacks: several times as fast as a digest."""
    return zlib.crc32(data.data)


def _split(data: bytes, sizes: list[int]) -> list[bytes]:
    stream = io.BytesIO(data)
    return [stream.read(size) for size in sizes]


def store(entry: str, compiled: CompiledModel, arrays: Arrays) -> None:
    """Keeps ``compiled``, of its weights only what is not a view of ``arrays``. A cache that cannot be written is left alone."""
    home = folder()
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with files.temporary_folder(home, mode=0o700) as work:
            _write(work, compiled, arrays)
            _put(work, home / entry, compiled.target, arrays)
        _trim()


def _put(work: Path, place: Path, target: Target, arrays: Arrays) -> None:
    """Renames ``work`` to ``place``. An entry that another process stored meanwhile stays, unless it is damaged."""
    try:
        os.rename(work, place)
    except OSError:
        try:
            _read(place, target, arrays)
        except _DAMAGES:
            files.remove(place)
            os.rename(work, place)


def _write(work: Path, compiled: CompiledModel, arrays: Arrays) -> None:
    objects = compiled.objects
    data = b"".join(objects)
    described, made = weight_views.described(compiled.weights, arrays)
    with (work / _WEIGHTS).open("wb") as stream:
        made.write(stream.fileno(), 0)
    content = {
        "sizes": [len(o) for o in objects],
        "objects": hashlib.sha256(data).hexdigest(),
        "weights": described,
        "made": [made.size, _checksum(np.memmap(work / _WEIGHTS, np.uint8, "r")) if made.size else 0],
        "options": compiled.options,
        "summary": compiled.summary,
    }
    (work / _OBJECTS).write_bytes(data)
    (work / _INDEX).write_text(json.dumps({"content": content, "sha256": _digest(content)}), encoding="utf-8")


def entries() -> list[tuple[Path, int]]:
    """Entries with their sizes in bytes, the most recently used first."""
    found = []
    home = folder()
    for place in list(home.iterdir()) if home.is_dir() else ():
        if place.is_dir() and not place.name.startswith("."):  # which is work in progress
            with contextlib.suppress(FileNotFoundError):  # another process removes it
                found.append((place.stat().st_mtime, place, sum(f.stat().st_size for f in place.iterdir())))
    return [(place, size) for _, place, size in sorted(found, reverse=True)]


def clear() -> int:
    """Removes all entries; returns the bytes that were freed."""
    known = entries()
    for place, _ in known:
        shutil.rmtree(place, ignore_errors=True)
    files.remove_abandoned(folder())
    return sum(size for _, size in known)


def _trim() -> None:
    limit = knobs.CACHE_LIMIT.number << 20
    total = 0
    for place, size in entries():
        total += size
        if total > limit:
            shutil.rmtree(place, ignore_errors=True)
