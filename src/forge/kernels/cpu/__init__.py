"""Hand-designed kernels for CPUs."""

from forge.kernels.cpu import dense

__all__ = ["dense"]
