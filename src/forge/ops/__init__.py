"""The operators. Importing this package fills the registry (``forge.ir.op.REGISTRY``)."""

from forge.ops import arrangement, elementwise, movement, shape_ops  # noqa: F401
from forge.ops import layout, nn_conv, nn_pool  # noqa: F401
from forge.ops.base import Accuracy, Kind, NoAttrs, Op, Operand, Trait, register

__all__ = ["Accuracy", "Kind", "NoAttrs", "Op", "Operand", "Trait", "register"]
