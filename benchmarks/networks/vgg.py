"""VGG (Simonyan and Zisserman, 2015, arXiv:1409.1556), configuration D, without batch normalization."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


class VGG(nn.Module):
    """Maps images ``(N, 3, H, W)`` to logits ``(N, classes)``; a stage is a list of channels."""

    def __init__(self, stages: Sequence[Sequence[int]], pooled: int, hidden: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for stage in stages:
            for channels_out in stage:
                layers += [nn.Conv2d(channels, channels_out, 3, padding=1), nn.ReLU(inplace=True)]
                channels = channels_out
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(pooled)
        self.head = nn.Sequential(
            nn.Linear(channels * pooled * pooled, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(self.pool(self.features(x)), 1))


def full() -> nn.Module:
    """VGG-16: 138 million parameters."""
    return VGG(((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3), pooled=7, hidden=4096, classes=1000)


def small() -> nn.Module:
    """Three convolutions of 8 and 16 channels."""
    return VGG(((8,), (16, 16)), pooled=8, hidden=32, classes=10)
