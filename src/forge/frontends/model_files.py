"""Files of models, which may be hostile: what is not a model is named, and nothing outside of the model's folder is read."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from forge.errors import ImportModelError

HEAD_BYTES = 4096
"""Of a file, enough to see what it is."""
_DIRECTORY_BYTES = 1 << 20
"""The end of a zip archive, in which its directory lies; large ones are cut, which the names below survive."""

_EXPORT = "export the model to ONNX"
_TRACE = "load it with torch.jit.load and give forge.from_torch the module"
_CHECKPOINT = (
    "it has weights without a program: build the module in Python, load them there, and give forge.from_torch the module, or "
    "save it with torch.export.save(torch.export.export(module, args), 'model.pt2')")
_ARCHIVES: tuple[tuple[tuple[bytes, ...], str, str], ...] = (
    # names of entries that are all there, what the archive is, what to do
    ((b"constants.pkl", b"/code/"), "a TorchScript archive", _TRACE),
    ((b"data.pkl",), "a PyTorch checkpoint", _CHECKPOINT),
    ((b".mlmodel",), "a Core ML package", _EXPORT),
    ((b".npy",), "arrays of numpy.savez", "pass the model, and arrays as its inputs"),
    ((), "a zip archive", _EXPORT),
)
_KINDS: tuple[tuple[int, bytes, str, str], ...] = (
    # offset, magic, what it is, what to do
    (4, b"ORTM", "a model in onnxruntime's ORT format", "load the .onnx file that it was made from"),
    (0, b"GGUF", "a GGUF file (a model of llama.cpp), which Forge does not read", f"{_EXPORT} from where it came"),
    (0, b"\x7fELF", "a native library", "use forge.Runtime for a compiled model"),
    (0, b"\x80\x02", "a Python pickle, which Forge never loads", _CHECKPOINT),
    (0, b"version https://git-lfs", "a Git LFS pointer, not the file itself", "run 'git lfs pull'"),
    (0, b"<?xml", "an XML file (an OpenVINO model?)", "load the .onnx file that it was made from"),
    (0, b"<", "a text file (HTML or XML)", "download the model itself"),
)
_SUFFIXES: dict[str, tuple[str, str]] = {
    ".safetensors": ("weights", _CHECKPOINT),
    ".pdmodel": ("a PaddlePaddle model", f"{_EXPORT}, as paddle2onnx does"),
    ".mlmodel": ("a Core ML model", _EXPORT),
}
_FOLDERS: dict[str, tuple[str, str]] = {
    "config.json": ("weights without a program, as transformers saves them", _CHECKPOINT),
}


def kind_of(data: bytes | memoryview) -> tuple[str, str] | None:
    """What contents are that no importer reads, and what to do with them."""
    directory = directory_of(data)
    if directory:
        return next(rest for entries, *rest in _ARCHIVES if all(entry in directory for entry in entries))  # type: ignore[return-value]
    return next(((kind, advice) for at, magic, kind, advice in _KINDS if data[at : at + len(magic)] == magic), None)


def kind_of_path(path: Path) -> tuple[str, str] | None:
    """What a file or folder is that no importer reads, by names alone, and what to do with it."""
    if path.is_dir():
        return next((kind for name, kind in _FOLDERS.items() if (path / name).is_file()), None)
    return _SUFFIXES.get(path.suffix)


def directory_of(data: bytes | memoryview) -> bytes:
    """The end of a zip archive, with its directory; b"" for other contents."""
    return bytes(data[-_DIRECTORY_BYTES:]) if data[:4] == b"PK\x03\x04" else b""


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
