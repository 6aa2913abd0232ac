"""The compile cache: compiled models by content.

The key is a digest of the module's fingerprint and names, target, options, and of everything that takes part in compiling:
Forge's own sources and the versions of LLVM and NumPy. An entry is a directory that appears whole (written aside, then
renamed); a damaged one is thrown away. When the cache exceeds its limit, the entries that were not used for longest go.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from forge import knobs
from forge.driver.compiled import CompiledModel
from forge.ir import hashing
from forge.ir.nodes import Module
from forge.target import Target

_OBJECTS = "objects.bin"
_WEIGHTS = "weights.bin"
_INDEX = "index.json"


def folder() -> Path:
    """Where compiled models are kept."""
    if knobs.CACHE_DIR.text:
        return Path(knobs.CACHE_DIR.text)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "forge" / "models"


def key(module: Module, target: Target, options: dict[str, Any]) -> str | None:
    """The key of a compilation; None when the cache is off."""
    if not knobs.CACHE.flag:
        return None
    state = hashlib.sha256(_compiler_digest().encode())
    names = [*[v.name for v in module.main.inputs], *module.main.output_names]
    described = [hashing.fingerprint(module), names, str(target), target.features, target.num_cores, sorted(options.items())]
    state.update(json.dumps(described, default=str).encode())
    return state.hexdigest()[:40]


@cache
def _compiler_digest() -> str:
    root = Path(__file__).parent.parent
    state = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ("cli", "frontends"):
            state.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    for package in ("llvmlite", "numpy", "ml_dtypes"):
        state.update(importlib.metadata.version(package).encode())
    return state.hexdigest()


def load(entry: str, target: Target) -> CompiledModel | None:
    """The compiled model of key ``entry``; None when it is not there or is damaged."""
    place = folder() / entry
    try:
        index = json.loads((place / _INDEX).read_text(encoding="utf-8"))
        data = (place / _OBJECTS).read_bytes()
        if hashlib.sha256(data).hexdigest() != index["sha256"] or (place / _WEIGHTS).stat().st_size != index["weights"]:
            raise ValueError("damaged")
        pieces = _split(data, index["sizes"])
        weights = np.memmap(place / _WEIGHTS, np.uint8, "r") if index["weights"] else np.empty(0, np.uint8)
        os.utime(place)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        shutil.rmtree(place, ignore_errors=True)
        return None
    *kernels, loose, embedded = pieces
    return CompiledModel(target, kernels, loose, embedded, weights, index["options"], index["summary"])


def _split(data: bytes, sizes: list[int]) -> list[bytes]:
    if sum(sizes) != len(data) or len(sizes) < 2:
        raise ValueError("damaged")
    pieces, start = [], 0
    for size in sizes:
        pieces.append(data[start : start + size])
        start += size
    return pieces


def store(entry: str, compiled: CompiledModel) -> None:
    """Keeps ``compiled``. A cache that cannot be written is left alone."""
    objects = [*compiled.kernels, compiled.entry, compiled.embedded_entry]
    data = b"".join(objects)
    index = {
        "sizes": [len(o) for o in objects], "sha256": hashlib.sha256(data).hexdigest(), "weights": int(compiled.weights.size),
        "options": compiled.options, "summary": compiled.summary,
    }
    home = folder()
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        work = Path(tempfile.mkdtemp(prefix=".new.", dir=home))
    except OSError:
        return
    try:
        (work / _OBJECTS).write_bytes(data)
        compiled.weights.tofile(work / _WEIGHTS)
        (work / _INDEX).write_text(json.dumps(index), encoding="utf-8")
        os.rename(work, home / entry)
    except OSError:
        shutil.rmtree(work, ignore_errors=True)
    _trim(home)


def entries() -> list[tuple[Path, int]]:
    """Entries with their sizes in bytes, the most recently used first."""
    home = folder()
    found = [p for p in home.iterdir() if p.is_dir()] if home.is_dir() else []
    found.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    return [(p, sum(f.stat().st_size for f in p.iterdir())) for p in found]


def clear() -> int:
    """Removes all entries; returns the bytes that were freed."""
    known = entries()
    for place, _ in known:
        shutil.rmtree(place, ignore_errors=True)
    return sum(size for _, size in known)


def _trim(home: Path) -> None:
    limit = knobs.CACHE_LIMIT.number << 20
    total = 0
    for place, size in entries():
        total += size
        if total > limit:
            shutil.rmtree(place, ignore_errors=True)
