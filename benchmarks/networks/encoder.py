"""A layer of attention over any number of tokens.

Torch's own `nn.MultiheadAttention` is traced with the number of tokens of the example.
"""

from __future__ import annotations

import torch
from torch import nn


class EncoderLayer(nn.Module):
    """Pre-normalized attention and feed-forward network over ``(N, tokens, width)``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.enter = nn.Linear(width, 3 * width)
        self.leave = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.enter(self.attention_norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.leave(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.feed_forward(self.feed_forward_norm(x))
