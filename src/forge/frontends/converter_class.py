"""Converters written as classes: one class method for each version of the operator.

    @register("Selu", domain="com.acme")
    class Selu(OpConverter):
        @classmethod
        def _impl_v1(cls, inputs, attr, params):
            ...
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from forge.compose.expr import Expr, unwrapped
from forge.frontends.class_helpers import CUSTOM
from forge.frontends.context import ImportContext
from forge.frontends.scope import Scope
from forge.nd import NDArray, viewed

_VERSION = re.compile(r"_impl_v([1-9][0-9]*)")


class Text(str):
    """A text attribute; ``decode`` is for converters that expect bytes."""

    __slots__ = ()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The text."""
        return str(self)


class Inputs(list[Any]):
    """The inputs of a node: expressions, and None for what is absent, after the last one too."""

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, int) and position >= len(self):
            return None
        return super().__getitem__(position)


class Weights(Mapping[str, NDArray]):
    """The model's initializers by name, read when they are asked for."""

    def __init__(self, scope: Scope[Any]) -> None:
        while scope.parent is not None:
            scope = scope.parent
        self._scope = scope

    def __getitem__(self, name: str) -> NDArray:
        array: NDArray = viewed(self._scope.weights[name]())
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._scope.weights)

    def __len__(self) -> int:
        return len(self._scope.weights)


class OpConverter:
    """A converter of one operator. Method ``_impl_vN`` holds from version N on, up to the next one.

    A method takes ``(inputs, attr, params)``, or ``(g, inputs, attr, params)`` where it needs the builder ``g``: the inputs of
    the node as expressions (``forge.compose.expr``; None where absent), its attributes by name (with ``tvm_custom``: the
    ``name`` of the node and ``num_outputs``), and the model's weights by name. It returns an expression, or a list of them for
    several outputs.
    """

    @classmethod
    def versions(cls) -> list[int]:
        """Versions with a method, the oldest first."""
        return sorted(int(match[1]) for name in dir(cls) if (match := _VERSION.fullmatch(name)))

    @classmethod
    def get_converter(cls, opset: int) -> Callable[..., Any]:
        """The method for version ``opset``.

        Raises:
            NotImplementedError: it is older than all of them.
        """
        fitting = [version for version in cls.versions() if version <= opset]
        if not fitting:
            raise NotImplementedError(f"{cls.__name__}: no method for opset {opset}; expected one of {cls.versions()}")
        method: Callable[..., Any] = getattr(cls, f"_impl_v{fitting[-1]}")
        return method


def as_functions(cls: type[OpConverter]) -> dict[int, Callable[..., Any]]:
    """A converter function for each version of the class.

    Raises:
        ValueError: there is no version, or a method takes other parameters.
    """
    if not cls.versions():
        raise ValueError(f"{cls.__name__}: has no method _impl_vN; expected one for each version")
    return {version: _as_function(cls, version) for version in cls.versions()}


def _as_function(cls: type[OpConverter], version: int) -> Callable[..., Any]:
    return as_function(cls.get_converter(version), f"{cls.__name__}._impl_v{version}", "a class method of ")


def as_function(method: Callable[..., Any], name: str, kind: str = "") -> Callable[..., Any]:
    """A converter function out of a callable that takes ``(inputs, attr, params)`` or ``(g, inputs, attr, params)``.

    Raises:
        ValueError: it takes other parameters; ``name`` and ``kind`` say what it is.
    """
    count = len(inspect.signature(method).parameters)
    if count not in (3, 4):
        raise ValueError(
            f"{name}: takes {count} parameters; expected {kind}(inputs, attr, params) or (g, inputs, attr, params)")

    def convert(g: ImportContext, /, *operands: Any, **attributes: Any) -> Any:
        inputs = Inputs(None if v is None else Expr(g, v) for v in operands)
        given = {key: _as_text(value) for key, value in attributes.items()}
        given[CUSTOM] = {"name": g.label, "num_outputs": g.num_outputs}
        arguments = (inputs, given, Weights(g.scope))
        return unwrapped(method(g, *arguments) if count == 4 else method(*arguments))

    convert.__module__ = method.__module__
    convert.__qualname__ = name
    return convert


def _as_text(value: Any) -> Any:
    """``value`` with each ``str`` as ``Text``, in tuples too."""
    if isinstance(value, str):
        return Text(value)
    return tuple(_as_text(item) for item in value) if isinstance(value, tuple) else value
