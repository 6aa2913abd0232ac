"""The loader of ONNX models in the calling form of Relax."""

from forge.relax import from_onnx

__all__ = ["from_onnx"]
