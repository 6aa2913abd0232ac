"""U-Net (Ronneberger et al., 2015, arXiv:1505.04597), padded convolutions with batch normalization."""

from __future__ import annotations

import torch
from torch import nn


def _double_convolution(channels_in: int, channels_out: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (channels_in, channels_out):
        layers += [
            nn.Conv2d(channels, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Maps images ``(N, 3, H, W)`` to a probability per pixel ``(N, 1, H, W)``; H and W divisible by ``2**depth``."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        channels = [width << level for level in range(depth + 1)]
        self.encoders = nn.ModuleList(
            _double_convolution(before, after) for before, after in zip([3, *channels[:-2]], channels[:-1], strict=True)
        )
        self.pool = nn.MaxPool2d(2, 2)
        self.bottom = _double_convolution(channels[-2], channels[-1])
        self.upsamplers = nn.ModuleList(
            nn.ConvTranspose2d(after, before, 2, stride=2)
            for before, after in zip(channels[-2::-1], channels[:0:-1], strict=True)
        )
        self.decoders = nn.ModuleList(_double_convolution(2 * before, before) for before in channels[-2::-1])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips: list[torch.Tensor] = []
        for encoder in self.encoders:
            x = encoder(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottom(x)
        for upsampler, decoder, skip in zip(self.upsamplers, self.decoders, reversed(skips), strict=True):
            x = decoder(torch.cat((upsampler(x), skip), dim=1))
        return torch.sigmoid(self.head(x))


def full() -> nn.Module:
    """Four levels from 32 channels: 7.8 million parameters."""
    return UNet(width=32, depth=4)


def small() -> nn.Module:
    """Two levels from 4 channels."""
    return UNet(width=4, depth=2)
