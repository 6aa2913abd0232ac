"""Saves modules to one file: a zip of the text, the weights (safetensors) and a description with a format version.

The zip's members are stored, not compressed, so their sizes are bounded by the file's.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from forge import dtypes
from forge.errors import ImportModelError
from forge.ir.nodes import Module
from forge.ir.parser import parse_module
from forge.ir.printer import print_with_constants
from forge.ir.verifier import verify

FORMAT_VERSION = 1
_MEMBERS = ("forge.json", "module.relay", "weights.safetensors")


def save(module: Module, path: str | PathLike[str]) -> None:
    """Writes ``module`` to ``path``; the file appears whole or not at all.

    Raises:
        OSError: the folder is missing or not writable.
    """
    printed = print_with_constants(module, names=True)
    arrays = {f"constant.{k}": a for k, a in enumerate(printed.constants)}
    arrays |= {f"param.{name}": a for name, a in module.params.items()}
    raw, types = _to_raw(arrays)
    description = {
        "format_version": FORMAT_VERSION,
        "constants": len(printed.constants),
        "outputs": [v.name for v in module.main.outputs],
        "types": types,
    }
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("forge.json", json.dumps(description))
            archive.writestr("module.relay", printed.text)
            archive.writestr("weights.safetensors", save_tensors(raw))
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | PathLike[str]) -> Module:
    """Reads a module that ``save`` wrote, and verifies it.

    Raises:
        ImportModelError: the file is missing, damaged, or of a newer format.
    """
    where = str(path)
    try:
        description, text, raw = _read(Path(path))
    except FileNotFoundError as error:
        raise ImportModelError(f"{where}: no such file") from error
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, SafetensorError, RecursionError) as error:
        raise ImportModelError(f"{where}: damaged or no Forge module ({error}); expected a file written by IRModule.save") from error
    arrays = _from_raw(where, raw, description)
    constants = [arrays[f"constant.{k}"] for k in range(description["constants"])]
    module = parse_module(text, constants)
    module.params = {n.removeprefix("param."): a for n, a in arrays.items() if n.startswith("param.")}
    for value, name in zip(module.main.outputs, description["outputs"]):
        value.name = value.name or name
    verify(module)
    return module


def _read(path: Path) -> tuple[dict[str, Any], str, dict[str, np.ndarray]]:
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        for member in _MEMBERS:
            info = archive.getinfo(member)
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > size:
                raise ValueError(f"member {member} is compressed or larger than the file")
        description = json.loads(archive.read("forge.json"))
        version = description.get("format_version") if isinstance(description, dict) else None
        if not isinstance(version, int) or version > FORMAT_VERSION:
            raise ImportModelError(f"{path}: format version {version}; this Forge reads up to {FORMAT_VERSION}; update Forge")
        text = archive.read("module.relay").decode("utf-8")
        return description, text, load_tensors(archive.read("weights.safetensors"))


def _to_raw(arrays: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays that safetensors cannot hold become bytes; strings become JSON bytes."""
    raw: dict[str, np.ndarray] = {}
    types: dict[str, Any] = {}
    for name, array in arrays.items():
        dtype = dtypes.canonical(array.dtype)
        types[name] = [dtype, list(array.shape)]
        if dtype == "string":
            text = json.dumps([str(s) for s in array.ravel()])
            raw[name] = np.frombuffer(text.encode(), np.uint8)
        else:
            raw[name] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    return raw, types


def _from_raw(where: str, raw: dict[str, np.ndarray], description: dict[str, Any]) -> dict[str, np.ndarray]:
    try:
        return {name: _restore(raw[name], *entry) for name, entry in description["types"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ImportModelError(f"{where}: weights do not fit their description ({error})") from error


def _restore(data: np.ndarray, dtype: str, shape: list[int]) -> np.ndarray:
    if dtype == "string":
        return np.array(json.loads(data.tobytes()), dtype=object).reshape(shape)
    if dtype not in dtypes.NAMES or any(d < 0 for d in shape):
        raise ValueError(f"type {dtype} {shape}")
    return data.view(dtypes.numpy_dtype(dtype)).reshape(shape)
