"""Weights for the examples: random ones of a size that keeps values in range; a trained model loads its own."""

from __future__ import annotations

import numpy as np

from forge import nn


def fill(module: nn.Module, seed: int = 0) -> None:
    """Gives every parameter data: scales and variances around 1, biases around 0, matrices as `Linear` layers are initialized."""
    rng = np.random.default_rng(seed)
    for name, parameter in module.named_parameters():
        shape = tuple(int(size) for size in parameter.shape)
        last = name.rpartition(".")[2]
        if last == "running_var" or (last == "weight" and len(shape) == 1):
            values = rng.uniform(0.8, 1.2, shape)
        elif len(shape) == 1:
            values = rng.uniform(-0.1, 0.1, shape)
        else:
            values = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        parameter.data = values.astype(parameter.dtype)
