"""The ONNX importer.

``import_model`` is what ``forge.from_onnx`` wraps; ``from_onnx`` is the calling form of Relax; ``register`` adds converters:
functions, or classes derived from ``OnnxOpConverter``, which build with ``op`` and ``expr``.
"""

from forge.frontends.onnx.context import Context
from forge.frontends.onnx.converter_class import OnnxOpConverter
from forge.frontends.onnx.importer import from_onnx, import_model, model_operators, unsupported_operators
from forge.frontends.onnx.registry import register, unregister
from forge.ops.compose import expr
from forge.ops.compose.expr import op

__all__ = [
    "Context", "OnnxOpConverter", "expr", "from_onnx", "import_model", "model_operators", "op", "register", "unregister",
    "unsupported_operators",
]
