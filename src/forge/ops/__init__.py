"""The operators. Importing this package registers those of the core, and declares those of the optional families."""

from importlib import import_module

from forge.ir.op import register_lazily
from forge.ops import (  # noqa: F401
    activation,
    arrangement,
    batch_blocks,
    bit_reduction,
    complex,  # noqa: A004
    control,
    counters,
    coupling,
    creation,
    detection,
    diagonals,
    einsum,
    elementwise,
    elementwise_bits,
    factorization,
    fft,
    indexing,
    layout,
    linalg,
    lookup,
    movement,
    nn_attention,
    nn_contrib_attention,
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
    placing,
    quantize,
    random,
    reduction,
    regions,
    running,
    sampling,
    scatter,
    searching,
    segments,
    sequence,
    shape_ops,
    slicing,
    sorting,
    spectral,
    strings,
    trees,
    window,
)
from forge.ops.base import Accuracy, Kind, NoAttrs, Op, Operand, Trait, register

# Subpackages that the core works without. Each holds a table ``OPERATORS``: the modules that register its operators, when one
# is first used, with their names. Where such a subpackage is deleted, its operators are unknown.
OPTIONAL_FAMILIES = ("special",)

for _family in OPTIONAL_FAMILIES:
    try:
        register_lazily(import_module(f"forge.ops.{_family}").OPERATORS)
    except ModuleNotFoundError as error:
        if error.name != f"forge.ops.{_family}":
            raise

__all__ = ["Accuracy", "Kind", "NoAttrs", "Op", "Operand", "Trait", "register"]
