"""The operators. Importing this package fills the registry (``forge.ir.op.REGISTRY``)."""

from forge.ops import (  # noqa: F401
    activation,
    arrangement,
    creation,
    elementwise,
    indexing,
    movement,
    reduction,
    scatter,
    shape_ops,
    slicing,
)
from forge.ops import layout, nn_conv, nn_conv_packed, nn_dense, nn_norm, nn_pool  # noqa: E402, F401
from forge.ops.base import Accuracy, Kind, NoAttrs, Op, Operand, Trait, register

__all__ = ["Accuracy", "Kind", "NoAttrs", "Op", "Operand", "Trait", "register"]
