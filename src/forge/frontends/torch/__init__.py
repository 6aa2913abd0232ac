"""The PyTorch importer.

``import_model`` is what ``forge.from_torch`` wraps; ``register`` adds converters, by the names of ATen's overloads.
"""

from forge.frontends.support import Format
from forge.frontends.torch.coverage import coverage
from forge.frontends.torch.loader import import_model, model_operators
from forge.frontends.torch.registry import REGISTRY, register, unregister
from forge.frontends.torch.steps import used_operators

FORMAT = Format("PyTorch", (".pt2",), REGISTRY, coverage, model_operators)

__all__ = ["FORMAT", "REGISTRY", "import_model", "model_operators", "register", "unregister", "used_operators"]
