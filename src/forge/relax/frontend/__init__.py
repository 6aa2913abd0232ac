"""Loaders of Relax, by format, and what to do with their results."""

from forge.relax import detach_params
from forge.relax.frontend import nn, onnx, stablehlo, tflite, torch

__all__ = ["detach_params", "nn", "onnx", "stablehlo", "tflite", "torch"]
