"""The loaders, as a module of their own; ``forge.from_onnx`` and so on are the same functions."""

from forge.loaders import from_onnx, from_torch

__all__ = ["from_onnx", "from_torch"]
