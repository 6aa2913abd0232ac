"""Reads a TFLite model from what users have: files, bytes, objects of the package ``tflite``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge.errors import OptionError
from forge.frontends.convert import located
from forge.frontends.model_files import mapped_file
from forge.frontends.tflite.model import TfliteModel, read_model

_OTHERWISE = "expected a TFLite model (.tflite)"


@dataclass(frozen=True)
class Source:
    """A model, and what it is called in messages."""

    model: TfliteModel
    where: str


def read(source: Any) -> Source:
    """The model that ``source`` has.

    Raises:
        OptionError: it is of another kind; ImportModelError: it cannot be read.
    """
    if isinstance(source, TfliteModel):
        return Source(source, "TFLite model")
    if isinstance(source, str | os.PathLike):
        data, where = mapped_file(Path(source), ".tflite", sys.maxsize, _OTHERWISE), str(source)
    elif isinstance(source, bytes | bytearray | memoryview):
        data, where = memoryview(source).cast("B"), f"{len(source)} bytes"
    else:
        data, where = _of_object(source), "TFLite model"
    with located(where):
        return Source(read_model(data), where)


def _of_object(source: Any) -> memoryview:
    """The bytes of a ``tflite.Model``, or ``tflite.Model.Model`` of older packages, which are those it was made of."""
    found = getattr(getattr(source, "_tab", None), "Bytes", None)
    if not isinstance(found, bytes | bytearray | memoryview):
        got = type(source).__name__
        raise OptionError(f"from_tflite: got {got}; expected a path, the bytes of a .tflite file, or a tflite.Model")
    return memoryview(found).cast("B")
