"""Kernel families: functions that build the loops of one operator for a target. See ``forge.loops.contract``."""

from forge.kernels import cpu
from forge.loops.contract import COMPLEX_FAMILIES, FAMILIES, VARIANTS

__all__ = ["COMPLEX_FAMILIES", "FAMILIES", "VARIANTS", "cpu"]
