"""Modules of torch that are exported in tests of ``.pt2`` files. Needs torch."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram


@dataclass
class Both:
    """A dataclass as an output."""

    left: torch.Tensor
    absent: torch.Tensor | None
    right: torch.Tensor


Pair = namedtuple("Pair", ["first", "second"])
torch.export.register_dataclass(Both, serialized_type_name="tests.Both")
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu_(self.norm(self.conv(x)))
        y += 1
        return self.head(y.mean(dim=(2, 3)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 5, num_layers=2, bidirectional=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)


class Counter(nn.Module):
    """Writes to a buffer; another is not saved with the state, and one is repeated by its strides."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("scale", torch.arange(3.0), persistent=False)
        self.register_buffer("wide", torch.ones(1, 3).expand(4, 3))
        self.offset = torch.tensor([1, 2, 3])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.count[1:].mul_(2)
        return x * self.scale + self.count + self.offset + self.wide


class Functional(Counter):
    pass


class Dynamic(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        joined = torch.cat([x, y], dim=0)
        return joined.reshape(-1), joined[1:] * x.shape[0], x.shape[0] + y.shape[0]


class Structures(nn.Module):
    """Constants as inputs and outputs, and results in structures."""

    def forward(self, x: torch.Tensor, options: dict[str, torch.Tensor], scale: float, flag: bool = True, mode: str = "a") -> Any:
        y = x * scale if flag else x
        pair = Pair(y, (options["k"] + 1, 3))
        return {"y": y, "rest": [pair, OrderedDict(z=y - 1)], "none": None, "both": Both(y + 2, None, y + 3)}


class Many(nn.Module):
    """Several results of one operator, some of them unused; tensors as indices, and numbers that are not finite."""

    def forward(self, x: torch.Tensor) -> Any:
        first, _, third = torch.split(x, 2, dim=0)
        values, _ = torch.max(x, dim=1)
        picked = x[:, [0, 2]][torch.tensor([1, 0])]
        return first + third, values, picked, x.masked_fill(x > 0, float("-inf")), x.to(torch.bfloat16), torch.complex(x, x) * 2j


class Weights(nn.Module):
    """Weights of other types, a transposed one, one that is part of another, tied ones, an empty one."""

    def __init__(self) -> None:
        super().__init__()
        base = torch.arange(24.0).reshape(4, 6)
        self.short = nn.Parameter(base.to(torch.bfloat16))
        self.turned = nn.Parameter(base.t())
        self.part = nn.Parameter(self.turned.data[1:, 2:])
        self.tied = self.turned
        self.register_buffer("tiny", base.to(torch.float8_e4m3fn))
        self.register_buffer("tinier", base.to(torch.float8_e5m2))
        self.register_buffer("mask", base > 3)
        self.register_buffer("empty", torch.zeros(0, 6))
        self.register_buffer("waves", torch.complex(base, base))

    def forward(self, x: torch.Tensor) -> Any:
        a = x @ self.short.float() + self.tiny.float() + self.tinier.to(torch.float32)
        b = torch.where(self.mask, a, self.turned.t()) * self.tied.t()
        return b, self.part + 1, torch.cat([self.empty, a]), self.waves * 2


class Conditional(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v.sin() + 1, lambda v: v.cos() - 1, (x,))


class Numbers(nn.Module):
    """Numbers that are computed from data."""

    def forward(self, x: torch.Tensor) -> Any:
        count = x.sum().item()
        torch._check(count >= 0)
        torch._check(count < 100)
        return torch.zeros(count) + 1, count + 1


class InputWriter(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1


def dynamic() -> ExportedProgram:
    rows = Dim("rows", min=2, max=64)
    shapes = {"x": {0: rows, 1: Dim.AUTO}, "y": {0: 2 * rows, 1: Dim.AUTO}}
    return torch.export.export(Dynamic(), (torch.randn(4, 5), torch.randn(8, 5)), dynamic_shapes=shapes)


def structures() -> ExportedProgram:
    return torch.export.export(Structures(), (torch.randn(3), {"k": torch.randn(2)}, 2.5))


def _plain(module: type[nn.Module], *inputs: torch.Tensor) -> Callable[[], ExportedProgram]:
    return lambda: torch.export.export(module().eval(), inputs)


PROGRAMS: Mapping[str, Callable[[], ExportedProgram]] = {
    "convolutions": _plain(Convolutions, torch.randn(2, 3, 8, 8)),
    "attention": _plain(Attention, torch.randn(2, 5, 8)),
    "recurrent": _plain(Recurrent, torch.randn(6, 2, 4)),
    "counter": _plain(Counter, torch.randn(4, 3)),
    "functional": lambda: _plain(Functional, torch.randn(4, 3))().run_decompositions({}),
    "dynamic": dynamic,
    "structures": structures,
    "many": _plain(Many, torch.randn(6, 4)),
    "weights": _plain(Weights, torch.randn(4, 4)),
    "conditional": _plain(Conditional, torch.randn(3)),
    "numbers": _plain(Numbers, torch.tensor([1, 2])),
    "input_writer": lambda: _plain(InputWriter, torch.randn(3))().run_decompositions({}),
}
"""Each makes an exported program."""
