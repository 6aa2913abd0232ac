"""The loaders, as a module of their own; ``forge.from_onnx`` is the same function."""

from forge.loaders import from_onnx

__all__ = ["from_onnx"]
