"""A decoder in the manner of Llama (Touvron et al., 2023): RMS norm, rotary positions, grouped heads, SwiGLU, a cache of keys."""

from __future__ import annotations

import math

import torch
from torch import nn


class RMSNorm(nn.Module):
    """``x / sqrt(mean(x^2) + epsilon) * weight``."""

    is_normalization = True

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def _rotated(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-second, first), dim=-1) * sines


class Attention(nn.Module):
    """Causal attention of new positions over cached and new ones; several query heads share a key and value head."""

    def __init__(self, width: int, heads: int, shared_heads: int) -> None:
        super().__init__()
        self.heads, self.shared_heads, self.size = heads, shared_heads, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared_heads * self.size, bias=False)
        self.value = nn.Linear(width, shared_heads * self.size, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def _split(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], heads, self.size).transpose(1, 2)

    def forward(
        self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor,
        cache: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        query = _rotated(self._split(self.query(x), self.heads), *rotation)
        key = _rotated(self._split(self.key(x), self.shared_heads), *rotation)
        value = self._split(self.value(x), self.shared_heads)
        if cache is not None:
            key, value = torch.cat((cache[0], key), dim=2), torch.cat((cache[1], value), dim=2)
        batch, length, groups = x.shape[0], x.shape[1], self.heads // self.shared_heads
        grouped = query.reshape(batch, self.shared_heads, groups * length, self.size)
        scores = torch.matmul(grouped, key.transpose(-1, -2)) / math.sqrt(self.size)
        scores = scores.view(batch, self.shared_heads, groups, length, key.shape[2]) + mask
        spread = torch.softmax(scores, dim=-1).view(batch, self.shared_heads, groups * length, key.shape[2])
        context = torch.matmul(spread, value).view(batch, self.heads, length, self.size)
        return self.output(context.transpose(1, 2).reshape(x.shape)), key, value


class Layer(nn.Module):
    """Attention and a gated feed-forward network, each behind a normalization."""

    def __init__(self, width: int, heads: int, shared_heads: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm, self.feed_forward_norm = RMSNorm(width), RMSNorm(width)
        self.attention = Attention(width, heads, shared_heads)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Decoder(nn.Module):
    """Maps token ids ``(N, L)`` and cached keys and values to logits of the last position and the longer caches.

    Caches are two tensors ``(N, layers, shared heads, past, size)``; without them ``past`` is 0.
    """

    def __init__(self, layers: int, width: int, heads: int, shared_heads: int, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads, shared_heads, hidden) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocabulary)
        size = width // heads
        self.register_buffer("frequencies", 1e4 ** (-torch.arange(0, size, 2).float() / size), persistent=False)

    def forward(
        self, input_ids: torch.Tensor, keys: torch.Tensor | None = None, values: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, ...]:
        past = 0 if keys is None else keys.shape[3]
        length = input_ids.shape[1]
        angles = torch.arange(past, past + length).float()[:, None] * self.frequencies[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        rotation = (torch.cos(angles), torch.sin(angles))
        mask = torch.full((length, past + length), -1e9).triu(past + 1)
        x = self.tokens(input_ids)
        new_keys, new_values = [], []
        for index, layer in enumerate(self.layers):
            cache = None if keys is None or values is None else (keys[:, index], values[:, index])
            attended, key, value = layer.attention(layer.attention_norm(x), rotation, mask, cache)
            x = x + attended
            x = x + layer.feed_forward(layer.feed_forward_norm(x))
            new_keys.append(key)
            new_values.append(value)
        logits = self.head(self.norm(x[:, -1]))
        return (logits,) if keys is None else (logits, torch.stack(new_keys, 1), torch.stack(new_values, 1))


def full() -> nn.Module:
    """Four layers: 45 million parameters in the layers and the head."""
    return Decoder(layers=4, width=768, heads=12, shared_heads=4, hidden=2048, vocabulary=32000)


def small() -> nn.Module:
    """Two layers of 32 channels."""
    return Decoder(layers=2, width=32, heads=4, shared_heads=2, hidden=48, vocabulary=97)
