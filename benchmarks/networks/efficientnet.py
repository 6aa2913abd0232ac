"""EfficientNet (Tan and Le, 2019, arXiv:1905.11946)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from benchmarks.networks.mobilenetv3 import SqueezeExcite, convolution

Stage = tuple[int, int, int, int, int]
"""Expansion factor, kernel, output channels, number of blocks, stride of the first block."""

_STAGES: tuple[Stage, ...] = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)


class MBConv(nn.Module):
    """Expand, filter depthwise, weigh the channels, project; adds the input where the shapes allow."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels_in * expansion
        layers: list[nn.Module] = [] if expansion == 1 else [convolution(channels_in, hidden, 1, activation=nn.SiLU)]
        layers += [
            convolution(hidden, hidden, kernel, stride, groups=hidden, activation=nn.SiLU),
            SqueezeExcite(hidden, max(1, channels_in // 4), nn.SiLU, nn.Sigmoid),
            convolution(hidden, channels_out, 1),
        ]
        self.residual = nn.Sequential(*layers)
        self.adds_input = stride == 1 and channels_in == channels_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.residual(x) if self.adds_input else self.residual(x)


class EfficientNet(nn.Module):
    """Maps images ``(N, 3, H, W)`` to logits ``(N, classes)``."""

    def __init__(self, stages: Sequence[Stage], stem: int = 32, last: int = 1280, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [convolution(3, stem, 3, 2, activation=nn.SiLU)]
        channels = stem
        for expansion, kernel, channels_out, count, first_stride in stages:
            for index in range(count):
                layers.append(MBConv(channels, channels_out, kernel, first_stride if index == 0 else 1, expansion))
                channels = channels_out
        layers.append(convolution(channels, last, 1, activation=nn.SiLU))
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(last, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).mean((2, 3)))


def full() -> nn.Module:
    """EfficientNet-B0: 5.3 million parameters."""
    return EfficientNet(_STAGES)


def small() -> nn.Module:
    """Three stages of up to 20 channels."""
    return EfficientNet(((1, 3, 4, 1, 1), (6, 5, 12, 2, 2), (4, 3, 20, 1, 2)), stem=8, last=40, classes=10)
