"""MobileNetV2 (Sandler et al., 2018, arXiv:1801.04381)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

Stage = tuple[int, int, int, int]
"""Expansion factor, output channels, number of blocks, stride of the first block."""

_STAGES: tuple[Stage, ...] = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _convolution(channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """Expand with 1x1, filter depthwise with 3x3, project with 1x1; adds the input where the shapes allow."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels_in * expansion
        layers: list[nn.Module] = [] if expansion == 1 else [_convolution(channels_in, hidden, 1)]
        layers += [
            _convolution(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, channels_out, 1, bias=False),
            nn.BatchNorm2d(channels_out),
        ]
        self.residual = nn.Sequential(*layers)
        self.adds_input = stride == 1 and channels_in == channels_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.residual(x) if self.adds_input else self.residual(x)


class MobileNetV2(nn.Module):
    """Maps images ``(N, 3, H, W)`` to logits ``(N, classes)``."""

    def __init__(self, stages: Sequence[Stage], stem: int = 32, last: int = 1280, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, stem, 3, 2)]
        channels = stem
        for expansion, channels_out, count, first_stride in stages:
            for index in range(count):
                stride = first_stride if index == 0 else 1
                layers.append(InvertedResidual(channels, channels_out, stride, expansion))
                channels = channels_out
        layers.append(_convolution(channels, last, 1))
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.head(torch.flatten(features, 1))


def full() -> nn.Module:
    """Width 1.0: 3.5 million parameters."""
    return MobileNetV2(_STAGES)


def small() -> nn.Module:
    """Three stages of up to 16 channels; 24 expanded channels are no multiple of a vector block."""
    return MobileNetV2(((1, 4, 1, 1), (6, 8, 2, 2), (6, 16, 1, 2)), stem=8, last=40, classes=10)
