"""DenseNet (Huang et al., 2017, arXiv:1608.06993)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


def _normed(channels_in: int, channels_out: int, kernel: int) -> nn.Sequential:
    convolution = nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(nn.BatchNorm2d(channels_in), nn.ReLU(), convolution)


class DenseLayer(nn.Module):
    """Appends ``growth`` channels that are computed from all channels before."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.new = nn.Sequential(_normed(channels, 4 * growth, 1), _normed(4 * growth, growth, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat((x, self.new(x)), dim=1)


class DenseNet(nn.Module):
    """Maps images ``(N, 3, H, W)`` to logits ``(N, classes)``."""

    def __init__(self, blocks: Sequence[int], growth: int, stem: int, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, stem, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(stem), nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]
        channels = stem
        for position, count in enumerate(blocks):
            layers += [DenseLayer(channels + k * growth, growth) for k in range(count)]
            channels += count * growth
            if position < len(blocks) - 1:
                layers += [_normed(channels, channels // 2, 1), nn.AvgPool2d(2)]
                channels //= 2
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU())
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(self.features(x), 1), 1))


def full() -> nn.Module:
    """DenseNet-121: 8 million parameters."""
    return DenseNet((6, 12, 24, 16), growth=32, stem=64)


def small() -> nn.Module:
    """Two blocks with a growth of 6 channels."""
    return DenseNet((2, 3), growth=6, stem=8, classes=10)
