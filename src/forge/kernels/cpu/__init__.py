"""Hand-designed kernels for CPUs."""

from forge.kernels.cpu import (
    attention_rows,
    bit_reduction,
    checks,
    concatenate,
    conv2d,
    coupling,
    dense,
    dense_blocks,
    depthwise,
    detection,
    factorization,
    fft,
    indefinite,
    indexed_blocks,
    layer_norm,
    matmul,
    ordering,
    orthogonal,
    rnn,
    running,
    scattering,
    searching,
    softmax,
    strings,
    subpixel,
    suppression,
    trees,
    winograd,
)

__all__ = [
    "attention_rows", "bit_reduction", "checks", "concatenate", "conv2d", "coupling", "dense", "dense_blocks", "depthwise",
    "detection", "factorization", "fft", "indefinite", "indexed_blocks", "layer_norm", "matmul", "ordering", "orthogonal", "rnn",
    "running", "scattering", "searching", "softmax", "strings", "subpixel", "suppression", "trees", "winograd",
]
