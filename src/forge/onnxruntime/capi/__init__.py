"""The place where programs look for onnxruntime's exceptions."""

from forge.onnxruntime.capi import onnxruntime_pybind11_state

__all__ = ["onnxruntime_pybind11_state"]
