"""A multi-layer perceptron."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from torch import nn


def perceptron(widths: Sequence[int]) -> nn.Module:
    """Linear layers with ReLU between them; maps ``(N, widths[0])`` to ``(N, widths[-1])``."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def full() -> nn.Module:
    """784-512-512-10."""
    return perceptron((784, 512, 512, 10))


def small() -> nn.Module:
    """20-32-32-10."""
    return perceptron((20, 32, 32, 10))
