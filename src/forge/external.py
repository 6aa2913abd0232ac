"""Machine code of the user's that models call by the names of its functions."""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from forge.target import Target


_NAME = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)


def is_name(name: object) -> bool:
    """Whether a function of the user's may be called so."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and not is_reserved(name)


def is_reserved(name: str) -> bool:
    """Whether the user's code may not define it."""
    return name == "main" or name.startswith(("forge_", "_forge"))


class ExternalCode(Protocol):
    """One object file, or what is compiled to one."""

    @property
    def names(self) -> Sequence[str]:
        """Of its functions."""

    @property
    def link_options(self) -> Sequence[str]:
        """Options of the linker: libraries that its functions need."""

    def object_code(self, target: Target) -> bytes:
        """The object file for ``target``.

        Raises:
            CompileError: there is none, or it lacks a function.
        """

    def function(self, name: str) -> Any:
        """A function in this process, as ``ctypes`` has it."""


INTEGER, NUMBER, TEXT, TENSOR = range(4)
"""Kinds of arguments: ``FORGE_EXTERN_INTEGER`` and so on."""

CPU = 1
"""DLPack's number of the device."""

_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}


def dlpack_type(dtype: str) -> tuple[int, int] | None:
    """DLPack's code of an element type and its number of bits; None where it has none."""
    if dtype == "bool":
        return _CODES["bool"], 8
    parts = re.fullmatch(r"(u?int|b?float)(8|16|32|64)", dtype)
    return None if parts is None else (_CODES[parts[1]], int(parts[2]))


LINKED = "_forge_extern_"
"""How names of functions of the user's begin inside of a model: they may be those of functions of the C library."""

WRONG_ARGUMENTS, EXCEPTION = -(1 << 31), 1 - (1 << 31)
"""What functions return that `TVM_DLL_EXPORT_TYPED_FUNC` has made: ``FORGE_EXTERN_WRONG_ARGUMENTS`` and so on."""

PROBLEMS = {WRONG_ARGUMENTS: "does not take these arguments", EXCEPTION: "threw an exception"}
"""What statuses mean."""


def failure(function: str, status: int | str, place: str = "") -> str:
    """The message where a function returns another status than 0."""
    problem = PROBLEMS.get(status) if isinstance(status, int) else None
    where = f"node {place} (call_extern)" if place else "call_extern"
    return f"{where}: the function {function!r} {problem or f'returned status {status}'}"


@dataclass(frozen=True)
class LinkedCode:
    """Object files that become part of a compiled model, the names of the functions that it calls, and options of the linker."""

    objects: tuple[bytes, ...] = ()
    functions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


_numbers = itertools.count()
_alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_of_module: ContextVar[Sequence[ExternalCode]] = ContextVar("external", default=())


def remember(code: ExternalCode) -> None:
    """Lets the interpreter find the functions of ``code`` by their names, as long as ``code`` lives."""
    _alive[next(_numbers)] = code


@contextmanager
def used(codes: Sequence[ExternalCode]) -> Iterator[None]:
    """Inside, graphs without a module of their own call functions of ``codes``."""
    token = _of_module.set(codes)
    try:
        yield
    finally:
        _of_module.reset(token)


def in_use() -> Sequence[ExternalCode]:
    """What `used` was given."""
    return _of_module.get()


def find(name: str) -> ExternalCode | None:
    """The code that has a function: what is `used`, as the module's that is interpreted, else the newest that is alive."""
    alive: list[ExternalCode] = [code for _, code in sorted(_alive.items(), key=lambda item: -item[0])]
    return next((code for code in (*in_use(), *alive) if name in code.names), None)


def names_of(codes: Sequence[ExternalCode]) -> Iterator[str]:
    for code in codes:
        yield from code.names
