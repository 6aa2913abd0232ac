"""Files that ``torch.export.save`` writes (``.pt2``): a zip archive of JSON and raw arrays, which are views of the mapped file.

Nothing in a file is trusted: sizes are compared with it before anything is made of them. What is pickled (example inputs, objects
of custom classes) is never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from forge import dtypes
from forge.errors import ImportModelError
from forge.frontends.formats import refuse_other_formats
from forge.frontends.model_files import mapped_file
from forge.frontends.records import Record, parse
from forge.frontends.stored_archive import MAGIC, StoredArchive
from forge.frontends.torch import schema
from forge.frontends.torch.program import Program

MAX_FILE_BYTES = 1 << 44
MAX_JSON_BYTES = 1 << 29
MAX_REPEATED_BYTES = 1 << 28
"""Bytes of all weights in whose place fewer bytes stand, because strides repeat them."""

_SAVE = "save it with torch.export.save of a current torch"
_PICKLED = "is of an earlier version of torch, with pickled weights, which Forge never loads"


def read_program(path: Path) -> Program:
    """The program in a file; its weights are views of it.

    Raises:
        ImportModelError: it cannot be read, is damaged, or holds no program.
    """
    data = mapped_file(path, ".pt2", MAX_FILE_BYTES, "expected a program of torch.export.save")
    if data[:4] != MAGIC:
        refuse_other_formats(data, path.name, "a .pt2 archive", "torch")
        raise ImportModelError(f"{path.name}: got {len(data)} bytes that are not a zip archive; expected a .pt2 file; {_SAVE}")
    return _Archive(path.name, data).program()


class _Archive(StoredArchive):
    def __init__(self, where: str, data: bytes | memoryview) -> None:
        super().__init__(where, data, _SAVE)
        self.repeated = 0

    def program(self) -> Program:
        name = self._model_name()
        if f"data/weights/{name}.pt" in self.entries:
            self.fail(f"{_PICKLED}; {_SAVE}")
        payloads: dict[str, tuple[str, Record]] = {}
        for folder, kind in (("data/weights", "weights"), ("data/constants", "constants")):
            config = self._json(f"{folder}/{name}_{kind}_config.json")
            for label, payload in config["config"].pairs():
                if label in payloads:
                    raise payload.wrong("each weight once")
                payloads[label] = folder, payload
        return schema.read(self._json(f"models/{name}.json"), self.where, lambda label: self._array(label, payloads))

    def _model_name(self) -> str:
        """The name of the one program in the archive."""
        names = sorted(n[len("models/") : -len(".json")] for n in self.entries if n.startswith("models/") and n.endswith(".json"))
        if len(names) == 1:
            self._check_header()
            return names[0]
        if names:
            self.fail(f"holds {len(names)} programs ({', '.join(names)[:200]}); expected one; save each in a file of its own")
        if "serialized_exported_program.json" in self.entries:
            self.fail(f"{_PICKLED}; {_SAVE}")
        if any(n.startswith("data/aotinductor/") for n in self.entries):
            self.fail(f"holds code that AOTInductor compiled; expected a program; {_SAVE}")
        refuse_other_formats(self.data, self.where, "a .pt2 archive", "torch")
        self.fail(f"holds no program (models/NAME.json); {_SAVE}")

    def _check_header(self) -> None:
        kind = self.contents("archive_format", 16) if "archive_format" in self.entries else b""
        if kind != b"pt2":
            self.fail(f"archive_format: got {kind[:16]!r}; expected b'pt2'; {_SAVE}")
        order = self.contents("byteorder", 16) if "byteorder" in self.entries else b"little"
        if order != b"little":
            self.fail(f"byteorder: got {order[:16]!r}; expected b'little'; save it on a little-endian machine")

    def _json(self, name: str) -> Record:
        return parse(self.contents(name, MAX_JSON_BYTES), f"{self.where}: {name}")

    def _array(self, label: str, payloads: Mapping[str, tuple[str, Record]]) -> np.ndarray:
        """The weight called ``label``, as a view of the file."""
        if label not in payloads:
            self.fail(f"weight {label[:200]!r}: the archive has no data of it; {_SAVE}")
        folder, payload = payloads[label]
        if payload["use_pickle"].flag():
            self.fail(
                f"weight {label!r} is pickled (an object, or a subclass of tensors), and Forge loads no pickles; expected plain "
                "tensors; save exported.run_decompositions({}), which has them in the place of quantized weights"
            )
        meta = schema.array_meta(payload["tensor_meta"])
        dtype = dtypes.numpy_dtype(meta.dtype)
        view = self.view(f"{folder}/{payload['path_name'].text()}")
        if 0 in meta.shape:
            return np.empty(meta.shape, dtype)
        last = meta.offset + sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides))
        if (last + 1) * dtype.itemsize > len(view):
            self.fail(
                f"weight {label!r}: got {len(view)} bytes; {meta.dtype}{list(meta.shape)} of strides {list(meta.strides)} needs "
                f"{(last + 1) * dtype.itemsize}; the file is damaged, or was saved without data"
            )
        self._count_repeated(label, meta.elements * dtype.itemsize, len(view))
        strides = [stride * dtype.itemsize for stride in meta.strides]
        try:
            array: np.ndarray = np.ndarray(meta.shape, dtype, view, meta.offset * dtype.itemsize, strides)
        except ValueError as error:
            self.fail(f"weight {label!r}: {meta.dtype}{list(meta.shape)} is not an array: {error}; the file is damaged")
        if meta.dtype == "bool" and array.view(np.uint8).max() > 1:
            self.fail(f"weight {label!r}: got bytes other than 0 and 1 in a tensor of type bool; the file is damaged")
        return array

    def _count_repeated(self, label: str, needed: int, present: int) -> None:
        self.repeated += needed if needed > present else 0
        if self.repeated > MAX_REPEATED_BYTES:
            self.fail(
                f"weight {label!r}: {needed} bytes stand for {present} in the file, and with the weights before it for more than "
                f"{MAX_REPEATED_BYTES}; expected weights that strides do not repeat"
            )
