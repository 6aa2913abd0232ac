"""The ONNX importer.

``import_model`` is what ``forge.from_onnx`` wraps; ``from_onnx`` is the calling form of Relax; ``register`` adds converters:
functions, or classes derived from ``OnnxOpConverter``, which build with ``op`` and ``expr``.
"""

from forge.compose import expr
from forge.compose.expr import op
from forge.frontends.onnx.context import Context
from forge.frontends.onnx.coverage import coverage
from forge.frontends.onnx.importer import from_onnx, import_model, model_operators, unsupported_operators
from forge.frontends.onnx.registry import REGISTRY, OnnxOpConverter
from forge.frontends.support import Format

register = REGISTRY.register
unregister = REGISTRY.unregister
FORMAT = Format("ONNX", (".onnx",), REGISTRY, coverage, model_operators, takes_shapes=True)

__all__ = [
    "FORMAT", "REGISTRY", "Context", "OnnxOpConverter", "expr", "from_onnx", "import_model", "model_operators", "op", "register",
    "unregister", "unsupported_operators",
]
