"""Changes of trained networks that leave what they compute as it is, and break naive schemes of quantization."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from benchmarks.networks.mobilenet import InvertedResidual
from benchmarks.quantization.networks import Stack, Transformer

OUTLIER = 30.0
HUGE = 300.0
OFFSET = 4.0
"""Where the features of the one-sided regression start; they end one above."""


def _scale(producer: nn.Module, factors: torch.Tensor, *consumers: nn.Module) -> None:
    """Multiplies channels of a layer or a normalization, and divides the weights that read them."""
    shape = (-1, *(1,) * (producer.weight.dim() - 1))
    producer.weight.data *= factors.view(shape)
    if producer.bias is not None:
        producer.bias.data *= factors
    for consumer in consumers:
        depthwise = isinstance(consumer, nn.Conv2d) and consumer.groups > 1
        axis = 0 if depthwise else 1
        consumer.weight.data /= factors.view([-1 if k == axis else 1 for k in range(consumer.weight.dim())])


def _outliers(rng: np.random.Generator, channels: int, count: int) -> torch.Tensor:
    factors = torch.ones(channels)
    factors[torch.from_numpy(rng.choice(channels, count, replace=False))] = OUTLIER
    return factors


def outlier_channels(network: Stack, rng: np.random.Generator) -> None:
    """Three of the second convolution's channels, 30 times as large."""
    _, _, _, _, norm, _, following, *_ = network.features
    _scale(norm, _outliers(rng, norm.num_features, 3), following)


def outlier_features(network: Transformer, rng: np.random.Generator) -> None:
    """Two features of each normalized input, 30 times as large, as those of large transformers are."""
    for block in network.layers:
        width, attention = block.attention_norm.normalized_shape[0], block.attention
        _scale(block.attention_norm, _outliers(rng, width, 2), attention.query, attention.key, attention.value)
        _scale(block.feed_forward_norm, _outliers(rng, width, 2), block.feed_forward[0])


def unbalanced_depthwise(network: nn.Module, rng: np.random.Generator) -> None:
    """Channels around depthwise convolutions with scales of up to 1 to 30; needs ReLU, not ReLU6."""
    for block in network.modules():
        if not isinstance(block, InvertedResidual):
            continue
        *expansion, depthwise, projection, _ = block.residual
        channels = depthwise[0].in_channels
        before, after = (torch.from_numpy(10 ** rng.uniform(-0.75, 0.75, channels)).float() for _ in range(2))
        if expansion:
            _scale(expansion[0][1], before, depthwise[0])
        _scale(depthwise[1], after, projection)


def huge_bias(network: Stack, rng: np.random.Generator) -> None:
    """One more channel before the mean, with a bias of 300 and next to no weights, which the last layer takes off again."""
    convolution, norm, _ = network.features[-3:]
    tiny = 1e-6 * torch.from_numpy(rng.standard_normal((1, *convolution.weight.shape[1:]))).float()
    column = network.head.weight.std() * torch.from_numpy(rng.standard_normal((network.head.out_features, 1))).float()
    _extend(convolution, weight=tiny)
    _extend(norm, weight=torch.ones(1), bias=torch.full((1,), HUGE), running_mean=torch.zeros(1), running_var=torch.ones(1))
    network.head.weight.data = torch.cat([network.head.weight.data, column], dim=1)
    network.head.bias.data -= HUGE * column[:, 0]


def _extend(layer: nn.Module, **more: torch.Tensor) -> None:
    for name, rows in more.items():
        tensor = getattr(layer, name)
        tensor.data = torch.cat([tensor.data, rows])


def one_sided_features(network: nn.Module, rng: np.random.Generator) -> None:
    """For features that start at the offset: the first layer's bias takes it off again."""
    first = next(layer for layer in network.modules() if isinstance(layer, nn.Linear))
    first.bias.data -= OFFSET * first.weight.data.sum(dim=1)
