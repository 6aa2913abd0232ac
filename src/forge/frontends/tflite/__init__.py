"""The importer of TFLite.

``FORMAT`` has the loader that is ``forge.from_tflite``; ``register`` adds converters: of custom operators with
``domain="custom"``, and of builtin ones in the place of Forge's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge import lazy
from forge.frontends.tflite.format import FORMAT

if TYPE_CHECKING:
    from forge.frontends.tflite.coverage import coverage, model_operators
    from forge.frontends.tflite.loader import import_model
    from forge.frontends.tflite.model import TfliteModel, read_model
    from forge.frontends.tflite.registry import REGISTRY, register, unregister

__getattr__ = lazy.attributes(__name__, {name: home for home, names in {
    "forge.frontends.tflite.coverage": ("coverage", "model_operators"),
    "forge.frontends.tflite.loader": ("import_model",),
    "forge.frontends.tflite.model": ("TfliteModel", "read_model"),
    "forge.frontends.tflite.registry": ("REGISTRY", "register", "unregister"),
}.items() for name in names})  # fmt: skip

__all__ = [
    "FORMAT", "REGISTRY", "TfliteModel", "coverage", "import_model", "model_operators", "read_model", "register", "unregister",
]
