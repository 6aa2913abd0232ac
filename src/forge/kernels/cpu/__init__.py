"""Hand-designed kernels for CPUs."""

from forge.kernels.cpu import (
    conv2d,
    dense,
    depthwise,
    detection,
    elimination,
    layer_norm,
    matmul,
    ordering,
    rnn,
    running,
    scattering,
    softmax,
    winograd,
)

__all__ = [
    "conv2d", "dense", "depthwise", "detection", "elimination", "layer_norm", "matmul", "ordering", "rnn", "running",
    "scattering", "softmax", "winograd",
]
