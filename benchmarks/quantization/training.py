"""Training on one thread, by the same recipe for all networks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.quantization.data import SCENE, Samples
from benchmarks.quantization.networks import STRIDE

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


BATCH = 64


def train(network: nn.Module, samples: Samples, loss: Loss, *, seed: int, steps: int, rate: float) -> None:
    """AdamW; the learning rate rises to ``rate`` and falls again. Leaves the network in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    inputs, labels = torch.from_numpy(samples.inputs), torch.from_numpy(samples.labels)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    network.train()
    for _ in range(steps):
        rows = torch.randint(len(samples), (BATCH,), generator=generator)
        optimizer.zero_grad()
        loss(network(inputs[rows]), labels[rows]).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    network.eval()


def class_loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy over the last axis."""
    return functional.cross_entropy(outputs.flatten(0, -2), labels.flatten())


def squared_loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(outputs, labels)


def detector_loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the scores of all cells, and the distance of boxes in the cells that have an object's centre."""
    picture, place = (labels[..., 0] >= 0).nonzero(as_tuple=True)
    objects = labels[picture, place]
    centre = (objects[:, 1:3] + objects[:, 3:5]) / 2
    column, row = (centre / STRIDE).long().clamp(0, SCENE // STRIDE - 1).unbind(dim=-1)
    cell = row * (SCENE // STRIDE) + column
    wanted = torch.zeros_like(outputs[..., 4:])
    wanted[picture, cell, objects[:, 0].long()] = 1.0
    scores = functional.binary_cross_entropy_with_logits(outputs[..., 4:], wanted, reduction="sum")
    boxes = functional.smooth_l1_loss(outputs[picture, cell, :4] / STRIDE, objects[:, 1:] / STRIDE, reduction="sum", beta=0.1)
    return (scores + 2.0 * boxes) / len(objects)
