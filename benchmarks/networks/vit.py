"""Vision transformer (Dosovitskiy et al., 2021, arXiv:2010.11929) on torch's own multi-head attention."""

from __future__ import annotations

import torch
from torch import nn


class EncoderLayer(nn.Module):
    """Pre-normalized attention and feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed_forward_norm = nn.LayerNorm(width, eps=1e-6)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normalized = self.attention_norm(x)
        attended, _ = self.attention(normalized, normalized, normalized, need_weights=False)
        x = x + attended
        return x + self.feed_forward(self.feed_forward_norm(x))


class VisionTransformer(nn.Module):
    """Maps images ``(N, 3, size, size)`` to logits ``(N, classes)``."""

    def __init__(self, size: int, patch: int, layers: int, width: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(*(EncoderLayer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = self.patches(x).flatten(2).permute(0, 2, 1)
        tokens = torch.cat((self.class_token.expand(x.shape[0], -1, -1), patches), dim=1)
        encoded = self.norm(self.layers(tokens + self.positions))
        return self.head(encoded[:, 0])


def full() -> nn.Module:
    """ViT-B/16: 86 million parameters."""
    return VisionTransformer(size=224, patch=16, layers=12, width=768, heads=12, classes=1000)


def small() -> nn.Module:
    """Two layers of 32 channels on 32x32 images."""
    return VisionTransformer(size=32, patch=8, layers=2, width=32, heads=4, classes=10)
