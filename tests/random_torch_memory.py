"""Random PyTorch functions that make views of tensors and write to them in place: which tensors share memory is the question."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Tensor = Any  # torch's, whose types are not checked here
Step = Callable[[list[Tensor]], Tensor | None]
"""Of all tensors so far, one more; None where it only writes."""


class RandomProgram(nn.Module):
    """Runs steps over its inputs and a buffer, and returns everything that there is in the end."""

    def __init__(self, steps: list[tuple[str, Step]]) -> None:
        super().__init__()
        self.steps = [step for _, step in steps]
        self.register_buffer("seen", torch.arange(12.0).reshape(3, 4))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        values = [x, y, self.seen, x + 1]
        for step in self.steps:
            made = step(values)
            if made is not None:
                values.append(made)
        return tuple(value.clone() for value in values)


@dataclass
class RandomMemory:
    """A program with the names of its steps, and whether the first size is dynamic."""

    module: RandomProgram
    names: list[str]
    is_dynamic: bool


def inputs(rows: int = 3) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 4), torch.randn(4, 6)


def make(seed: int, most: int = 9) -> RandomMemory:
    """The program of a seed; each of its steps works in eager mode."""
    choose = random.Random(seed)
    torch.manual_seed(seed)
    steps: list[tuple[str, Step]] = []
    tries = choose.randint(3, 3 * most)
    for _ in range(tries):
        if len(steps) == most:
            break
        values = _values(steps)
        name = choose.choice(sorted(STEPS))
        step = STEPS[name](choose, values, choose.randrange(len(values)))
        if step is None:
            continue
        try:
            made = step(values)
        except (RuntimeError, IndexError, ValueError):
            continue
        if made is not None and not (made.dtype == torch.float32 and 0 < made.numel() < 500):
            continue
        steps.append((name, step))
    return RandomMemory(RandomProgram(steps), [name for name, _ in steps], choose.random() < 0.3)


def _values(steps: list[tuple[str, Step]]) -> list[Tensor]:
    x, y = inputs()
    values = [x, y, torch.zeros(3, 4), x + 1]
    for _, step in steps:
        made = step(values)
        if made is not None:
            values.append(made)
    return values


def _axis(choose: random.Random, x: Tensor) -> int:
    return choose.randrange(-x.dim(), x.dim()) if x.dim() else 0


def _view(choose: random.Random, values: list[Tensor], k: int) -> Step | None:
    x = values[k]
    axis, other = _axis(choose, x), _axis(choose, x)
    size = x.shape[axis] if x.dim() else 1
    begin = choose.randrange(size)
    stride = choose.randint(1, 2)
    order = choose.sample(range(x.dim()), x.dim())
    offset = choose.randint(-1, 1)
    return choose.choice((
        lambda v: v[k].transpose(axis, other), lambda v: v[k].permute(order), lambda v: v[k].select(axis, begin),
        lambda v: v[k].narrow(axis, begin, size - begin), lambda v: v[k].unsqueeze(axis), lambda v: v[k].squeeze(),
        lambda v: v[k].diagonal(offset, axis, other), lambda v: v[k].unbind(axis)[begin], lambda v: v[k].chunk(2, axis)[0],
        lambda v: v[k].split(2, axis)[-1], lambda v: v[k].movedim(axis, other), lambda v: v[k].detach(),
        lambda v: v[k][..., begin::stride], lambda v: v[k].expand(2, *v[k].shape),
        lambda v: v[k].unfold(axis, min(2, size), stride),
        lambda v: v[k].swapaxes(axis, other), lambda v: v[k].view(v[k].shape), lambda v: v[k].mT, lambda v: v[k].view_as(v[k]),
        lambda v: v[k].tensor_split(2, axis)[1], lambda v: v[k][begin], lambda v: v[k][None],
        lambda v: v[k].unflatten(axis, (-1, 1)),
    ))


def _maybe_view(choose: random.Random, values: list[Tensor], k: int) -> Step | None:
    axis = _axis(choose, values[k])
    rows = max(1, values[k].dim())
    return choose.choice((
        lambda v: v[k].reshape(-1), lambda v: v[k].reshape(2, -1), lambda v: v[k].contiguous(), lambda v: v[k].flatten(),
        lambda v: v[k].flatten(0, min(1, rows - 1)), lambda v: v[k].ravel(), lambda v: v[k].to(torch.float32),
        lambda v: v[k].view(-1), lambda v: v[k].reshape(*v[k].shape, 1), lambda v: v[k].float(), lambda v: torch.atleast_2d(v[k]),
        lambda v: v[k].broadcast_to(v[k].shape), lambda v: v[k].expand_as(v[k]), lambda v: v[k].squeeze(axis),
        lambda v: v[k].type_as(v[0]), lambda v: torch.movedim(v[k], axis, 0).reshape(-1),
    ))


def _strided(choose: random.Random, values: list[Tensor], k: int) -> Step | None:
    shape = [choose.randint(1, 3) for _ in range(choose.randint(1, 3))]
    strides = [choose.randint(0, 3) for _ in shape]
    offset = choose.randint(0, 2)
    return lambda v: v[k].as_strided(shape, strides, offset)


def _write(choose: random.Random, values: list[Tensor], k: int) -> Step | None:
    x = values[k]
    number = round(choose.uniform(-2, 2), 2)
    axis = _axis(choose, x)
    size = x.shape[axis] if x.dim() else 1
    index, stride = choose.randrange(size), choose.randint(1, 2)
    other = choose.randrange(len(values))
    places = torch.tensor([index])

    def run(function: Callable[[list[Tensor]], Any]) -> Step:
        def step(v: list[Tensor]) -> None:
            function(v)
        return step

    def assign(v: list[Tensor]) -> None:
        v[k][..., index::stride] = number

    def assign_row(v: list[Tensor]) -> None:
        v[k][index] = v[other].sum()

    def assign_mask(v: list[Tensor]) -> None:
        v[k][v[k] > number] = 0.5

    def augment(v: list[Tensor]) -> None:
        v[k][..., index] += v[other].mean()

    return run(choose.choice((
        lambda v: v[k].add_(number), lambda v: v[k].mul_(number), lambda v: v[k].copy_(v[other]), lambda v: v[k].fill_(number),
        lambda v: v[k].zero_(), lambda v: v[k].clamp_(max=number), lambda v: v[k].relu_(), lambda v: v[k].add_(v[other]),
        assign, assign_row, assign_mask, augment, lambda v: v[k].index_fill_(axis, places, number),
        lambda v: v[k].masked_fill_(v[k] > 0, number), lambda v: v[k].cumsum_(axis), lambda v: v[k].sub_(v[other], alpha=2),
        lambda v: v[k].transpose(0, -1).add_(number), lambda v: v[k].reshape(-1).mul_(number), lambda v: v[k].tril_(),
        lambda v: torch.add(v[k], 1, out=v[k]), lambda v: v[k].index_add_(axis, places, v[k].narrow(axis, 0, 1)),
        lambda v: v[k].addcmul_(v[other], v[other]), lambda v: v[k].copy_(v[other].expand(v[k].shape)),
    )))


def _new(choose: random.Random, values: list[Tensor], k: int) -> Step | None:
    other = choose.randrange(len(values))
    axis = _axis(choose, values[k])
    return choose.choice((
        lambda v: v[k].clone(), lambda v: v[k] + v[other], lambda v: torch.cat([v[k], v[other]], axis), lambda v: v[k] * 2,
        lambda v: v[k].flip(axis), lambda v: torch.zeros_like(v[k]), lambda v: torch.relu(v[k]), lambda v: v[k].sum(axis),
        lambda v: v[k].mT.clone(), lambda v: torch.empty_like(v[k]).copy_(v[other].expand_as(v[k])), lambda v: v[k].roll(1, axis),
        lambda v: v[k].transpose(0, -1).contiguous(), lambda v: torch.where(v[k] > 0, v[k], v[other]),
        lambda v: v[k].new_ones(v[k].shape), lambda v: v[k].mT * 3,
    ))


STEPS: dict[str, Callable[[random.Random, list[Tensor], int], Step | None]] = {
    "view": _view, "maybe view": _maybe_view, "strided": _strided, "write": _write, "write ": _write, "new": _new,
}
