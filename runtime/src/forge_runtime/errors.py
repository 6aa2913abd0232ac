"""The exceptions of the runtime. Every message reads ``where: what; got ...; expected ...; next step``."""

from __future__ import annotations


class ForgeError(Exception):
    """Base class of every error that Forge raises on purpose, compiler and runtime alike."""


class ForgeRuntimeError(ForgeError):
    """Base class of every error that the runtime raises on purpose."""


class InputError(ForgeRuntimeError, ValueError):
    """Inputs or given outputs have the wrong number, name, dtype, rank or shape; or a limit is not a positive number."""


class ExchangeError(ForgeRuntimeError, BufferError):
    """A tensor cannot be handed to another library in the way that it asks for."""


class ArtifactError(ForgeRuntimeError, ValueError):
    """A compiled model cannot be loaded: missing, damaged, foreign, of a newer format or for another architecture."""


class PasswordError(ArtifactError):
    """An encrypted model was opened without its key file or password, or with wrong ones."""


class CpuFeatureError(ArtifactError):
    """The model was compiled for instructions that this CPU lacks."""


class ExecutionError(ForgeRuntimeError, RuntimeError):
    """An operator met a value that it cannot handle, such as an index out of range."""


class OutOfMemoryError(ForgeRuntimeError, MemoryError):
    """The memory for a call could not be allocated."""


class MemoryLimitError(OutOfMemoryError):
    """A call needs more memory than its ``memory_limit`` allows."""


class TimeLimitError(ForgeRuntimeError, TimeoutError):
    """A call takes longer than its ``time_limit`` allows."""


class FunctionError(ForgeRuntimeError, RuntimeError):
    """A function that models call by name is missing, is registered twice, or returned something else than the model expects."""


class InternalError(ForgeRuntimeError, RuntimeError):
    """The compiled code or the runtime broke its own rules: a defect of Forge."""
