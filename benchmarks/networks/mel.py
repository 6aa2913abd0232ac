"""The logarithms of mel spectra that speech models hear (as Whisper's front end: Radford et al., 2022, arXiv:2212.04356).

The Fourier transform of a window is a convolution with sines and cosines, as exporters without an operator for it write.
"""

from __future__ import annotations

import math

import torch
from torch import nn

_RATE = 16_000


class MelSpectrum(nn.Module):
    """Maps samples ``(N, samples)`` to ``(N, bands, frames)``; a frame is made of ``window`` samples, ``hop`` apart."""

    def __init__(self, window: int, hop: int, bands: int) -> None:
        super().__init__()
        self.window, self.hop = window, hop
        bins = window // 2 + 1
        angles = 2 * math.pi * torch.outer(torch.arange(bins), torch.arange(window)) / window
        waves = torch.cat([torch.cos(angles), -torch.sin(angles)]) * torch.hann_window(window)
        self.register_buffer("waves", waves[:, None, :])
        self.register_buffer("bands", _triangles(bins, bands))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(x.unsqueeze(1), (self.window // 2, self.window // 2), mode="reflect")
        spectrum = nn.functional.conv1d(padded, self.waves, stride=self.hop)
        real, imaginary = spectrum.chunk(2, dim=1)
        loud = torch.log10(torch.clamp(self.bands @ (real * real + imaginary * imaginary), min=1e-10))
        return (torch.maximum(loud, loud.amax((1, 2), keepdim=True) - 8.0) + 4.0) / 4.0


def _triangles(bins: int, bands: int) -> torch.Tensor:
    """Weights ``(bands, bins)`` of overlapping triangles, evenly spaced in mels."""
    highest = 2595 * math.log10(1 + _RATE / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, highest, bands + 2) / 2595) - 1)
    hertz = torch.linspace(0, _RATE / 2, bins)
    rising = (hertz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - hertz) / (edges[2:] - edges[1:-1])[:, None]
    return torch.clamp(torch.minimum(rising, falling), min=0)


def full() -> nn.Module:
    """80 bands of 25 ms, each 10 ms."""
    return MelSpectrum(window=400, hop=160, bands=80)


def small() -> nn.Module:
    """6 bands of 32 samples."""
    return MelSpectrum(window=32, hop=8, bands=6)
