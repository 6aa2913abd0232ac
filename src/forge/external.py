"""Machine code of the user's that models call by the names of its functions."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from forge.target import Target

RESERVED = ("forge_", "_forge", "main")
"""How names of functions of the user's do not begin: those of Forge's own do."""


class ExternalCode(Protocol):
    """One object file, or what is compiled to one."""

    @property
    def names(self) -> Sequence[str]:
        """Of its functions."""

    def object_code(self, target: Target) -> bytes:
        """The object file for ``target``.

        Raises:
            CompileError: there is none, or it lacks a function.
        """

    def function(self, name: str) -> Any:
        """A function in this process, as ``ctypes`` has it."""


_known: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def remember(code: ExternalCode) -> None:
    """Makes the functions of ``code`` those that the interpreter calls by their names, as long as ``code`` lives."""
    for name in code.names:
        _known[name] = code


def find(name: str) -> ExternalCode | None:
    """The code that has a function, of what is alive in this process."""
    found: ExternalCode | None = _known.get(name)
    return found


def names_of(codes: Sequence[ExternalCode]) -> Iterator[str]:
    for code in codes:
        yield from code.names
