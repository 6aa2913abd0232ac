"""MobileNetV3 (Howard et al., 2019, arXiv:1905.02244)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

Block = tuple[int, int, int, bool, bool, int]
"""Kernel, expanded channels, output channels, squeeze and excite, hard swish (else ReLU), stride."""

_BLOCKS: tuple[Block, ...] = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


def convolution(
    channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1,
    activation: Callable[[], nn.Module] | None = None,
) -> nn.Sequential:
    """A convolution that keeps the picture's size (at stride 1), batch norm, and an activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels_out),
    ]
    return nn.Sequential(*layers, *([] if activation is None else [activation()]))


class SqueezeExcite(nn.Module):
    """Weighs each channel by a small network of the means of all channels (Hu et al., 2018)."""

    def __init__(self, channels: int, hidden: int, inner: Callable[[], nn.Module], gate: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.gate = nn.Sequential(nn.Conv2d(channels, hidden, 1), inner(), nn.Conv2d(hidden, channels, 1), gate())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(nn.functional.adaptive_avg_pool2d(x, 1))


class Bottleneck(nn.Module):
    """Expand, filter depthwise, perhaps weigh the channels, project; adds the input where the shapes allow."""

    def __init__(self, channels_in: int, block: Block) -> None:
        super().__init__()
        kernel, hidden, channels_out, squeezes, swishes, stride = block
        activation = nn.Hardswish if swishes else nn.ReLU
        layers: list[nn.Module] = [] if hidden == channels_in else [convolution(channels_in, hidden, 1, activation=activation)]
        layers.append(convolution(hidden, hidden, kernel, stride, groups=hidden, activation=activation))
        if squeezes:
            layers.append(SqueezeExcite(hidden, max(8, (hidden // 4 + 4) // 8 * 8), nn.ReLU, nn.Hardsigmoid))
        layers.append(convolution(hidden, channels_out, 1))
        self.residual = nn.Sequential(*layers)
        self.adds_input = stride == 1 and channels_in == channels_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.residual(x) if self.adds_input else self.residual(x)


class MobileNetV3(nn.Module):
    """Maps images ``(N, 3, H, W)`` to logits ``(N, classes)``."""

    def __init__(self, blocks: Sequence[Block], stem: int = 16, last: int = 960, hidden: int = 1280, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [convolution(3, stem, 3, 2, activation=nn.Hardswish)]
        channels = stem
        for block in blocks:
            layers.append(Bottleneck(channels, block))
            channels = block[2]
        layers.append(convolution(channels, last, 1, activation=nn.Hardswish))
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(last, hidden), nn.Hardswish(), nn.Linear(hidden, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(self.features(x), 1), 1))


def full() -> nn.Module:
    """MobileNetV3-Large: 5.5 million parameters."""
    return MobileNetV3(_BLOCKS)


def small() -> nn.Module:
    """Three blocks of up to 20 channels."""
    blocks = ((3, 8, 8, False, False, 1), (5, 24, 12, True, False, 2), (3, 36, 20, True, True, 2))
    return MobileNetV3(blocks, stem=8, last=40, hidden=24, classes=10)
