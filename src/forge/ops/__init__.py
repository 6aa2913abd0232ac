"""The operators. Importing this package fills the registry (``forge.ir.op.REGISTRY``)."""

from forge.ops import elementwise
from forge.ops.base import Accuracy, Kind, NoAttrs, Op, Operand, Trait, register

__all__ = ["Accuracy", "Kind", "NoAttrs", "Op", "Operand", "Trait", "elementwise", "register"]
