"""A one-stage detector in the manner of YOLOv8-n: CSP backbone, feature pyramid both ways, decoupled heads without anchors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


def _convolution(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out), nn.SiLU())


class Bottleneck(nn.Module):
    """Two 3x3 convolutions; adds the input in the backbone."""

    def __init__(self, channels: int, adds_input: bool) -> None:
        super().__init__()
        self.residual = nn.Sequential(_convolution(channels, channels, 3), _convolution(channels, channels, 3))
        self.adds_input = adds_input

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.residual(x) if self.adds_input else self.residual(x)


class SplitBlock(nn.Module):
    """Sends half of the channels through bottlenecks and joins everything on the way."""

    def __init__(self, channels_in: int, channels_out: int, count: int, adds_input: bool) -> None:
        super().__init__()
        half = channels_out // 2
        self.enter = _convolution(channels_in, channels_out, 1)
        self.steps = nn.ModuleList(Bottleneck(half, adds_input) for _ in range(count))
        self.leave = _convolution((2 + count) * half, channels_out, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.enter(x).chunk(2, dim=1))
        for step in self.steps:
            parts.append(step(parts[-1]))
        return self.leave(torch.cat(parts, dim=1))


class PyramidPool(nn.Module):
    """Joins maxima over windows of 5, 9 and 13 positions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = _convolution(channels, channels // 2, 1)
        self.pool = nn.MaxPool2d(5, stride=1, padding=2)
        self.leave = _convolution(2 * channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.leave(torch.cat(parts, dim=1))


class Head(nn.Module):
    """Box distributions and class scores of one scale, ``(N, 4 * bins + classes, positions)``."""

    def __init__(self, channels: int, bins: int, classes: int, width: int) -> None:
        super().__init__()
        self.boxes = self._branch(channels, width, 4 * bins)
        self.scores = self._branch(channels, max(channels, min(classes, 100)), classes)

    @staticmethod
    def _branch(channels: int, hidden: int, channels_out: int) -> nn.Sequential:
        entering, middle = _convolution(channels, hidden, 3), _convolution(hidden, hidden, 3)
        return nn.Sequential(entering, middle, nn.Conv2d(hidden, channels_out, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat((self.boxes(x), self.scores(x)), dim=1).flatten(2)


class Detector(nn.Module):
    """Maps images ``(N, 3, H, W)`` (extents divisible by 32) to ``(N, 4 + classes, positions)``: boxes in pixels, scores."""

    def __init__(self, widths: Sequence[int], depths: Sequence[int], bins: int = 16, classes: int = 80, size: int = 640) -> None:
        super().__init__()
        w1, w2, w3, w4, w5 = widths
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(_convolution(3, w1, 3, 2), _convolution(w1, w2, 3, 2), SplitBlock(w2, w2, depths[0], True))
        self.stage3 = nn.Sequential(_convolution(w2, w3, 3, 2), SplitBlock(w3, w3, depths[1], True))
        self.stage4 = nn.Sequential(_convolution(w3, w4, 3, 2), SplitBlock(w4, w4, depths[2], True))
        self.stage5 = nn.Sequential(_convolution(w4, w5, 3, 2), SplitBlock(w5, w5, depths[3], True), PyramidPool(w5))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.up4 = SplitBlock(w5 + w4, w4, depths[0], False)
        self.up3 = SplitBlock(w4 + w3, w3, depths[0], False)
        self.to4 = _convolution(w3, w3, 3, 2)
        self.down4 = SplitBlock(w3 + w4, w4, depths[0], False)
        self.to5 = _convolution(w4, w4, 3, 2)
        self.down5 = SplitBlock(w4 + w5, w5, depths[0], False)
        self.heads = nn.ModuleList(Head(w, bins, classes, max(16, w3 // 4, 4 * bins)) for w in (w3, w4, w5))
        self._register_positions(size)

    def _register_positions(self, size: int) -> None:
        centres, strides = [], []
        for stride in (8, 16, 32):
            axis = torch.arange(size // stride) + 0.5
            rows, columns = torch.meshgrid(axis, axis, indexing="ij")
            centres.append(torch.stack((columns.flatten(), rows.flatten())))
            strides.append(torch.full((1, rows.numel()), float(stride)))
        self.register_buffer("centres", torch.cat(centres, dim=1), persistent=False)
        self.register_buffer("strides", torch.cat(strides, dim=1), persistent=False)
        self.register_buffer("distances", torch.arange(self.bins, dtype=torch.float32), persistent=False)

    def _features(self, x: torch.Tensor) -> list[torch.Tensor]:
        x2 = self.stem(x)
        x3 = self.stage3(x2)
        x4 = self.stage4(x3)
        x5 = self.stage5(x4)
        y4 = self.up4(torch.cat((self.up(x5), x4), dim=1))
        y3 = self.up3(torch.cat((self.up(y4), x3), dim=1))
        z4 = self.down4(torch.cat((self.to4(y3), y4), dim=1))
        return [y3, z4, self.down5(torch.cat((self.to5(z4), x5), dim=1))]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.cat([head(feature) for head, feature in zip(self.heads, self._features(x))], dim=2)
        boxes, scores = found.split((4 * self.bins, self.classes), dim=1)
        spread = boxes.view(boxes.shape[0], 4, self.bins, boxes.shape[2]).softmax(dim=2)
        distances = (spread * self.distances.view(1, 1, -1, 1)).sum(dim=2)
        before, after = distances.chunk(2, dim=1)
        low, high = self.centres - before, self.centres + after
        return torch.cat(((low + high) / 2 * self.strides, (high - low) * self.strides, scores.sigmoid()), dim=1)


def full() -> nn.Module:
    """The size of YOLOv8-n on 640x640 images: 3.2 million parameters."""
    return Detector((16, 32, 64, 128, 256), (1, 2, 2, 1))


def small() -> nn.Module:
    """One bottleneck in each block, up to 24 channels, 32x32 images."""
    return Detector((4, 8, 12, 16, 24), (1, 1, 1, 1), bins=4, classes=5, size=32)
