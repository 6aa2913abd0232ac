"""The catalogue of Forge's exceptions.

Every message reads ``where: what; got ...; expected ...; next step``. Each class also derives from the built-in
exception a Python user would catch for that mistake. What the runtime raises is in the catalogue too: ``ForgeError`` is the
base of all.

A message spells an option as the interface in use does: ``option("set_float16")`` is ``set_float16`` in Python and ``--float16``
on the command line, which declares its spelling with `spelled`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

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


class InvalidGraphError(ForgeError, ValueError):
    """A graph breaks a rule of the IR (verifier, edits, builder)."""


class TypeInferenceError(InvalidGraphError, TypeError):
    """An operator was given operands or attributes it does not accept."""


class ParseError(ForgeError, ValueError):
    """Text of the IR could not be parsed; the message carries line, column and a caret."""


class ImportModelError(ForgeError, ValueError):
    """A model file or object could not be read."""


class OpNotImplemented(ForgeError, NotImplementedError):
    """A model uses operators without a converter; the message lists all of them."""


class ConverterError(ForgeError, RuntimeError):
    """A converter that a user registered failed; what it raised is the cause."""


class OpAttributeInvalid(ForgeError, ValueError):
    """An operator of a model carries an attribute value that its specification forbids."""


class OpAttributeUnimplemented(OpNotImplemented):
    """An operator of a model carries a valid attribute value that Forge does not support.

    Attributes:
        operator: its name, where the importer says it; else empty.
    """

    operator: str = ""


class GradientError(ForgeError, RuntimeError):
    """Gradients were asked of what compiled code has computed."""


class OptionError(ForgeError, ValueError, TypeError):
    """An argument of ``compile`` or of the command line, or a setting, has a wrong type or value."""


class TargetError(ForgeError, ValueError):
    """A target description cannot be understood or is not supported."""


class CompileError(ForgeError, RuntimeError):
    """Lowering or code generation failed; the message names the stage and the operator."""


class OutputExistsError(ForgeError, ValueError, FileExistsError):
    """The output path exists and ``force_overwrite`` is off."""


class OutputPathError(ForgeError, OSError):
    """A file cannot be written where it should be."""


class ToolchainError(CompileError):
    """No usable C compiler, or no interpreter for compile workers, or one of them failed."""


_spelling: ContextVar[Mapping[str, str]] = ContextVar("spelling", default=MappingProxyType({}))


def option(name: str) -> str:
    """How a message writes the option ``name`` of the Python interface, or an instruction with it (``force_overwrite=True``)."""
    names = _spelling.get()
    return names.get(name, names.get(name.partition("=")[0], name))


@contextmanager
def spelled(names: Mapping[str, str]) -> Iterator[None]:
    """Within the block, `option` writes options as ``names`` has them."""
    token = _spelling.set({**_spelling.get(), **names})
    try:
        yield
    finally:
        _spelling.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns of the line outside of Forge that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "forge":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


TVMError = ForgeError
"""The name that users of seed systems catch."""

__all__ = [
    "ArtifactError", "CompileError", "ConverterError", "CpuFeatureError", "ExchangeError", "ExecutionError", "ForgeError",
    "ForgeRuntimeError", "FunctionError", "GradientError", "ImportModelError", "InputError", "InternalError", "InvalidGraphError",
    "MemoryLimitError", "OpAttributeInvalid", "OpAttributeUnimplemented", "OpNotImplemented", "OptionError", "OutOfMemoryError",
    "OutputExistsError", "OutputPathError", "ParseError", "PasswordError", "TVMError", "TargetError", "TimeLimitError",
    "ToolchainError", "TypeInferenceError",
    "option", "spelled", "warn",
]
