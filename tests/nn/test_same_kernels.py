"""The same network written with ``forge.nn`` and imported from torch becomes the same graph, and so the same kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import forge
from examples.nn import resnet
from forge import nn
from forge.driver import check_options, optimized_graph
from forge.ir.graph import Module
from forge.ir.saved import hashing
from forge.nn import spec

torch = pytest.importorskip("torch")
tnn = torch.nn
functional = tnn.functional


class TorchBlock(tnn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = tnn.Conv2d(inputs, channels, 3, stride, 1, bias=False), tnn.BatchNorm2d(channels)
        self.conv2, self.bn2 = tnn.Conv2d(channels, channels, 3, 1, 1, bias=False), tnn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or inputs != channels:
            self.downsample = tnn.Sequential(tnn.Conv2d(inputs, channels, 1, stride, bias=False), tnn.BatchNorm2d(channels))

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class TorchResNet(tnn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = tnn.Conv2d(3, 16, 7, 2, 3, bias=False), tnn.BatchNorm2d(16)
        self.maxpool, self.avgpool = tnn.MaxPool2d(3, 2, 1), tnn.AdaptiveAvgPool2d(1)
        self.layer1, self.layer2 = tnn.Sequential(TorchBlock(16, 16, 1)), tnn.Sequential(TorchBlock(16, 32, 2))
        self.fc = tnn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = self.layer2(self.layer1(self.maxpool(torch.relu(self.bn1(self.conv1(x))))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Transformer(nn.Module):
    """A layer of an encoder."""

    def __init__(self) -> None:
        self.attention = nn.MultiHeadAttention(32, 4)
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(nn.gelu(self.up(x))))  # type: ignore[no-any-return]


class TorchTransformer(tnn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.attention = tnn.MultiheadAttention(32, 4, batch_first=True)
        self.norm1, self.norm2 = tnn.LayerNorm(32), tnn.LayerNorm(32)
        self.up, self.down = tnn.Linear(32, 64), tnn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        weight, bias = self.attention.in_proj_weight, self.attention.in_proj_bias
        q, k, v = (p.unflatten(-1, (4, 8)).transpose(1, 2) for p in functional.linear(x, weight, bias).chunk(3, -1))
        attended = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.attention.out_proj(attended))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Tagger(nn.Module):
    def __init__(self) -> None:
        self.lstm, self.head = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), nn.Linear(32, 5)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.head(self.lstm(x)[0])  # type: ignore[no-any-return]


class TorchTagger(tnn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = tnn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), tnn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0])


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], tuple[int, ...]]] = {
    "resnet": (lambda: resnet.ResNet((1, 1), 16, 10), TorchResNet, (1, 3, 64, 64)),
    "transformer": (Transformer, TorchTransformer, (2, 7, 32)),
    "tagger": (Tagger, TorchTagger, (2, 6, 8)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_same_kernels(name: str) -> None:
    make, make_other, shape = NETWORKS[name]
    torch.manual_seed(0)
    model, other = make(), make_other().eval()
    for key, tensor in other.state_dict().items():
        if key.endswith(("running_mean", "running_var")):
            tensor.uniform_(0.5, 1.5)
    model.load_state_dict(other.state_dict())
    x = torch.randn(shape)
    own = model.export({"x": spec.Tensor(shape, "float32")})
    imported = forge.from_torch(other, (x,))
    options = check_options("llvm")
    graphs = [optimized_graph(ir.mod, options) for ir in (own, imported)]
    for graph in graphs:
        graph.attributes.clear()  # that it is public, and how many inputs are the user's
    operators = [sorted(node.op for node in graph if node.op != "constant") for graph in graphs]
    assert operators[0] == operators[1]
    digests = [hashing.structural_hash(Module(graph)) for graph in graphs]
    assert digests[0] == digests[1]
    np.testing.assert_array_equal(forge.compile(own)(x.numpy()), forge.compile(imported)(x.numpy()))
