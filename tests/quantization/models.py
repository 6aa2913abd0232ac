"""Small models that the tests of quantization share: their weights are constants, and drawn anew for each seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import forge
from forge import dims
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType


class Net:
    """A model in the making, of symbolic batch ``n``."""

    def __init__(self, *shape: int, seed: int = 0) -> None:
        self.builder, self.rng = Builder(), np.random.default_rng(seed)
        self.x = self.builder.input(TensorType((dims.symbol("n"), *shape), "float32"), "x")

    def weight(self, *shape: int, outliers: tuple[int, ...] = ()) -> Value:
        """Normal, of a size that keeps data as large as they are; ``outliers`` along axis 1 are eight times as large."""
        array = self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))
        if outliers:
            array[:, list(outliers)] *= 8
        return self.builder.constant(array.astype(np.float32))

    def conv(self, x: Value, channels: int, size: int = 3, outliers: tuple[int, ...] = (), groups: int = 1) -> Value:
        weight = self.weight(channels, x.shape[1] // groups, size, size, outliers=outliers)  # type: ignore[arg-type]
        made = self.builder.call("nn.conv2d", x, weight, padding=(size // 2, size // 2), groups=groups)
        return self.builder.call("nn.bias_add", made, self.weight(channels))

    def dense(self, x: Value, units: int, outliers: tuple[int, ...] = ()) -> Value:
        made = self.builder.call("nn.dense", x, self.weight(units, x.shape[-1], outliers=outliers))  # type: ignore[arg-type]
        return self.builder.call("add", made, self.weight(units))

    def call(self, op: str, *operands: Value, **attributes: object) -> Value:
        return self.builder.call(op, *operands, **attributes)

    def constant(self, value: float) -> Value:
        return self.builder.constant(np.float32(value))

    def module(self, *outputs: Value) -> forge.IRModule:
        self.builder.graph.outputs = list(outputs)
        return forge.IRModule(Module(self.builder.graph))

    def samples(self, count: int = 2, batch: int = 2) -> list[np.ndarray]:
        return [self.rng.standard_normal((batch, *self.x.shape[1:])).astype(np.float32) for _ in range(count)]


def cnn(seed: int = 0) -> forge.IRModule:
    """Convolutions, one of them depthwise, a residual sum, pooling and a dense layer."""
    net = Net(3, 8, 8, seed=seed)
    a = net.call("nn.relu", net.conv(net.x, 8))
    b = net.call("clip", net.conv(a, 8, groups=8), a_min=0.0, a_max=6.0)
    c = net.call("nn.relu", net.call("add", a, net.conv(b, 8, 1)))
    pooled = net.call("reshape", net.call("nn.global_avg_pool2d", c), newshape=(-1, 8))
    return net.module(net.dense(pooled, 5))


def transformer(seed: int = 0) -> forge.IRModule:
    """A block: attention of two heads and a feed-forward part, each after a layer norm."""
    net = Net(6, 8, seed=seed)
    x = net.call("add", net.x, _attention(net, _normalized(net, net.x)))
    wide = net.call("nn.gelu", net.dense(_normalized(net, x), 16))
    return net.module(net.call("add", x, net.dense(wide, 8)))


def _normalized(net: Net, x: Value) -> Value:
    one = net.builder.constant(np.ones(8, np.float32))
    return net.call("nn.layer_norm", x, one, net.weight(8), axis=-1)


def _attention(net: Net, x: Value) -> Value:
    query, key, value = (net.call("transpose", net.call("reshape", net.dense(x, 8), newshape=(0, 6, 2, 4)), axes=(0, 2, 1, 3))
                         for _ in range(3))
    scores = net.call("multiply", net.call("nn.matmul", query, net.call("transpose", key, axes=(0, 1, 3, 2))), net.constant(0.5))
    mixed = net.call("nn.matmul", net.call("nn.softmax", scores, axis=-1), value)
    return net.dense(net.call("reshape", net.call("transpose", mixed, axes=(0, 2, 1, 3)), newshape=(0, 6, 8)), 8)


TINY: dict[str, Callable[[int], forge.IRModule]] = {"cnn": cnn, "transformer": transformer}
SHAPES = {"cnn": (2, 3, 8, 8), "transformer": (2, 6, 8)}


def data(model: str, count: int = 4, seed: int = 7) -> list[np.ndarray]:
    """Samples for one of `TINY`."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(SHAPES[model]).astype(np.float32) for _ in range(count)]
