"""Files of models, which may be hostile: what is not a model is named, and nothing outside of the model's folder is read."""

from __future__ import annotations

import importlib
import mmap
import os
from pathlib import Path

from forge.errors import ImportModelError

_EXPORT = "export the model to ONNX"
_KERAS = f"{_EXPORT}: model.export('model.onnx', format='onnx')"
_TRACE = "load it with torch.jit.load and give forge.from_torch the module"
_CHECKPOINT = (
    "it has weights without a program: build the module in Python, load them there, and give forge.from_torch the module, or "
    "save it with torch.export.save(torch.export.export(module, args), 'model.pt2')")
_ARCHIVES: tuple[tuple[tuple[bytes, ...], tuple[str, tuple[str, ...], str]], ...] = (
    # names of entries that are all there, what the archive is, its loaders, what to do where there is none
    ((b"constants.pkl", b"/code/"), ("a TorchScript archive", (), _TRACE)),
    ((b"archive_format", b"models/"), ("a program of torch.export.save", ("from_torch",), _EXPORT)),
    ((b"metadata.json", b"model.weights.h5"), ("a Keras model", ("from_keras",), _KERAS)),
    ((b"data.pkl",), ("a PyTorch checkpoint", (), _CHECKPOINT)),
    ((b".npy",), ("arrays of numpy.savez", (), "pass the model, and arrays as its inputs")),
)
_DIRECTORY_BYTES = 1 << 20
"""The end of a zip archive, in which its directory lies; large ones are cut, which the names above survive."""
_KINDS: tuple[tuple[int, bytes, str, tuple[str, ...], str], ...] = (
    # offset, magic, what it is, its loaders, what to do where there is none
    (0, b"PK\x03\x04", "a zip archive", (), _EXPORT),
    (0, b"\x89HDF", "an HDF5 file (a Keras model?)", ("from_keras",), _KERAS),
    (4, b"TFL3", "a TFLite model", ("from_tflite",), f"{_EXPORT}, as tf2onnx does"),
    (0, b"GGUF", "a GGUF file (a model of llama.cpp), which Forge does not read", (), _EXPORT),
    (4, b"ORTM", "a model in onnxruntime's ORT format", (), "load the .onnx file that it was made of"),
    (0, b"\x7fELF", "a native library", (), "use forge.Runtime for a compiled model"),
    (0, b"\x80\x02", "a Python pickle, which Forge never loads", (), _EXPORT),
    (0, b"version https://git-lfs", "a Git LFS pointer, not the file itself", (), "run 'git lfs pull'"),
    (0, b"<", "a text file (HTML or XML)", (), "download the model itself"),
)


def mapped_file(path: Path, suffix: str, max_bytes: int, advice: str) -> bytes | memoryview:
    """The contents of a model file, memory-mapped.

    Raises:
        ImportModelError: it is not a plain file, cannot be read, or has more than ``max_bytes``; ``advice`` says what to do then.
    """
    try:
        if path.is_dir():
            raise ImportModelError(f"{path}: is a folder; expected an {suffix} file; pass the file inside it")
        if path.exists() and not path.is_file():
            raise ImportModelError(f"{path}: is a device or a pipe; expected an {suffix} file; copy it into a file first")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise ImportModelError(f"{path}: got {size} bytes; {advice}")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if size else b""
    except FileNotFoundError as error:
        raise ImportModelError(f"{path}: no such file; expected an {suffix} file; check the path") from error
    except OSError as error:
        raise ImportModelError(f"{path}: cannot be read: {error.strerror}; check its permissions") from error


def refuse_other_formats(data: bytes | memoryview, where: str, expected: str, loader: str) -> None:
    """Raises ImportModelError for data of a known kind that ``loader`` does not read; ``expected`` says what it reads."""
    for offset, magic, kind, loaders, otherwise in _KINDS:
        if data[offset : offset + len(magic)] == magic:
            if magic.startswith(b"PK"):
                kind, loaders, otherwise = _archive(data) or (kind, loaders, otherwise)
            if loader in loaders:
                return
            offered = [f"forge.{name}" for name in loaders if name in importlib.import_module("forge").__all__]
            advice = f"use {' or '.join(offered)}" if offered else otherwise
            raise ImportModelError(f"{where}: got {kind}; expected {expected}; {advice}")


def _archive(data: bytes | memoryview) -> tuple[str, tuple[str, ...], str] | None:
    """What a zip archive is, by the names of its entries."""
    directory = bytes(data[-_DIRECTORY_BYTES:])
    return next((rest for names, rest in _ARCHIVES if all(name in directory for name in names)), None)


def data_file(location: str, folders: tuple[Path, ...], where: str) -> Path:
    """A data file of a model: a plain file below one of the model's folders, symbolic links followed.

    Raises:
        ImportModelError: it is elsewhere, or missing.
    """
    if not folders:
        raise ImportModelError(
            f"{where}: data is in the external file {location!r}; got a model without a folder; load it by path"
        )
    relative = Path(location)
    if not location or relative.is_absolute() or ".." in relative.parts or "\0" in location or "\\" in location:
        raise ImportModelError(f"{where}: external data location {location!r}; expected a relative path without '..'")
    try:
        path = (folders[0] / relative).resolve()
        exists = path.is_file()
    except (OSError, RuntimeError, UnicodeError) as error:
        raise ImportModelError(f"{where}: external data location {location[:100]!r}: {error}; expected a name") from error
    if not any(path.is_relative_to(folder.resolve()) for folder in folders):
        raise ImportModelError(f"{where}: external data {location!r} leads to {path}; expected a file inside {folders[0]}")
    if not exists:
        raise ImportModelError(f"{where}: external data file {location!r} is missing in {folders[0]}; copy it next to the model")
    return path
