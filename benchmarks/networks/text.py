"""Networks that find and read text: a DB-style detector (Liao et al., 2020), CRNN (Shi et al., 2017), SVTR (Du et al., 2022)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from benchmarks.networks.encoder import EncoderLayer
from benchmarks.networks.mobilenetv3 import Block, Bottleneck, convolution

_STAGES: tuple[tuple[Block, ...], ...] = (
    ((3, 8, 8, False, False, 1), (3, 32, 16, False, False, 2), (3, 40, 16, False, False, 1)),
    ((5, 40, 24, True, False, 2), (5, 64, 24, True, False, 1), (5, 64, 24, True, False, 1)),
    ((3, 120, 40, False, True, 2), (3, 104, 40, False, True, 1), (3, 240, 56, True, True, 1), (3, 336, 56, True, True, 1)),
    ((5, 336, 80, True, True, 2), (5, 480, 80, True, True, 1), (5, 480, 80, True, True, 1)),
)
"""MobileNetV3-Large of half width; each stage halves the size."""


class TextDetector(nn.Module):
    """Maps images ``(N, 3, H, W)`` to the probability of text at each pixel ``(N, 1, H, W)``; H and W divisible by 32."""

    def __init__(self, stages: Sequence[Sequence[Block]], stem: int, width: int) -> None:
        super().__init__()
        self.stem = convolution(3, stem, 3, 2, activation=nn.Hardswish)
        self.stages = nn.ModuleList()
        self.laterals = nn.ModuleList()
        channels = stem
        for blocks in stages:
            layers = []
            for block in blocks:
                layers.append(Bottleneck(channels, block))
                channels = block[2]
            self.stages.append(nn.Sequential(*layers))
            self.laterals.append(nn.Conv2d(channels, width, 1, bias=False))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width // 4, 3, padding=1, bias=False) for _ in stages)
        self.widen = nn.ModuleList(_widened(1 << level) for level in range(len(stages)))
        quarter = width // 4
        self.head = nn.Sequential(
            convolution(width // 4 * len(stages), quarter, 3, activation=nn.ReLU),
            nn.ConvTranspose2d(quarter, quarter, 2, stride=2), nn.BatchNorm2d(quarter), nn.ReLU(),
            nn.ConvTranspose2d(quarter, 1, 2, stride=2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        features = []
        for stage, lateral in zip(self.stages, self.laterals, strict=True):
            x = stage(x)
            features.append(lateral(x))
        for level in range(len(features) - 2, -1, -1):
            features[level] = features[level] + self.widen[1](features[level + 1])
        joined = [widen(smooth(x)) for widen, smooth, x in zip(self.widen, self.smooth, features, strict=True)]
        return torch.sigmoid(self.head(torch.cat(joined[::-1], dim=1)))


def _widened(scale: int) -> nn.Module:
    return nn.Identity() if scale == 1 else nn.Upsample(scale_factor=scale, mode="nearest")


class RecurrentReader(nn.Module):
    """Maps lines of text ``(N, 1, 32, W)`` to logits ``(W / 4, N, classes)``: convolutions, then LSTMs both ways."""

    def __init__(self, widths: Sequence[int], hidden: int, classes: int) -> None:
        super().__init__()
        pools = ((2, 2), (2, 2), None, (2, 1), None, (2, 1))
        layers: list[nn.Module] = []
        for before, after, pool in zip([1, *widths[:-1]], widths, pools, strict=True):
            layers.append(convolution(before, after, 3, activation=nn.ReLU))
            if pool is not None:
                layers.append(nn.MaxPool2d(pool))
        self.features = nn.Sequential(*layers, nn.Conv2d(widths[-1], widths[-1], (2, 1)), nn.ReLU())
        self.recurrent = nn.LSTM(widths[-1], hidden, 2, bidirectional=True)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.recurrent(self.features(x).squeeze(2).permute(2, 0, 1))
        return self.head(states)


class Local(nn.Module):
    """Filters each channel over neighbours, then mixes the channels; both are added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.filter = nn.Sequential(nn.Conv2d(channels, channels, 5, padding=2, groups=channels), nn.BatchNorm2d(channels))
        self.mix = nn.Sequential(nn.Conv2d(channels, 2 * channels, 1), nn.GELU(), nn.Conv2d(2 * channels, channels, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.filter(x)
        return x + 0.3 * self.mix(x)


class MixingReader(nn.Module):
    """Maps lines of text ``(N, 3, 48, W)`` to probabilities ``(N, W / 4, classes)``: local, then global mixing."""

    def __init__(self, widths: Sequence[int], locals_: int, layers: int, heads: int, classes: int) -> None:
        super().__init__()
        first, second, last = widths
        self.stem = nn.Sequential(
            convolution(3, first // 2, 3, 2, activation=nn.GELU), convolution(first // 2, first, 3, 2, activation=nn.GELU)
        )
        self.near = nn.Sequential(
            *(Local(first) for _ in range(locals_)), nn.Conv2d(first, second, 3, (2, 1), padding=1),
            *(Local(second) for _ in range(locals_)), nn.Conv2d(second, last, 3, (2, 1), padding=1),
        )
        self.far = nn.Sequential(*(EncoderLayer(last, heads) for _ in range(layers)), nn.LayerNorm(last))
        self.head = nn.Linear(last, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.near(self.stem(x))
        batch, channels, height = x.shape[:3]
        x = self.far(x.flatten(2).permute(0, 2, 1)).permute(0, 2, 1).reshape(batch, channels, height, -1).mean(dim=2)
        return self.head(x.permute(0, 2, 1)).softmax(dim=2)


def detector() -> nn.Module:
    """The size of PP-OCR's mobile detector: 1.4 million parameters."""
    return TextDetector(_STAGES, stem=8, width=96)


def small_detector() -> nn.Module:
    """Four stages of one block, up to 16 channels."""
    widths = ((8, False), (8, True), (12, False), (16, True))
    stages = tuple(((3, 2 * width, width, squeezes, True, 2),) for width, squeezes in widths)
    return TextDetector(stages, stem=8, width=16)


def crnn() -> nn.Module:
    """The published size but for its last layers: 6 million parameters."""
    return RecurrentReader((64, 128, 256, 256, 512, 256), hidden=256, classes=97)


def small_crnn() -> nn.Module:
    """Up to 16 channels, 12 hidden units."""
    return RecurrentReader((4, 6, 8, 8, 16, 12), hidden=12, classes=11)


def svtr() -> nn.Module:
    """The size of SVTR-T: 4 million parameters."""
    return MixingReader((64, 128, 192), locals_=3, layers=4, heads=6, classes=6625)


def small_svtr() -> nn.Module:
    """One local block of each width, one layer of attention."""
    return MixingReader((8, 12, 16), locals_=1, layers=1, heads=2, classes=13)
