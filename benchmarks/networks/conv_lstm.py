"""ConvLSTM (Shi et al., 2015, arXiv:1506.04214): a recurrent layer whose products are convolutions."""

from __future__ import annotations

import torch
from torch import nn


class Cell(nn.Module):
    """One step: all gates are one convolution of the input and the hidden state."""

    def __init__(self, channels: int, hidden: int, kernel: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(channels + hidden, 4 * hidden, kernel, padding=kernel // 2)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        opened, kept, new, shown = self.gates(torch.cat((x, hidden), dim=1)).chunk(4, dim=1)
        cell = torch.sigmoid(kept) * cell + torch.sigmoid(opened) * torch.tanh(new)
        return torch.sigmoid(shown) * torch.tanh(cell), cell


class ConvLSTM(nn.Module):
    """Maps the last frames of a film ``(N, frames, H, W)`` to the next frame ``(N, 1, H, W)``."""

    def __init__(self, frames: int, widths: tuple[int, ...], kernel: int) -> None:
        super().__init__()
        self.frames = frames
        self.cells = nn.ModuleList(
            Cell(before, after, kernel) for before, after in zip([1, *widths[:-1]], widths, strict=True)
        )
        self.head = nn.Conv2d(widths[-1], 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        empty = torch.zeros_like(x[:, :1])
        states = [(empty.expand(-1, cell.hidden, -1, -1),) * 2 for cell in self.cells]
        for frame in range(self.frames):
            shown = x[:, frame : frame + 1]
            for number, cell in enumerate(self.cells):
                states[number] = cell(shown, *states[number])
                shown = states[number][0]
        return self.head(states[-1][0])


def full() -> nn.Module:
    """Two layers of 32 channels, four frames: 0.1 million parameters."""
    return ConvLSTM(4, (32, 32), kernel=3)


def small() -> nn.Module:
    """Two layers of 4 channels, two frames."""
    return ConvLSTM(2, (4, 4), kernel=3)
