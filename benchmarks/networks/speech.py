"""A speech encoder in the manner of Whisper (Radford et al., 2022): 1-D convolutions over mel frames, then attention."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.networks import encoder, vit


def _sinusoids(length: int, width: int) -> torch.Tensor:
    rates = torch.exp(-math.log(10000.0) / (width // 2 - 1) * torch.arange(width // 2))
    angles = torch.arange(length)[:, None] * rates[None, :]
    return torch.cat((angles.sin(), angles.cos()), dim=1)


class SpeechEncoder(nn.Module):
    """Maps spectrograms ``(N, mels, frames)`` to states ``(N, frames / 2, width)``; ``frames`` is the most it takes."""

    def __init__(
        self, mels: int, frames: int, layers: int, width: int, heads: int, layer: Callable[..., nn.Module] = vit.EncoderLayer
    ) -> None:
        super().__init__()
        self.first = nn.Conv1d(mels, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.layers = nn.Sequential(*(layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("positions", _sinusoids(frames // 2, width), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.gelu(self.second(nn.functional.gelu(self.first(x)))).permute(0, 2, 1)
        return self.norm(self.layers(x + self.positions[: x.shape[1]]))


def full() -> nn.Module:
    """The size of Whisper tiny's encoder on ten seconds: 8 million parameters."""
    return SpeechEncoder(mels=80, frames=1000, layers=4, width=384, heads=6)


def small() -> nn.Module:
    """Two layers of 32 channels over 24 frames."""
    return SpeechEncoder(mels=10, frames=24, layers=2, width=32, heads=4)


def whisper() -> nn.Module:
    """Whisper tiny's encoder, for up to thirty seconds."""
    return SpeechEncoder(mels=80, frames=3000, layers=4, width=384, heads=6, layer=encoder.EncoderLayer)


def small_whisper() -> nn.Module:
    """Two layers of 32 channels, up to 96 frames."""
    return SpeechEncoder(mels=10, frames=96, layers=2, width=32, heads=4, layer=encoder.EncoderLayer)
