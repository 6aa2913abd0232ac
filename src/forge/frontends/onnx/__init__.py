"""The ONNX importer.

``FORMAT`` has the loader that is ``forge.from_onnx``; ``from_onnx`` here is the calling form of Relax. ``register`` adds
converters: functions, or classes derived from ``OnnxOpConverter``, which build with ``op`` and ``expr``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge import lazy
from forge.frontends.onnx.format import FORMAT

if TYPE_CHECKING:
    from forge.compose import expr
    from forge.compose.expr import op
    from forge.frontends.onnx.context import Context
    from forge.frontends.onnx.coverage import coverage
    from forge.frontends.onnx.importer import from_onnx, import_model, model_operators, unsupported_operators
    from forge.frontends.onnx.registry import REGISTRY, OnnxOpConverter, register, unregister

__getattr__ = lazy.attributes(__name__, {name: home for home, names in {
    "forge.compose.expr": ("op",),
    "forge.frontends.onnx.context": ("Context",),
    "forge.frontends.onnx.coverage": ("coverage",),
    "forge.frontends.onnx.importer": ("from_onnx", "import_model", "model_operators", "unsupported_operators", "REGISTRY"),
    "forge.frontends.onnx.registry": ("OnnxOpConverter", "register", "unregister"),
}.items() for name in names}, {"expr": "forge.compose.expr"})  # fmt: skip

__all__ = [
    "FORMAT", "REGISTRY", "Context", "OnnxOpConverter", "coverage", "expr", "from_onnx", "import_model", "model_operators", "op",
    "register", "unregister", "unsupported_operators",
]
