"""A stacked LSTM (Hochreiter and Schmidhuber, 1997) with a linear head on the last step."""

from __future__ import annotations

import torch
from torch import nn


class LSTMClassifier(nn.Module):
    """Maps sequences ``(N, steps, features)`` to logits ``(N, classes)`` and all states ``(N, steps, hidden)``."""

    def __init__(self, features: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, _ = self.lstm(x)
        return self.head(states[:, -1]), states


def full() -> nn.Module:
    """Two layers of 256 hidden units."""
    return LSTMClassifier(features=128, hidden=256, layers=2, classes=10)


def small() -> nn.Module:
    """Two layers of 16 hidden units."""
    return LSTMClassifier(features=8, hidden=16, layers=2, classes=10)
