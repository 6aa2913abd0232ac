"""ConvNeXt (Liu et al., 2022, arXiv:2201.03545)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


class ChannelNorm(nn.LayerNorm):
    """Layer normalization over the channels of ``(N, C, H, W)``."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """A 7x7 depthwise filter, then a scaled feed-forward network at each position; adds the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.filter = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.feed_forward = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels))
        self.scale = nn.Parameter(torch.full((channels,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.feed_forward(self.norm(self.filter(x).permute(0, 2, 3, 1)))
        return x + (self.scale * y).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """Maps images ``(N, 3, H, W)`` to logits ``(N, classes)``."""

    def __init__(self, depths: Sequence[int], widths: Sequence[int], patch: int = 4, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, widths[0], patch, stride=patch), ChannelNorm(widths[0], eps=1e-6)]
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            if stage:
                layers += [ChannelNorm(widths[stage - 1], eps=1e-6), nn.Conv2d(widths[stage - 1], width, 2, stride=2)]
            layers += [Block(width) for _ in range(depth)]
        self.features = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(widths[-1], eps=1e-6)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.features(x).mean((2, 3))))


def full() -> nn.Module:
    """ConvNeXt-T: 29 million parameters."""
    return ConvNeXt(depths=(3, 3, 9, 3), widths=(96, 192, 384, 768))


def small() -> nn.Module:
    """Two stages of up to 24 channels."""
    return ConvNeXt(depths=(1, 2), widths=(12, 24), classes=10)
