"""Reads a module of StableHLO from what users have: files, text, bytes, objects of jax."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge.errors import ImportModelError, OptionError
from forge.frontends.model_files import mapped_file
from forge.frontends.stablehlo.bytecode import read_bytecode
from forge.frontends.stablehlo.module import StablehloModule
from forge.frontends.stablehlo.text import read_text

BYTECODE = b"ML\xefR"
_OTHERWISE = "expected a file of text or bytecode of StableHLO (.mlir, .mlirbc)"


@dataclass(frozen=True)
class Source:
    """A module, and what it is called.

    Attributes:
        where: for messages.
        names: of the inputs of its main function; empty where only the module says them.
    """

    module: StablehloModule
    where: str
    names: tuple[str, ...] = ()


def read(source: Any) -> Source:
    """The module that ``source`` has.

    Raises:
        OptionError: it is of another kind; ImportModelError: it cannot be read.
    """
    if isinstance(source, StablehloModule):
        return Source(source, "StableHLO module")
    if isinstance(source, bytes | bytearray | memoryview):
        return Source(_of_bytes(bytes(source), f"{len(source)} bytes"), "StableHLO module")
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return Source(read_text(source, "text"), "StableHLO module")
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.is_file():
            raise ImportModelError(f"{path}: no such file; {_OTHERWISE}")
        data = mapped_file(path, "module", sys.maxsize, _OTHERWISE)
        return Source(_of_bytes(bytes(data), str(path)), str(path))
    return _of_object(source)


def _of_bytes(data: bytes, where: str) -> StablehloModule:
    if data.startswith(BYTECODE):
        return read_bytecode(data, where)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ImportModelError(f"{where}: got bytes that are no text ({error}); {_OTHERWISE}") from None
    return read_text(text, where)


def _of_object(source: Any) -> Source:
    """Of an object of jax."""
    if hasattr(source, "mlir_module_serialized"):
        return Source(read_bytecode(source.mlir_module_serialized, "exported function"), f"jax function {source.fun_name!r}")
    if callable(getattr(source, "compiler_ir", None)):
        source = source.compiler_ir("stablehlo")
    operation = getattr(source, "operation", None)
    if operation is None or not callable(getattr(operation, "get_asm", None)):
        got = type(source).__name__
        raise OptionError(f"from_stablehlo: got {got}; expected a path, text, bytes, a jax.export.Exported or a module of jaxlib")
    return Source(read_text(operation.get_asm(enable_debug_info=True), "jaxlib's module"), "jaxlib's module")
