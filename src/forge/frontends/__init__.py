"""Importers, one package for each model format, and what they share.

A package imports its framework only when it is used. Its ``FORMAT`` (``forge.frontends.formats.Format``) says how models are
recognized and loaded.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

PACKAGES = {
    "jax": "forge.frontends.stablehlo.jax",
    "keras": "forge.frontends.keras",
    "onnx": "forge.frontends.onnx",
    "stablehlo": "forge.frontends.stablehlo",
    "tensorflow": "forge.frontends.tensorflow",
    "tflite": "forge.frontends.tflite",
    "torch": "forge.frontends.torch",
}
"""Doors by the names of their loaders. Their packages are imported without the frameworks, and without their converters."""


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module 'forge.frontends' has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
