"""Names of a package that are loaded when they are asked for, so that its import stays quick."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any


def attributes(
    package: str, homes: Mapping[str, str], modules: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], Any]:
    """The ``__getattr__`` of ``package``, which is a ``__name__``.

    Args:
        homes: modules by the names of what they have.
        modules: modules by names.
    """

    def find(name: str) -> Any:
        if name in modules:
            value: Any = importlib.import_module(modules[name])
        elif name in homes:
            value = getattr(importlib.import_module(homes[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(importlib.import_module(package), name, value)
        return value

    return find
