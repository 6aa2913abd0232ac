"""Saves modules: in one file, or as text with the weights next to it.

One file (``.forge``) is a zip of the text, the weights (safetensors) and a description with a format version. Its members are
stored, not compressed, so their sizes are bounded by the file's. Text (``.relay``, ``.txt``) has its weights next to it, in
``PATH.safetensors``, with the same description; both are read together, also when the text was changed by hand since. Equal
modules give equal files.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from forge import dtypes, files
from forge.errors import ForgeError, ImportModelError, ParseError
from forge.ir.arrays import from_bytes, identity, taken_over, to_bytes
from forge.ir.graph import Module
from forge.ir.saved.statistics import Calibration, Statistics
from forge.ir.text.parser import MissingConstant, UnknownOperator, has_metadata, parse_module
from forge.ir.text.printer import print_with_constants
from forge.ir.verifier import verify

FORMAT_VERSION = 2
TEXT_SUFFIXES = (".relay", ".txt")
_MEMBERS = ("forge.json", "module.relay", "weights.safetensors")
_DESCRIPTION = "forge"  # the entry in the metadata of weights next to text
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say

# What reading a damaged zip, JSON or safetensors may raise; RuntimeError: encrypted or compressed in unknown ways.
_DAMAGES = (
    OSError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, SafetensorError, LookupError, TypeError, ValueError,
    AttributeError, ArithmeticError, RuntimeError, MemoryError,
)  # fmt: skip


def save(module: Module, path: str | PathLike[str]) -> None:
    """Writes ``module`` to ``path``; a file appears whole or not at all.

    Raises:
        OSError: the folder is missing or not writable.
    """
    target = Path(path)
    if target.suffix in TEXT_SUFFIXES:
        save_text(module, target)
        return
    with files.replacing(target) as stream:
        _write_archive(module, stream)


def save_text(module: Module, path: Path) -> None:
    """Writes the text with types and names to ``path``, and the weights next to it."""
    description, text, weights = _encode(module, types=True)
    header = {_DESCRIPTION: json.dumps(description)}
    with files.replacing(path) as text_file:
        with files.replacing(weights_path(path)) as weights_file:
            weights_file.write(save_tensors(weights, header))
        text_file.write(text.encode())


def weights_path(path: Path) -> Path:
    """Where the weights of the text in the file ``path`` lie."""
    return path.with_name(f"{path.name}.safetensors")


def dumps(module: Module) -> bytes:
    """What ``save`` would write to one file."""
    stream = io.BytesIO()
    _write_archive(module, stream)
    return stream.getvalue()


def loads(data: bytes) -> Module:
    """The module whose ``dumps`` is ``data``, verified.

    Raises:
        ImportModelError: as ``load``.
    """
    with _explained("a pickled module"):
        return _checked(_decode(*_read_archive(io.BytesIO(data), len(data))))


def load(path: str | PathLike[str]) -> Module:
    """Reads a module that ``save`` wrote, or text, and verifies it.

    Raises:
        ImportModelError: the file is missing, damaged, or of a newer format; text is without its weights; an operator is unknown.
    """
    source = Path(path)
    with _explained(str(path)):
        if source.is_dir():
            raise ImportModelError("is a folder; expected a file; forge.Runtime opens a compiled model")
        if source.exists() and not source.is_file():
            raise ImportModelError("is not a file")
        if source.suffix in TEXT_SUFFIXES:
            return _checked(_load_text(source))
        with source.open("rb") as stream:
            return _checked(_decode(*_read_archive(stream, source.stat().st_size)))


def _checked(module: Module) -> Module:
    verify(module)
    return module


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """Errors name what was read, and what to do."""
    try:
        yield
    except UnknownOperator as error:
        hint = "register operators of your own (forge.define_operator) before reading a module that uses them"
        raise ImportModelError(f"{where}: {error}; {hint}") from error
    except ImportModelError as error:
        raise ImportModelError(f"{where}: {error}") from error
    except FileNotFoundError as error:
        raise ImportModelError(f"{where}: no such file") from error
    except (ForgeError, *_DAMAGES) as error:
        problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ImportModelError(f"{where}: damaged, or no Forge module ({problem}); expected a file of IRModule.save") from error


def _load_text(path: Path) -> Module:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ImportModelError(f"not a text file ({error}); expected a module's text in UTF-8") from error
    beside = weights_path(path)
    is_whole = has_metadata(text) or not beside.is_file()
    try:
        return parse_module(text) if is_whole else _decode(*_read_weights(beside, text))
    except UnknownOperator:
        raise
    except MissingConstant as error:
        problem = "is not there" if is_whole else "has the weights of another text"
        hint = f"its weights are expected in {beside}, which {problem}; IRModule.save and 'forge export' write both"
        raise ImportModelError(f"{error}; {hint}") from error
    except ParseError as error:
        raise ImportModelError(str(error)) from error


def _read_weights(path: Path, text: str) -> tuple[dict[str, Any], str, dict[str, np.ndarray]]:
    """Raises ImportModelError where the weights next to ``text`` cannot be read."""
    try:
        data = path.read_bytes()
        weights = load_tensors(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        description = json.loads(header["__metadata__"][_DESCRIPTION])
    except _DAMAGES as error:
        problem = f"damaged, or no weights of Forge ({type(error).__name__}: {error})"
        raise ImportModelError(f"{path}, the weights next to it: {problem}; save the model again") from error
    _check_version(description)
    return description, text, weights


def _write_archive(module: Module, stream: IO[bytes]) -> None:
    description, text, weights = _encode(module)
    contents: list[str | bytes] = [json.dumps(description), text, save_tensors(weights)]
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in zip(_MEMBERS, contents, strict=True):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)


def _encode(module: Module, types: bool = False) -> tuple[dict[str, Any], str, dict[str, np.ndarray]]:
    """Description, text, and weights as bytes."""
    printed = print_with_constants(module, types, names=True)
    arrays = {f"constant.{k}": a for k, a in enumerate(printed.constants)}
    numbers: dict[Hashable, int] = {}
    for array in (a for graph in module.public.values() for a in graph.params.values()):
        arrays.setdefault(f"param.{numbers.setdefault(identity(array), len(numbers))}", array)
    description: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "constants": [_type(a) for a in printed.constants],
        "functions": {
            name: {
                "params": [[parameter, *_type(a), numbers[identity(a)]] for parameter, a in graph.params.items()],
                "outputs": [v.name for v in graph.outputs],
            }
            for name, graph in module.public.items()
        },
    }
    for digest, statistics in module.calibration.statistics.items():
        held = statistics.arrays()
        arrays |= {f"statistics.{digest}.{name}": array for name, array in held.items()}
        entry = statistics.numbers() | {"arrays": {name: _type(a) for name, a in held.items()}}
        description.setdefault("statistics", {})[digest] = entry
    return description, printed.text, {name: np.frombuffer(to_bytes(a), np.uint8) for name, a in arrays.items()}


def _decode(description: dict[str, Any], text: str, weights: dict[str, np.ndarray]) -> Module:
    constants = [_restore(weights[f"constant.{k}"], *type_) for k, type_ in enumerate(description["constants"])]
    module = parse_module(text, constants)
    restored: dict[int, np.ndarray] = {}
    for name, function in description.get("functions", {"main": description}).items():  # version 1 has the entries of main only
        graph = module.graphs[name]
        for position, (parameter, dtype, shape, *number) in enumerate(function["params"]):
            number = number[0] if number else position
            if number not in restored:
                restored[number] = taken_over(_restore(weights[f"param.{number}"], dtype, shape), f"params: {parameter!r}")
            graph.params[str(parameter)] = restored[number]
        for value, output in zip(graph.outputs, function["outputs"]):
            value.name = value.name or str(output)
    module.calibration = Calibration(_statistics(description, weights))
    return module


def _statistics(description: dict[str, Any], weights: dict[str, np.ndarray]) -> dict[str, Statistics]:
    found: dict[str, Statistics] = {}
    for digest, numbers in description.get("statistics", {}).items():
        arrays = {name: _restore(weights[f"statistics.{digest}.{name}"], *of) for name, of in numbers["arrays"].items()}
        found[str(digest)] = Statistics.of(numbers, arrays)
    return found


def _read_archive(stream: IO[bytes], size: int) -> tuple[dict[str, Any], str, dict[str, np.ndarray]]:
    with zipfile.ZipFile(stream) as archive:
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
