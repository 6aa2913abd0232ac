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
from forge.frontends.stablehlo.exported import read_exported
from forge.frontends.stablehlo.module import StablehloModule
from forge.frontends.stablehlo.text import read_text

BYTECODE = b"ML\xefR"
_OTHERWISE = "expected a file of text or bytecode of StableHLO (.mlir, .mlirbc)"


@dataclass(frozen=True)
class Source:
    """A module, and what it is called.

    Attributes:
        where: what it is called in messages.
        paths: where the inputs of its main function are in the arguments (``args[0]['w']``); empty where nothing says it.
        platforms: for which jax exported it; a module for several is told which one it runs on.
    """

    module: StablehloModule
    where: str
    paths: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()


def read(source: Any) -> Source:
    """The module that ``source`` has.

    Raises:
        OptionError: it is of another kind; ImportModelError: it cannot be read.
    """
    if isinstance(source, StablehloModule):
        return Source(source, "StableHLO module")
    if isinstance(source, bytes | bytearray | memoryview):
        return _of_bytes(bytes(source), f"{len(source)} bytes")
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return Source(read_text(source, "text"), "StableHLO module")
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.is_file():
            raise ImportModelError(f"{path}: no such file; {_OTHERWISE}")
        return _of_bytes(bytes(mapped_file(path, "module", sys.maxsize, _OTHERWISE)), str(path))
    return _of_object(source)


def _of_bytes(data: bytes, where: str) -> Source:
    if data.startswith(BYTECODE):
        return Source(read_bytecode(data, where), where)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        exported = read_exported(data, where)
        return Source(exported.module, where, tuple(exported.inputs[k].name for k in exported.kept), exported.platforms)
    return Source(read_text(text, where), where)


def _of_object(source: Any) -> Source:
    """Of an object of jax."""
    if hasattr(source, "mlir_module_serialized"):
        module = read_bytecode(source.mlir_module_serialized, "exported function")
        return Source(module, f"jax function {source.fun_name!r}", _paths_of(source), tuple(source.platforms))
    if callable(getattr(source, "compiler_ir", None)):
        source = source.compiler_ir("stablehlo")
    operation = getattr(source, "operation", None)
    if operation is None or not callable(getattr(operation, "get_asm", None)):
        got = type(source).__name__
        way = "a function of jax becomes a model by forge.from_jax(function, *examples)"
        otherwise = way if callable(source) else "export it again"
        raise OptionError(
            f"from_stablehlo: got {got}; expected a path, text, bytes, a jax.export.Exported, what jax.jit(f).lower(...) gives, "
            f"or a module of jaxlib; {otherwise}")
    return Source(read_text(operation.get_asm(enable_debug_info=True), "jaxlib's module"), "jaxlib's module")


def _paths_of(exported: Any) -> tuple[str, ...]:
    """Where the inputs of a ``jax.export.Exported`` are in its arguments."""
    from jax import tree_util

    args, kwargs = exported.in_tree.unflatten(range(exported.in_tree.num_leaves))
    paths = [f"args{tree_util.keystr(path)}" for path, _ in tree_util.tree_flatten_with_path(args)[0]]
    paths += [tree_util.keystr(path) for path, _ in tree_util.tree_flatten_with_path(kwargs)[0]]
    return tuple(paths[k] for k in exported.module_kept_var_idx)
