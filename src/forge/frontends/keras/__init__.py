"""The importer of Keras.

``FORMAT`` has the loader that is ``forge.from_keras``; ``register`` adds converters: of custom layers, with the package that
they are registered in as ``domain``, of operations of ``keras.ops`` with ``domain="ops"``, and of Keras's layers in the place of
Forge's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge import lazy
from forge.frontends.keras.format import FORMAT

if TYPE_CHECKING:
    from forge.frontends.keras.coverage import coverage, model_operators
    from forge.frontends.keras.loader import import_model
    from forge.frontends.keras.registry import REGISTRY, register, unregister

__getattr__ = lazy.attributes(__name__, {name: home for home, names in {
    "forge.frontends.keras.coverage": ("coverage", "model_operators"),
    "forge.frontends.keras.loader": ("import_model",),
    "forge.frontends.keras.registry": ("REGISTRY", "register", "unregister"),
}.items() for name in names})  # fmt: skip

__all__ = ["FORMAT", "REGISTRY", "coverage", "import_model", "model_operators", "register", "unregister"]
