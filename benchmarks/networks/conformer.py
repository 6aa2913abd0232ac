"""A conformer encoder (Gulati et al., 2020, arXiv:2005.08100), with attention to relative positions as Transformer-XL has it."""

from __future__ import annotations

import math

import torch
from torch import nn


class RelativeAttention(nn.Module):
    """Attention whose scores have a term for how far apart two frames are."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.leave = (nn.Linear(width, width) for _ in range(4))
        self.distance = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, 1, width // heads))
        self.distance_bias = nn.Parameter(torch.zeros(heads, 1, width // heads))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
        query, key, value = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        content = (query + self.content_bias) @ key.transpose(2, 3)
        position = _shifted((query + self.distance_bias) @ self._split(self.distance(distances)).transpose(2, 3))
        scores = ((content + position) / math.sqrt(query.shape[3])).softmax(dim=3)
        return self.leave((scores @ value).transpose(1, 2).flatten(2))


def _shifted(scores: torch.Tensor) -> torch.Tensor:
    """From columns of distances ``(N, heads, T, 2T - 1)`` to columns of frames ``(N, heads, T, T)``."""
    batch, heads, frames, columns = scores.shape
    padded = nn.functional.pad(scores, (1, 0)).view(batch, heads, columns + 1, frames)
    return padded[:, :, 1:].view(batch, heads, frames, columns)[..., :frames]


class ConvolutionModule(nn.Module):
    """A gated product, a filter of each channel over 31 frames, and a product."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.enter = nn.Conv1d(width, 2 * width, 1)
        self.filter = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.BatchNorm1d(width)
        self.leave = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.glu(self.enter(x.transpose(1, 2)), dim=1)
        return self.leave(nn.functional.silu(self.norm(self.filter(hidden)))).transpose(1, 2)


class ConformerLayer(nn.Module):
    """Half of a feed-forward network, attention, convolution, the other half; each after a normalization."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.before, self.after = (
            nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)) for _ in range(2)
        )
        self.attention = RelativeAttention(width, heads)
        self.convolution = ConvolutionModule(width, kernel)

    def forward(self, x: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
        x = x + 0.5 * self.before(self.norms[0](x))
        x = x + self.attention(self.norms[1](x), distances)
        x = x + self.convolution(self.norms[2](x))
        return self.norms[4](x + 0.5 * self.after(self.norms[3](x)))


class Conformer(nn.Module):
    """Maps spectra ``(N, mels, frames)`` to states ``(N, frames / 4, width)``; the division rounds up, twice by two."""

    def __init__(self, mels: int, layers: int, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.width = width
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU()
        )
        self.enter = nn.Linear(width * -(-mels // 4), width)
        self.layers = nn.ModuleList(ConformerLayer(width, heads, kernel) for _ in range(layers))
        self.register_buffer("rates", torch.exp(-math.log(1e4) / width * torch.arange(0, width, 2)), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.stem(x.unsqueeze(1).transpose(2, 3))
        x = self.enter(found.transpose(1, 2).flatten(2))
        frames = x.shape[1]
        steps = torch.arange(frames - 1, -frames, -1)
        angles = steps.float()[:, None] * self.rates
        distances = torch.stack((angles.sin(), angles.cos()), dim=2).view(1, -1, self.width)
        for layer in self.layers:
            x = layer(x, distances)
        return x


def full() -> nn.Module:
    """The size of the small conformer, with eight of its sixteen layers: 6 million parameters."""
    return Conformer(mels=80, layers=8, width=144, heads=4, kernel=31)


def small() -> nn.Module:
    """Two layers of 16 channels."""
    return Conformer(mels=10, layers=2, width=16, heads=2, kernel=7)
