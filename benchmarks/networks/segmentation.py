"""Segmentation of images and volumes of any size: DeepLab v3+ (Chen et al., 2018), and a U-Net in three dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from benchmarks.networks.mobilenetv3 import Block, Bottleneck, convolution


class SpatialPyramid(nn.Module):
    """Joins a 1x1 convolution, dilated separable ones, and the mean of the whole picture."""

    def __init__(self, channels_in: int, channels: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.point = convolution(channels_in, channels, 1, activation=nn.ReLU)
        self.wide = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels_in, channels_in, 3, padding=d, dilation=d, groups=channels_in, bias=False),
                convolution(channels_in, channels, 1, activation=nn.ReLU),
            )
            for d in dilations
        )
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels_in, channels, 1), nn.ReLU())
        self.leave = convolution((2 + len(dilations)) * channels, channels, 1, activation=nn.ReLU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = self.whole(x).expand(-1, -1, x.shape[2], x.shape[3])
        return self.leave(torch.cat([self.point(x), *(wide(x) for wide in self.wide), whole], dim=1))


class DeepLab(nn.Module):
    """Maps images ``(N, 3, H, W)`` to logits ``(N, classes, H, W)``."""

    def __init__(self, fine: Sequence[Block], coarse: Sequence[Block], channels: int, classes: int) -> None:
        super().__init__()
        stem = fine[0][2]
        self.stem = convolution(3, stem, 3, 2, activation=nn.Hardswish)
        self.fine, width = _blocks(stem, fine)
        self.coarse, last = _blocks(width, coarse)
        self.pyramid = SpatialPyramid(last, channels, (6, 12, 18))
        self.lateral = convolution(width, channels // 4, 1, activation=nn.ReLU)
        joined = channels + channels // 4
        self.refine = nn.Sequential(
            nn.Conv2d(joined, joined, 3, padding=1, groups=joined, bias=False),
            convolution(joined, channels, 1, activation=nn.ReLU),
        )
        self.head = nn.Conv2d(channels, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.fine(self.stem(x))
        wide = _resized(self.pyramid(self.coarse(fine)), fine)
        return _resized(self.head(self.refine(torch.cat((wide, self.lateral(fine)), dim=1))), x)


def _blocks(channels: int, blocks: Sequence[Block]) -> tuple[nn.Sequential, int]:
    layers = []
    for block in blocks:
        layers.append(Bottleneck(channels, block))
        channels = block[2]
    return nn.Sequential(*layers), channels


def _resized(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return nn.functional.interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=False)


class VolumeUNet(nn.Module):
    """Maps volumes ``(N, 1, D, H, W)`` to a probability per voxel of the same shape; sizes divisible by ``2**depth``."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        channels = [width << level for level in range(depth + 1)]
        self.encoders = nn.ModuleList(_double(before, after) for before, after in zip([1, *channels], channels, strict=False))
        self.pool = nn.MaxPool3d(2)
        self.upsamplers = nn.ModuleList(
            nn.ConvTranspose3d(after, before, 2, stride=2)
            for before, after in zip(channels[-2::-1], channels[:0:-1], strict=True)
        )
        self.decoders = nn.ModuleList(_double(2 * before, before) for before in channels[-2::-1])
        self.head = nn.Conv3d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips: list[torch.Tensor] = []
        for level, encoder in enumerate(self.encoders):
            x = encoder(self.pool(x) if level else x)
            skips.append(x)
        for upsampler, decoder, skip in zip(self.upsamplers, self.decoders, skips[-2::-1], strict=True):
            x = decoder(torch.cat((upsampler(x), skip), dim=1))
        return torch.sigmoid(self.head(x))


def _double(channels_in: int, channels_out: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (channels_in, channels_out):
        layers += [nn.Conv3d(channels, channels_out, 3, padding=1, bias=False), nn.BatchNorm3d(channels_out), nn.ReLU()]
    return nn.Sequential(*layers)


def deeplab() -> nn.Module:
    """On the first blocks of MobileNetV3-Large: 2 million parameters."""
    fine = ((3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1))
    coarse = (
        (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1),
        (3, 480, 112, True, True, 1), (3, 672, 160, True, True, 1),
    )
    return DeepLab(fine, coarse, channels=128, classes=21)


def small_deeplab() -> nn.Module:
    """Three blocks of up to 12 channels."""
    fine, coarse = ((3, 8, 8, False, False, 2),), ((5, 16, 12, True, True, 2), (3, 24, 12, False, True, 1))
    return DeepLab(fine, coarse, channels=8, classes=3)


def volume() -> nn.Module:
    """Three levels from 16 channels: 1.4 million parameters."""
    return VolumeUNet(width=16, depth=3)


def small_volume() -> nn.Module:
    """One level from 4 channels."""
    return VolumeUNet(width=4, depth=1)
