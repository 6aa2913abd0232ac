"""A residual network (He et al., 2016), whose names are those of torchvision, so that its weights load as they are.

python -m examples.nn.resnet
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import forge
from examples.nn.weights import fill
from forge import nn
from forge.nn import spec


class BasicBlock(nn.Module):
    """``relu(x + f(x))`` with two convolutions."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        self.conv1 = nn.Conv2D(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2D(channels)
        self.conv2 = nn.Conv2D(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2D(channels)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != channels:
            self.downsample = nn.Sequential(nn.Conv2D(inputs, channels, 1, stride, bias=False), nn.BatchNorm2D(channels))

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        y = nn.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return nn.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Images ``(n, 3, h, w)`` to scores ``(n, classes)``."""

    def __init__(self, blocks: Sequence[int] = (2, 2, 2, 2), width: int = 64, classes: int = 1000) -> None:
        self.conv1 = nn.Conv2D(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2D(width)
        self.maxpool = nn.MaxPool2D(3, 2, 1)
        inputs = width
        for number, count in enumerate(blocks):
            channels = width << number
            layers = [BasicBlock(inputs if k == 0 else channels, channels, 2 if number and k == 0 else 1) for k in range(count)]
            setattr(self, f"layer{number + 1}", nn.Sequential(*layers))
            inputs = channels
        self.stages = len(blocks)
        self.avgpool = nn.AdaptiveAvgPool2D(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        x = self.maxpool(nn.relu(self.bn1(self.conv1(x))))
        for number in range(self.stages):
            x = getattr(self, f"layer{number + 1}")(x)
        return self.fc(nn.flatten(self.avgpool(x), 1))


def main() -> None:
    model = ResNet((1, 1, 1, 1), width=16, classes=10)
    fill(model)
    ir = model.export({"forward": {"x": spec.Tensor(["batch", 3, 64, 64], "float32")}})
    scores = forge.compile(ir)(np.ones((2, 3, 64, 64), np.float32))
    print(f"{sum(ir.operators.values())} operators; scores of shape {scores.shape}; the first class is {scores[0].argmax()}")


if __name__ == "__main__":
    main()
