"""Residual networks (He et al., 2016, arXiv:1512.03385), stride on the 3x3 convolution as in common practice."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


def _convolution(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))


class ResidualBlock(nn.Module):
    """``relu(residual(x) + shortcut(x))`` with the basic (two 3x3) or the bottleneck (1x1, 3x3, 1x1) residual."""

    def __init__(self, channels_in: int, channels: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        channels_out = channels * 4 if bottleneck else channels
        if bottleneck:
            layers = [
                _convolution(channels_in, channels, 1),
                nn.ReLU(inplace=True),
                _convolution(channels, channels, 3, stride),
                nn.ReLU(inplace=True),
                _convolution(channels, channels_out, 1),
            ]
        else:
            layers = [
                _convolution(channels_in, channels, 3, stride),
                nn.ReLU(inplace=True),
                _convolution(channels, channels, 3),
            ]
        self.residual = nn.Sequential(*layers)
        changes_shape = stride != 1 or channels_in != channels_out
        self.shortcut = _convolution(channels_in, channels_out, 1, stride) if changes_shape else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.residual(x) + self.shortcut(x))


class ResNet(nn.Module):
    """Maps images ``(N, 3, H, W)`` to logits ``(N, classes)``."""

    def __init__(self, blocks: Sequence[int], *, bottleneck: bool, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, padding=1),
        )
        channels_in = width
        stages: list[nn.Module] = []
        for stage, count in enumerate(blocks):
            channels = width << stage
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                stages.append(ResidualBlock(channels_in, channels, stride, bottleneck=bottleneck))
                channels_in = channels * 4 if bottleneck else channels
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels_in, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.pool(self.stages(self.stem(x)))
        return self.head(torch.flatten(features, 1))


def full_18() -> nn.Module:
    """ResNet-18: 11.7 million parameters."""
    return ResNet((2, 2, 2, 2), bottleneck=False)


def full_50() -> nn.Module:
    """ResNet-50: 25.6 million parameters."""
    return ResNet((3, 4, 6, 3), bottleneck=True)


def small_18() -> nn.Module:
    """Two stages of basic blocks, 8 and 16 channels."""
    return ResNet((1, 2), bottleneck=False, width=8, classes=10)


def small_50() -> nn.Module:
    """Two stages of bottleneck blocks, 8 and 16 inner channels."""
    return ResNet((1, 2), bottleneck=True, width=8, classes=10)
