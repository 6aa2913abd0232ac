"""The loaders: models of other formats as ``IRModule``. Each is also a class method of it."""

from __future__ import annotations

from forge.module import IRModule

from_onnx = IRModule.from_onnx

__all__ = ["from_onnx"]
