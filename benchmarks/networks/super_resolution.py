"""Super resolution: EDSR (Lim et al., 2017) by pixel shuffle, FSRCNN (Dong et al., 2016) by a transposed convolution."""

from __future__ import annotations

import torch
from torch import nn


class Residual(nn.Module):
    """Two 3x3 convolutions, added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.2 * self.layers(x)


class EDSR(nn.Module):
    """Maps images ``(N, 3, H, W)`` to ones of twice the size."""

    def __init__(self, channels: int, blocks: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(Residual(channels) for _ in range(blocks)), nn.Conv2d(channels, channels, 3, padding=1))
        self.widen = nn.Sequential(nn.Conv2d(channels, 4 * channels, 3, padding=1), nn.PixelShuffle(2))
        self.head = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        return self.head(self.widen(x + self.blocks(x)))


class FSRCNN(nn.Module):
    """Maps luminance ``(N, 1, H, W)`` to that of twice the size."""

    def __init__(self, channels: int, shrunk: int, layers: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, 5, padding=2), nn.PReLU(channels), nn.Conv2d(channels, shrunk, 1), nn.PReLU(shrunk),
            *(layer for _ in range(layers) for layer in (nn.Conv2d(shrunk, shrunk, 3, padding=1), nn.PReLU(shrunk))),
            nn.Conv2d(shrunk, channels, 1), nn.PReLU(channels),
        )
        self.widen = nn.ConvTranspose2d(channels, 1, 9, stride=2, padding=4, output_padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.widen(self.features(x))


def edsr() -> nn.Module:
    """Eight blocks of 32 channels: 0.2 million parameters."""
    return EDSR(channels=32, blocks=8)


def small_edsr() -> nn.Module:
    """One block of 5 channels."""
    return EDSR(channels=5, blocks=1)


def fsrcnn() -> nn.Module:
    """The published size: 12 thousand parameters."""
    return FSRCNN(channels=56, shrunk=12, layers=4)


def small_fsrcnn() -> nn.Module:
    """One layer of 3 channels."""
    return FSRCNN(channels=6, shrunk=3, layers=1)
