"""Writes ``network.pt2``, which tests read without torch: ``python network.py``, in this folder."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import linear


class Network(nn.Module):
    """A buffer that grows, a dynamic size, two outputs."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(12.0).reshape(3, 4) / 4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls.add_(1)
        y = linear(x, self.weight)
        y.relu_()
        return {"y": y + self.calls, "first": y[:, :2] * 2}


if __name__ == "__main__":
    Network.forward.__code__ = Network.forward.__code__.replace(co_filename="network.py")  # no path of this machine in the file
    exported = torch.export.export(Network(), (torch.randn(5, 4),), dynamic_shapes={"x": {0: torch.export.Dim("batch", max=64)}})
    torch.export.save(exported, Path(__file__).with_suffix(".pt2"))
