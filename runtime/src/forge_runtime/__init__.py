"""Loads and runs models that Forge compiled. Needs NumPy only; encrypted models also need ``cryptography``."""

from __future__ import annotations

from pathlib import Path

from forge_runtime._native import checksums, num_threads, routine_addresses, set_num_threads
from forge_runtime.artifact import read_metadata
from forge_runtime.collectives import Engine  # noqa: F401 - the module registers functions
from forge_runtime.debugging import debug_print, invoke_debug_func  # noqa: F401 - registers them
from forge_runtime.donation import Donated, donate
from forge_runtime.errors import (
    ArtifactError,
    CpuFeatureError,
    ExchangeError,
    ExecutionError,
    ForgeError,
    ForgeRuntimeError,
    FunctionError,
    InputError,
    InternalError,
    MemoryLimitError,
    OutOfMemoryError,
    PasswordError,
    TimeLimitError,
)
from forge_runtime.registry import get_registered_func, register_func, remove_registered_func
from forge_runtime.runtime import Runtime
from forge_runtime.session import Session
from forge_runtime.tensors import Tensor

__version__ = "0.7.0"

__all__ = [
    "ArtifactError",
    "CpuFeatureError",
    "Donated",
    "ExchangeError",
    "ExecutionError",
    "ForgeError",
    "ForgeRuntimeError",
    "FunctionError",
    "InputError",
    "InternalError",
    "MemoryLimitError",
    "OutOfMemoryError",
    "PasswordError",
    "Runtime",
    "Session",
    "Tensor",
    "TimeLimitError",
    "checksums",
    "donate",
    "get_registered_func",
    "include_directory",
    "num_threads",
    "read_metadata",
    "register_func",
    "remove_registered_func",
    "routine_addresses",
    "set_num_threads",
    "static_sources",
]


def include_directory() -> Path:
    """The folder of ``forge_runtime.h``."""
    return Path(__file__).parent / "csrc"


def static_sources() -> list[Path]:
    """The C files of the built-in host and ``forge_run``, to be linked into a model library (C11, ``-pthread``)."""
    names = ("runtime", "pool", "cpu", "host", "load", "control", "heap", "sequence", "object", "strings", "regex",
             "numbers", "lookup", "fft", "call", "limits", "types", "bind", "session", "registry")
    return [include_directory() / f"forge_{name}.c" for name in names]
