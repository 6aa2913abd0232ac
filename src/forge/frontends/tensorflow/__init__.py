"""The importer of TensorFlow.

``FORMAT`` has the loader that is ``forge.from_tensorflow``; ``register`` adds converters, in the place of Forge's too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge import lazy
from forge.frontends.tensorflow.format import FORMAT

if TYPE_CHECKING:
    from forge.frontends.tensorflow.coverage import coverage, model_operators
    from forge.frontends.tensorflow.loader import import_model
    from forge.frontends.tensorflow.registry import REGISTRY, register, unregister

__getattr__ = lazy.attributes(__name__, {name: home for home, names in {
    "forge.frontends.tensorflow.coverage": ("coverage", "model_operators"),
    "forge.frontends.tensorflow.loader": ("import_model",),
    "forge.frontends.tensorflow.registry": ("REGISTRY", "register", "unregister"),
}.items() for name in names})  # fmt: skip

__all__ = ["FORMAT", "REGISTRY", "coverage", "import_model", "model_operators", "register", "unregister"]
