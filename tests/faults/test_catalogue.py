"""The catalogue of exceptions: one base for all, and the built-in class that a Python user would catch."""

from __future__ import annotations

import inspect

import pytest

import forge
import forge_runtime.errors
from forge import errors

CLASSES = [value for _, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, Exception)]


def test_all_derive_from_one_base_and_are_exported() -> None:
    assert forge.ForgeError is errors.ForgeError is errors.TVMError is forge_runtime.ForgeError
    for cls in CLASSES:
        assert issubclass(cls, errors.ForgeError)
        assert cls.__name__ in errors.__all__
        assert cls.__doc__


def test_the_runtime_s_exceptions_are_among_them() -> None:
    runtime = [v for _, v in inspect.getmembers(forge_runtime.errors, inspect.isclass) if issubclass(v, Exception)]
    assert set(runtime) <= set(CLASSES)


@pytest.mark.parametrize(("name", "builtin"), [
    ("InvalidGraphError", ValueError), ("TypeInferenceError", TypeError), ("ParseError", ValueError),
    ("ImportModelError", ValueError), ("OpNotImplemented", NotImplementedError), ("OpAttributeInvalid", ValueError),
    ("ConverterError", RuntimeError),
    ("OptionError", ValueError), ("OptionError", TypeError), ("TargetError", ValueError), ("CompileError", RuntimeError),
    ("OutputExistsError", ValueError), ("OutputExistsError", FileExistsError), ("ToolchainError", RuntimeError),
    ("InputError", ValueError), ("ArtifactError", ValueError), ("PasswordError", ValueError), ("ExecutionError", RuntimeError),
    ("OutOfMemoryError", MemoryError), ("FunctionError", RuntimeError),
])
def test_the_class_that_a_python_user_would_catch(name: str, builtin: type[Exception]) -> None:
    assert issubclass(getattr(errors, name), builtin)
