"""Vocoders: HiFi-GAN (Kong et al., 2020, arXiv:2010.05646), and a decoder in the manner of VITS (Kim et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import nn

_SLOPE = 0.1


class Residuals(nn.Module):
    """Pairs of a dilated and a plain convolution, each added to its input."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.wide = nn.ModuleList(_same(channels, kernel, dilation) for dilation in dilations)
        self.plain = nn.ModuleList(_same(channels, kernel, 1) for _ in dilations)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for wide, plain in zip(self.wide, self.plain, strict=True):
            x = x + 0.3 * plain(_leaky(wide(_leaky(x))))
        return x


def _same(channels: int, kernel: int, dilation: int) -> nn.Conv1d:
    return nn.Conv1d(channels, channels, kernel, dilation=dilation, padding=dilation * (kernel // 2))


def _leaky(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.leaky_relu(x, _SLOPE)


class Generator(nn.Module):
    """Maps spectra ``(N, mels, frames)`` to samples ``(N, 1, frames * product of the rates)``."""

    def __init__(self, mels: int, channels: int, rates: Sequence[int], kernels: Sequence[int], dilations: Sequence[int]) -> None:
        super().__init__()
        self.first = nn.Conv1d(mels, channels, 7, padding=3)
        widths = [channels >> level for level in range(len(rates) + 1)]
        self.upsamplers = nn.ModuleList(
            nn.ConvTranspose1d(before, after, 2 * rate, stride=rate, padding=rate // 2)
            for before, after, rate in zip(widths[:-1], widths[1:], rates, strict=True)
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(Residuals(width, kernel, dilations) for kernel in kernels) for width in widths[1:]
        )
        self.last = nn.Conv1d(widths[-1], 1, 7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for upsampler, blocks in zip(self.upsamplers, self.blocks, strict=True):
            x = upsampler(_leaky(x))
            x = reduce(torch.add, (block(x) for block in blocks)) / len(blocks)
        return torch.tanh(self.last(_leaky(x)))


class Coupling(nn.Module):
    """A flow's step backwards: a gated network of dilated convolutions on one half is taken from the other half."""

    def __init__(self, channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.enter = nn.Conv1d(channels // 2, hidden, 1)
        self.wide = nn.ModuleList(nn.Conv1d(hidden, 2 * hidden, 5, padding=2) for _ in range(layers))
        self.plain = nn.ModuleList(nn.Conv1d(hidden, 2 * hidden, 1) for _ in range(layers))
        self.leave = nn.Conv1d(hidden, channels // 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, moved = x.chunk(2, dim=1)
        hidden = self.enter(kept)
        skipped = torch.zeros_like(hidden)
        for wide, plain in zip(self.wide, self.plain, strict=True):
            opened, gate = wide(hidden).chunk(2, dim=1)
            residual, skip = plain(torch.tanh(opened) * torch.sigmoid(gate)).chunk(2, dim=1)
            hidden = hidden + residual
            skipped = skipped + skip
        return torch.cat((moved - self.leave(skipped), kept), dim=1)


class FlowDecoder(nn.Module):
    """Maps latent values ``(N, channels, frames)`` through a flow to samples."""

    def __init__(self, channels: int, hidden: int, flows: int, generator: Generator) -> None:
        super().__init__()
        self.flows = nn.ModuleList(Coupling(channels, hidden, layers=4) for _ in range(flows))
        self.generator = generator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for flow in self.flows:
            x = flow(x)
        return self.generator(x)


def hifigan() -> nn.Module:
    """HiFi-GAN V2: 0.9 million parameters, 256 samples a frame."""
    return Generator(80, 128, rates=(8, 8, 2, 2), kernels=(3, 7, 11), dilations=(1, 3, 5))


def small_hifigan() -> nn.Module:
    """Two upsamplings of up to 16 channels."""
    return Generator(10, 16, rates=(4, 2), kernels=(3, 5), dilations=(1, 2))


def vits() -> nn.Module:
    """Four steps of a flow over 192 channels, then a generator of half the published width, 256 samples a frame."""
    return FlowDecoder(192, 192, 4, Generator(192, 256, rates=(8, 8, 2, 2), kernels=(3, 5, 7), dilations=(1, 3)))


def small_vits() -> nn.Module:
    """Two steps of a flow over 8 channels."""
    return FlowDecoder(8, 8, 2, Generator(8, 16, rates=(4, 2), kernels=(3, 5), dilations=(1, 2)))
