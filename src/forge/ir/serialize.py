"""Saves modules to one file: a zip of the text, the weights (safetensors) and a description with a format version.

The zip's members are stored, not compressed, so their sizes are bounded by the file's. Equal modules give equal files.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from forge import dtypes, files
from forge.errors import ForgeError, ImportModelError
from forge.ir.arrays import from_bytes, to_bytes
from forge.ir.nodes import Module
from forge.ir.parser import parse_module
from forge.ir.printer import print_with_constants
from forge.ir.verifier import verify

FORMAT_VERSION = 1
_MEMBERS = ("forge.json", "module.relay", "weights.safetensors")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say

# What reading a damaged zip, JSON or safetensors may raise; RuntimeError: encrypted or compressed in unknown ways.
_DAMAGES = (
    OSError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, SafetensorError, LookupError, TypeError, ValueError,
    AttributeError, ArithmeticError, RuntimeError, MemoryError,
)  # fmt: skip


def save(module: Module, path: str | PathLike[str]) -> None:
    """Writes ``module`` to ``path``; the file appears whole or not at all.

    Raises:
        OSError: the folder is missing or not writable.
    """
    members: dict[str, str | bytes] = dict(zip(_MEMBERS, _encode(module)))
    with files.replacing(Path(path)) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)


def load(path: str | PathLike[str]) -> Module:
    """Reads a module that ``save`` wrote, and verifies it.

    Raises:
        ImportModelError: the file is missing, damaged, or of a newer format.
    """
    where = str(path)
    try:
        module = _decode(*_read(Path(path)))
        verify(module)
        return module
    except ImportModelError as error:
        raise ImportModelError(f"{where}: {error}") from error
    except FileNotFoundError as error:
        raise ImportModelError(f"{where}: no such file") from error
    except (ForgeError, *_DAMAGES) as error:
        problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ImportModelError(f"{where}: damaged, or no Forge module ({problem}); expected a file of IRModule.save") from error


def _encode(module: Module) -> tuple[str, str, bytes]:
    """Contents of the members."""
    printed = print_with_constants(module, names=True)
    arrays = {f"constant.{k}": a for k, a in enumerate(printed.constants)}
    arrays |= {f"param.{k}": a for k, a in enumerate(module.params.values())}
    description = {
        "format_version": FORMAT_VERSION,
        "constants": [_type(a) for a in printed.constants],
        "params": [[name, *_type(a)] for name, a in module.params.items()],
        "outputs": [v.name for v in module.main.outputs],
    }
    weights = save_tensors({name: np.frombuffer(to_bytes(a), np.uint8) for name, a in arrays.items()})
    return json.dumps(description), printed.text, weights


def _decode(description: dict[str, Any], text: str, weights: dict[str, np.ndarray]) -> Module:
    constants = [_restore(weights[f"constant.{k}"], *type_) for k, type_ in enumerate(description["constants"])]
    module = parse_module(text, constants)
    for k, (name, *type_) in enumerate(description["params"]):
        module.params[str(name)] = _restore(weights[f"param.{k}"], *type_)
    for value, name in zip(module.main.outputs, description["outputs"]):
        value.name = value.name or str(name)
    return module


def _read(path: Path) -> tuple[dict[str, Any], str, dict[str, np.ndarray]]:
    if path.exists() and not path.is_file():
        raise ImportModelError("is no file")
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for member in _MEMBERS:
            info = archive.getinfo(member)
            if names.count(member) > 1:
                raise ValueError(f"member {member} occurs twice")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > size:
                raise ValueError(f"member {member} is compressed or larger than the file")
        description = json.loads(archive.read("forge.json"))
        _check_version(description)
        text = archive.read("module.relay").decode("utf-8")
        return description, text, load_tensors(archive.read("weights.safetensors"))


def _check_version(description: Any) -> None:
    version = description.get("format_version") if isinstance(description, dict) else None
    if type(version) is not int or version < 1:
        raise ValueError(f"format version {version!r}")
    if version > FORMAT_VERSION:
        raise ImportModelError(f"is of format version {version}; this Forge reads up to {FORMAT_VERSION}; update Forge")


def _type(array: np.ndarray) -> list[Any]:
    return [dtypes.canonical(array.dtype), list(array.shape)]


def _restore(data: np.ndarray, dtype: Any, shape: Any) -> np.ndarray:
    return from_bytes(data.data, dtype, shape)
