"""Importers, one package for each model format. A package imports its framework only when it is used."""

from __future__ import annotations

import importlib
from types import ModuleType

_FORMATS = ("onnx",)


def __getattr__(name: str) -> ModuleType:
    if name not in _FORMATS:
        raise AttributeError(f"module 'forge.frontends' has no attribute {name!r}")
    return importlib.import_module(f"forge.frontends.{name}")
