"""The feature encoder of wav2vec 2.0 (Baevski et al., 2020, arXiv:2006.11477): seven convolutions over samples."""

from __future__ import annotations

import torch
from torch import nn

_KERNELS, _STRIDES = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)


class FeatureEncoder(nn.Module):
    """Maps samples ``(N, samples)`` to features ``(N, frames, projected)``; a frame is made of 400 samples, 320 apart."""

    def __init__(self, width: int, projected: int) -> None:
        super().__init__()
        widths = [1, *[width] * len(_KERNELS)]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, width, kernel, stride=stride, bias=False)
            for before, kernel, stride in zip(widths, _KERNELS, _STRIDES, strict=False)
        )
        self.first_norm = nn.GroupNorm(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, projected)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.unsqueeze(1)
        for number, convolution in enumerate(self.convolutions):
            x = convolution(x)
            x = nn.functional.gelu(self.first_norm(x) if number == 0 else 2 * x)
        return self.head(self.norm(x.transpose(1, 2)))


def full() -> nn.Module:
    """Half as wide as the published one: 1.2 million parameters."""
    return FeatureEncoder(width=256, projected=768)


def small() -> nn.Module:
    """Of 8 channels."""
    return FeatureEncoder(width=8, projected=12)
