"""Detectors for images of any size: the one-stage detector of `benchmarks.networks.yolo`, and EfficientDet (Tan et al., 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import nn

from benchmarks.networks.efficientnet import MBConv, Stage
from benchmarks.networks.mobilenetv3 import convolution
from benchmarks.networks.yolo import Detector


class AnySizeDetector(Detector):
    """Maps images ``(N, 3, H, W)`` to boxes ``(N, positions, 4)`` and scores ``(N, classes, positions)``, ready for suppression.

    H and W are divisible by 32. Boxes are corners in pixels.
    """

    rarity = 6.0
    """Taken from the logits of classes: of a trained detector, few positions have any object."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self._features(x)
        found = torch.cat([head(feature) for head, feature in zip(self.heads, features, strict=True)], dim=2)
        boxes, scores = found.split((4 * self.bins, self.classes), dim=1)
        spread = boxes.view(boxes.shape[0], 4, self.bins, boxes.shape[2]).softmax(dim=2)
        distances = (spread * self.distances.view(1, 1, -1, 1)).sum(dim=2)
        before, after = distances.chunk(2, dim=1)
        centres, strides = self._positions(features)
        corners = torch.cat((centres - before, centres + after), dim=1) * strides
        return corners.transpose(1, 2), (scores - self.rarity).sigmoid()

    @staticmethod
    def _positions(features: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Centres in steps of the grids, and these steps in pixels."""
        centres, strides = [], []
        for feature, stride in zip(features, (8.0, 16.0, 32.0), strict=True):
            height, width = feature.shape[2:]
            rows, columns = torch.arange(height) + 0.5, torch.arange(width) + 0.5
            grid = torch.meshgrid(rows, columns, indexing="ij")
            centre = torch.stack((grid[1].flatten(), grid[0].flatten()))
            centres.append(centre)
            strides.append(torch.full_like(centre[:1], stride))
        return torch.cat(centres, dim=1), torch.cat(strides, dim=1)


def yolo() -> nn.Module:
    """The size of YOLOv8-n: 3.2 million parameters."""
    return AnySizeDetector((16, 32, 64, 128, 256), (1, 2, 2, 1))


def small_yolo() -> nn.Module:
    """One bottleneck in each block, up to 24 channels."""
    made = AnySizeDetector((4, 8, 12, 16, 24), (1, 1, 1, 1), bins=4, classes=5)
    made.rarity = 2.0
    return made


class SeparableConvolution(nn.Sequential):
    """A 3x3 filter for each channel and a product over the channels."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        depthwise = nn.Conv2d(channels_in, channels_in, 3, padding=1, groups=channels_in, bias=False)
        super().__init__(depthwise, nn.Conv2d(channels_in, channels_out, 1))


class Fusion(nn.Module):
    """A weighted mean of features, whose weights are learnt, and a separable convolution."""

    def __init__(self, count: int, channels: int) -> None:
        super().__init__()
        self.shares = nn.Parameter(torch.ones(count, 1))
        self.convolution = nn.Sequential(nn.SiLU(), SeparableConvolution(channels, channels), nn.BatchNorm2d(channels))

    def forward(self, *features: torch.Tensor) -> torch.Tensor:
        shares = torch.relu(self.shares) + 0.1
        shares = shares / shares.sum()
        return self.convolution(reduce(torch.add, (share * feature for share, feature in zip(shares, features, strict=True))))


class TwoWayPyramid(nn.Module):
    """One layer of BiFPN: five scales are joined from coarse to fine, and back."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(Fusion(2, channels) for _ in range(4))
        self.back = nn.ModuleList(Fusion(2 if last else 3, channels) for last in (False, False, False, True))
        self.widen = nn.Upsample(scale_factor=2, mode="nearest")
        self.shrink = nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, features: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        inner = [features[4]]
        for level, fuse in zip((3, 2, 1, 0), self.down, strict=True):
            inner.insert(0, fuse(features[level], self.widen(inner[0])))
        found = [inner[0]]
        for level, fuse in zip((1, 2, 3, 4), self.back, strict=True):
            kept = (features[level],) if level == 4 else (features[level], inner[level])
            found.append(fuse(*kept, self.shrink(found[-1])))
        return found


class EfficientDet(nn.Module):
    """Maps images ``(N, 3, H, W)`` to ``(N, positions, 4 + classes)``, nine positions a cell; H and W divisible by 128."""

    def __init__(self, stages: Sequence[Stage], taken: Sequence[int], channels: int, layers: int, classes: int) -> None:
        super().__init__()
        self.stem = convolution(3, 32, 3, 2, activation=nn.SiLU)
        self.stages = nn.ModuleList()
        before, widths = 32, []
        for expansion, kernel, width, count, stride in stages:
            blocks = [MBConv(width if k else before, width, kernel, 1 if k else stride, expansion) for k in range(count)]
            self.stages.append(nn.Sequential(*blocks))
            before = width
            widths.append(width)
        self.taken = tuple(taken)
        self.laterals = nn.ModuleList(convolution(widths[k], channels, 1) for k in taken)
        self.coarser = convolution(before, channels, 1)
        self.shrink = nn.MaxPool2d(3, stride=2, padding=1)
        self.pyramid = nn.ModuleList(TwoWayPyramid(channels) for _ in range(layers))
        self.tower = nn.Sequential(
            *(nn.Sequential(SeparableConvolution(channels, channels), nn.BatchNorm2d(channels), nn.SiLU()) for _ in range(3))
        )
        self.predict = SeparableConvolution(channels, 9 * (4 + classes))
        self.columns = 4 + classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        kept = []
        for stage in self.stages:
            x = stage(x)
            kept.append(x)
        features = [lateral(kept[k]) for k, lateral in zip(self.taken, self.laterals, strict=True)]
        features.append(self.shrink(self.coarser(x)))
        features.append(self.shrink(features[-1]))
        for layer in self.pyramid:
            features = layer(features)
        found = [self.predict(self.tower(feature)).permute(0, 2, 3, 1).flatten(1) for feature in features]
        return torch.cat(found, dim=1).reshape(x.shape[0], -1, self.columns).sigmoid()


_STAGES: tuple[Stage, ...] = (
    (1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1), (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)


def efficientdet() -> nn.Module:
    """The size of EfficientDet-D0: 3.8 million parameters, with one tower for boxes and classes."""
    return EfficientDet(_STAGES, taken=(2, 4, 6), channels=64, layers=3, classes=90)


def small_efficientdet() -> nn.Module:
    """One layer of the pyramid, up to 16 channels."""
    stages = ((1, 3, 4, 1, 1), (4, 3, 8, 1, 2), (4, 5, 8, 1, 2), (4, 3, 12, 1, 2), (4, 5, 16, 1, 2))
    return EfficientDet(stages, taken=(2, 3, 4), channels=8, layers=1, classes=3)
