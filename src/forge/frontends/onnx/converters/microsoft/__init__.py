"""Operators of onnxruntime's own domain, ``com.microsoft``: what its exporters, quantizer and graph optimizer emit.

Where onnxruntime's CPU kernels and their documentation disagree, the kernels are followed; the converter says so.
"""

from __future__ import annotations

DOMAIN = "com.microsoft"
