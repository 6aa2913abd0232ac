"""BERT encoder (Devlin et al., 2019, arXiv:1810.04805), attention written out in matrix products."""

from __future__ import annotations

import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    """Multi-head attention with an additive mask ``(N, 1, 1, L)``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query, key, value = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
        context = torch.matmul(torch.softmax(scores + mask, dim=-1), value)
        return self.output(context.transpose(1, 2).contiguous().view(x.shape))


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each followed by residual addition and layer normalization."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.feed_forward_norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.attention_norm(x + self.attention(x, mask))
        return self.feed_forward_norm(x + self.feed_forward(x))


class Bert(nn.Module):
    """Maps token ids, a 0/1 mask and segment ids, all ``(N, L)`` int64, to ``(N, L, width)`` and ``(N, width)``."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, positions: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        self.register_buffer("position_ids", torch.arange(positions).unsqueeze(0), persistent=False)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        position_ids = self.position_ids[:, : input_ids.shape[1]]
        embedded = self.tokens(input_ids) + self.segments(token_type_ids) + self.positions(position_ids)
        mask = (1.0 - attention_mask[:, None, None, :].to(embedded.dtype)) * torch.finfo(embedded.dtype).min
        x = self.norm(embedded)
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


def full() -> nn.Module:
    """BERT-base uncased: 109 million parameters."""
    return Bert(layers=12, width=768, heads=12, vocabulary=30522, positions=512)


def small() -> nn.Module:
    """Two layers of 32 channels."""
    return Bert(layers=2, width=32, heads=4, vocabulary=97, positions=64)


def minilm() -> nn.Module:
    """The size of MiniLM-L6: 23 million parameters."""
    return Bert(layers=6, width=384, heads=12, vocabulary=30522, positions=512)
