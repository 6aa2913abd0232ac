"""The catalogue of Forge's exceptions.

Every message reads ``where: what; got ...; expected ...; next step``. Each class also derives from the built-in
exception a Python user would catch for that mistake. What the runtime raises is in the catalogue too: ``ForgeError`` is the
base of all.
"""

from __future__ import annotations

from forge_runtime.errors import (
    ArtifactError,
    CpuFeatureError,
    ExecutionError,
    ForgeError,
    ForgeRuntimeError,
    InputError,
    InternalError,
    OutOfMemoryError,
    PasswordError,
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


class OpAttributeInvalid(ForgeError, ValueError):
    """An operator of a model carries an attribute value that its specification forbids."""


class OpAttributeUnimplemented(OpNotImplemented):
    """An operator of a model carries a valid attribute value that Forge does not support."""


class OptionError(ForgeError, ValueError, TypeError):
    """An argument of ``compile`` or of the command line, or a setting, has a wrong type or value."""


class TargetError(ForgeError, ValueError):
    """A target description cannot be understood or is not supported."""


class CompileError(ForgeError, RuntimeError):
    """Lowering or code generation failed; the message names the stage and the operator."""


class OutputExistsError(ForgeError, ValueError, FileExistsError):
    """The output path exists and ``force_overwrite`` is off."""


class ToolchainError(CompileError):
    """No usable C compiler, or it failed."""


TVMError = ForgeError
"""The name that users of seed systems catch."""

__all__ = [
    "ArtifactError", "CompileError", "CpuFeatureError", "ExecutionError", "ForgeError", "ForgeRuntimeError", "ImportModelError",
    "InputError", "InternalError", "InvalidGraphError", "OpAttributeInvalid", "OpAttributeUnimplemented", "OpNotImplemented",
    "OptionError", "OutOfMemoryError", "OutputExistsError", "ParseError", "PasswordError", "TVMError", "TargetError",
    "ToolchainError", "TypeInferenceError",
]
