"""The importer of StableHLO, and of JAX.

``FORMAT`` has the loader that is ``forge.from_stablehlo``; ``register`` adds converters: of operations by their names, and of
targets of custom calls with ``domain="custom_call"``, of composites with ``domain="composite"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge import lazy
from forge.frontends.stablehlo.format import FORMAT

if TYPE_CHECKING:
    from forge.frontends.stablehlo.coverage import coverage, model_operators
    from forge.frontends.stablehlo.loader import import_module
    from forge.frontends.stablehlo.module import StablehloModule
    from forge.frontends.stablehlo.registry import REGISTRY, register, unregister

__getattr__ = lazy.attributes(__name__, {name: home for home, names in {
    "forge.frontends.stablehlo.coverage": ("coverage", "model_operators"),
    "forge.frontends.stablehlo.loader": ("import_module",),
    "forge.frontends.stablehlo.module": ("StablehloModule",),
    "forge.frontends.stablehlo.registry": ("REGISTRY", "register", "unregister"),
}.items() for name in names})  # fmt: skip

__all__ = [
    "FORMAT", "REGISTRY", "StablehloModule", "coverage", "import_module", "model_operators", "register", "unregister",
]
