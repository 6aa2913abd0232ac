"""The ONNX importer.

``import_model`` is what ``forge.from_onnx`` wraps; ``from_onnx`` is the calling form of Relax; ``register`` adds converters.
"""

from forge.frontends.onnx.context import Context
from forge.frontends.onnx.importer import from_onnx, import_model, unsupported_operators
from forge.frontends.onnx.registry import register, unregister

__all__ = ["Context", "from_onnx", "import_model", "register", "unregister", "unsupported_operators"]
