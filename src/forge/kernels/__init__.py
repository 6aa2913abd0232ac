"""Kernel families: functions that build the loops of one operator for a target. See ``forge.kernels.contract``."""

from forge.kernels import cpu
from forge.kernels.contract import FAMILIES, KernelCall, Reader, Writer, kernel

__all__ = ["FAMILIES", "KernelCall", "Reader", "Writer", "cpu", "kernel"]
