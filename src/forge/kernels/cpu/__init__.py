"""Hand-designed kernels for CPUs."""

from forge.kernels.cpu import conv2d, dense, depthwise, matmul

__all__ = ["conv2d", "dense", "depthwise", "matmul"]
