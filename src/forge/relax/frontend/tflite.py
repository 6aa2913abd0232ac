"""The loader of TFLite models in the calling form of Relax."""

from forge.loaders import loader

from_tflite = loader("tflite")

__all__ = ["from_tflite"]
