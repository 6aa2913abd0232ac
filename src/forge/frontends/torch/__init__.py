"""The PyTorch importer.

``FORMAT`` has the loader that is ``forge.from_torch``; ``register`` adds converters, by the names of ATen's overloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge import lazy
from forge.frontends.torch.format import FORMAT

if TYPE_CHECKING:
    from forge.frontends.torch.coverage import coverage
    from forge.frontends.torch.loader import import_model, model_operators
    from forge.frontends.torch.registry import REGISTRY, register, unregister
    from forge.frontends.torch.steps import used_operators

__getattr__ = lazy.attributes(__name__, {name: home for home, names in {
    "forge.frontends.torch.coverage": ("coverage",),
    "forge.frontends.torch.loader": ("import_model", "model_operators"),
    "forge.frontends.torch.importer": ("REGISTRY",),
    "forge.frontends.torch.registry": ("register", "unregister"),
    "forge.frontends.torch.steps": ("used_operators",),
}.items() for name in names})  # fmt: skip

__all__ = [
    "FORMAT", "REGISTRY", "coverage", "import_model", "model_operators", "register", "unregister", "used_operators",
]
