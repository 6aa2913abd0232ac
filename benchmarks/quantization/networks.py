"""The networks that are trained, those of ``benchmarks/networks`` in small sizes among them."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.networks.bert import SelfAttention
from benchmarks.networks.mlp import perceptron
from benchmarks.networks.mobilenet import MobileNetV2
from benchmarks.networks.resnet import ResNet
from benchmarks.quantization import data

STRIDE = 8
"""Pixels from one cell of the detector to the next."""


def _convolution(channels_in: int, channels_out: int, stride: int, activation: type[nn.Module]) -> list[nn.Module]:
    convolution = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(channels_out), activation()]


def plain() -> nn.Module:
    """Three convolutions and two linear layers for digits of 8x8 pixels, without normalization."""
    layers: list[nn.Module] = []
    for before, after, stride in ((1, 16, 1), (16, 32, 2), (32, 32, 1)):
        layers += [nn.Conv2d(before, after, 3, stride, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, data.CLASSES))


class Stack(nn.Module):  # type: ignore[misc]
    """Convolutions with BatchNorm, their mean over the picture, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, stride in ((1, 16, 2), (16, 32, 1), (32, 32, 2), (32, 64, 1)):
            layers += _convolution(before, after, stride, nn.ReLU)
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(64, data.CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).mean(dim=(2, 3)))


def mobilenet() -> nn.Module:
    """MobileNetV2 of four stages for pictures of 32x32 pixels."""
    return MobileNetV2(((1, 12, 1, 1), (4, 16, 2, 2), (4, 24, 2, 2), (4, 32, 1, 1)), stem=16, last=96, classes=data.CLASSES)


def unlimited_mobilenet() -> nn.Module:
    """The same with ReLU instead of ReLU6."""
    made = mobilenet()
    for parent in list(made.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.ReLU6):
                setattr(parent, name, nn.ReLU())
    return made


def resnet() -> nn.Module:
    """Two stages of two basic blocks for pictures of 32x32 pixels."""
    return ResNet((2, 2), bottleneck=False, width=24, classes=data.CLASSES)


class Block(nn.Module):  # type: ignore[misc]
    """Attention and a feed-forward network, each normalized before; ``mask`` is added to the scores."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), mask)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Transformer(nn.Module):  # type: ignore[misc]
    """Blocks over embedded inputs ``(N, L, width)``, and a linear layer for the mean of positions or for each of them."""

    def __init__(self, embedding: nn.Module, length: int, outputs: int, *, width: int, layers: int, causal: bool = False) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = nn.Parameter(0.02 * torch.randn(1, length, width))
        self.layers = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs)
        self.causal = causal
        blocked = torch.full((length, length), -1e4).triu(1) if causal else torch.zeros(1, 1)
        self.register_buffer("mask", blocked[None, None], persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embedding(x) + self.positions
        for layer in self.layers:
            x = layer(x, self.mask)
        x = self.norm(x)
        return self.head(x if self.causal else x.mean(dim=1))


class Patches(nn.Module):  # type: ignore[misc]
    """Grey pictures as sequences of square patches, each mapped to a vector."""

    def __init__(self, patch: int, width: int) -> None:
        super().__init__()
        self.projection = nn.Conv2d(1, width, patch, stride=patch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.projection(x).flatten(2).transpose(1, 2)


def vit() -> nn.Module:
    """A vision transformer for grey pictures of 24x24 pixels in patches of 4x4."""
    return Transformer(Patches(4, 64), 36, data.CLASSES, width=64, layers=2)


def classifier() -> nn.Module:
    """A transformer that says which module a passage is from."""
    return Transformer(nn.Embedding(data.VOCABULARY, 64), data.TOKENS, len(data.MODULES), width=64, layers=2)


def language_model() -> nn.Module:
    """A causal transformer over characters."""
    count = data.alphabet()
    return Transformer(nn.Embedding(count, 64), data.CHARACTERS, count, width=64, layers=3, causal=True)


def regression() -> nn.Module:
    """A perceptron from ten features to one number."""
    return nn.Sequential(perceptron((10, 64, 64, 1)), nn.Flatten(0))


class Detector(nn.Module):  # type: ignore[misc]
    """Boxes and scores of classes for each of 6x6 cells, ``(N, 36, 4 + classes)``.

    Boxes are left, top, right and bottom in pixels, in one tensor with the scores, as detectors are often exported. In training,
    scores are logits.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, stride in ((1, 16, 2), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)):
            layers += _convolution(before, after, stride, nn.SiLU)
        self.features = nn.Sequential(*layers)
        self.head = nn.Conv2d(64, 4 + data.CLASSES, 3, padding=1)
        along = torch.arange(data.SCENE // STRIDE) * float(STRIDE) + STRIDE / 2
        y, x = torch.meshgrid(along, along, indexing="ij")
        self.register_buffer("centres", torch.stack([x, y], dim=-1).reshape(1, -1, 2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raw = self.head(self.features(x)).flatten(2).transpose(1, 2)
        distances = nn.functional.softplus(raw[..., :4]) * STRIDE
        scores = raw[..., 4:] if self.training else torch.sigmoid(raw[..., 4:])
        return torch.cat([self.centres - distances[..., :2], self.centres + distances[..., 2:], scores], dim=-1)
