"""The operators. Importing this package fills the registry (``forge.ir.op.REGISTRY``)."""

from forge.ops import (  # noqa: F401
    activation,
    arrangement,
    control,
    creation,
    detection,
    elementwise,
    elementwise_bits,
    indexing,
    layout,
    linalg,
    movement,
    nn_conv,
    nn_conv_packed,
    nn_conv_winograd,
    nn_dense,
    nn_image,
    nn_norm,
    nn_patches,
    nn_pool,
    nn_pool_indices,
    nn_rnn,
    quantize,
    random,
    reduction,
    sampling,
    scatter,
    sequence,
    shape_ops,
    slicing,
    sorting,
    spectral,
    strings,
)
from forge.ops.base import Accuracy, Kind, NoAttrs, Op, Operand, Trait, register

__all__ = ["Accuracy", "Kind", "NoAttrs", "Op", "Operand", "Trait", "register"]
