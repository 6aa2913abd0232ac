"""The exceptions, by onnxruntime's names. Each is the error of Forge that says the same, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NoReturn

from forge.errors import (
    CompileError,
    ExecutionError,
    ForgeError,
    ImportModelError,
    InputError,
    InvalidGraphError,
    OpNotImplemented,
    OptionError,
    OutOfMemoryError,
)


class Status(ForgeError):
    """Base class of what a session raises; the text begins as onnxruntime's does, and goes on as Forge's."""

    code = 0
    status = "OK"

    def __str__(self) -> str:
        return f"[ONNXRuntimeError] : {self.code} : {self.status} : {self.args[0] if self.args else ''}"


class Fail(Status):
    """What has no name of its own."""

    code, status = 1, "FAIL"


class InvalidArgument(Status, InputError):
    """Inputs or names of a call that do not fit the model."""

    code, status = 2, "INVALID_ARGUMENT"


class NoSuchFile(Status, ImportModelError, FileNotFoundError):
    """The path of the model leads nowhere."""

    code, status = 3, "NO_SUCHFILE"


class NoModel(Status):
    """Never raised: the name is there for programs that import it."""

    code, status = 4, "NO_MODEL"


class EngineError(Status):
    """Never raised: the name is there for programs that import it."""

    code, status = 5, "ENGINE_ERROR"


class RuntimeException(Status, ExecutionError):
    """A call failed: an operator met a value that it cannot handle, memory is short, or a binding does not fit."""

    code, status = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(Status, ImportModelError):
    """The file or the bytes are not an ONNX model."""

    code, status = 7, "INVALID_PROTOBUF"


class ModelLoaded(Status):
    """Never raised: the name is there for programs that import it."""

    code, status = 8, "MODEL_LOADED"


class NotImplemented(Status, OpNotImplemented):  # noqa: A001
    """The model uses operators that Forge has no converter for, or no native code."""

    code, status = 9, "NOT_IMPLEMENTED"


class InvalidGraph(Status, ImportModelError):
    """The model breaks a rule of ONNX."""

    code, status = 10, "INVALID_GRAPH"


class EPFail(Status, OptionError, RuntimeError):
    """None of the execution providers that were asked for is there."""

    code, status = 11, "EP_FAIL"


class Refusing:
    """Has names of onnxruntime that mean nothing here; asking for one says what to do instead."""

    REFUSED: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> NoReturn:
        known = type(self).__name__
        if name in self.REFUSED:
            raise AttributeError(f"{known}.{name}: is not supported; {self.REFUSED[name]}")
        raise AttributeError(f"{known!r} object has no attribute {name!r}")


_NAMES: tuple[tuple[type[ForgeError], type[Status]], ...] = (
    (InputError, InvalidArgument),
    (OutOfMemoryError, RuntimeException),
    (ExecutionError, RuntimeException),
    (OpNotImplemented, NotImplemented),
    (CompileError, NotImplemented),
    (ImportModelError, InvalidGraph),
    (InvalidGraphError, InvalidGraph),
    (ForgeError, Fail),
)
"""The first that an error of Forge belongs to is raised in its place."""


def raise_named(error: ForgeError) -> NoReturn:
    """Raises ``error`` as onnxruntime names it. Bad options stay what they are."""
    if isinstance(error, Status | OptionError):
        raise error
    raise next(name for kind, name in _NAMES if isinstance(error, kind))(str(error)) from error
