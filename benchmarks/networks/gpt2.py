"""GPT-2 (Radford et al., 2019): pre-normalized causal decoder with a head tied to the token embedding."""

from __future__ import annotations

import math

import torch
from torch import nn


class Affine(nn.Module):
    """``x @ weight + bias`` with the weight stored ``(inputs, outputs)``, as in the published checkpoints."""

    weights_are_input_major = True

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight)
        return flat.view(*x.shape[:-1], self.bias.shape[0])


class CausalAttention(nn.Module):
    """Fused query, key and value projection; positions see themselves and what is before them."""

    def __init__(self, width: int, heads: int, positions: int) -> None:
        super().__init__()
        self.heads = heads
        self.projection = Affine(width, 3 * width)
        self.output = Affine(width, width)
        causal = torch.ones(positions, positions, dtype=torch.bool).tril()
        self.register_buffer("causal", causal.view(1, 1, positions, positions), persistent=False)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length, width = x.shape[1], x.shape[2]
        query, key, value = (self._split(part) for part in self.projection(x).split(width, dim=2))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
        blocked = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype)
        scores = torch.where(self.causal[:, :, :length, :length], scores, blocked)
        context = torch.matmul(torch.softmax(scores, dim=-1), value)
        return self.output(context.permute(0, 2, 1, 3).contiguous().view(x.shape))


class DecoderLayer(nn.Module):
    """Causal attention and a feed-forward network with the tanh form of GELU."""

    def __init__(self, width: int, heads: int, positions: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads, positions)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.expand = Affine(width, 4 * width)
        self.contract = Affine(4 * width, width)

    def _activation(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.contract(self._activation(self.expand(self.feed_forward_norm(x))))


class GPT2(nn.Module):
    """Maps token ids ``(N, L)`` int64 to logits ``(N, L, vocabulary)``."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, positions: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, positions) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        position_ids = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        x = self.tokens(input_ids) + self.positions(position_ids)
        for layer in self.layers:
            x = layer(x)
        return nn.functional.linear(self.norm(x), self.tokens.weight)


def full() -> nn.Module:
    """GPT-2 small: 124 million parameters."""
    return GPT2(layers=12, width=768, heads=12, vocabulary=50257, positions=1024)


def small() -> nn.Module:
    """Two layers of 32 channels."""
    return GPT2(layers=2, width=32, heads=4, vocabulary=97, positions=64)
