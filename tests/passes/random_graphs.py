"""Random small networks: what passes must not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from forge import dims
from forge.errors import TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType

Step = Callable[["Network"], Value]


class Network:
    """A graph that grows by random nodes on random earlier values."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = Builder()
        self.values: list[Value] = []

    def pick(self, *items: Any) -> Any:
        return items[self.rng.integers(len(items))]

    def value(self, rank: int | None = None) -> Value:
        fitting = [v for v in self.values if v.rank == rank or (rank is None and v.rank > 0)]
        return fitting[-1 - int(self.rng.integers(min(3, len(fitting))))]

    def constant(self, *shape: Any) -> Value:
        if not dims.is_static(*shape):
            raise TypeInferenceError("constants have known shapes")
        return self.builder.constant(self.rng.uniform(0.5, 1.5, shape).astype(np.float32))

    def call(self, op: str, *operands: Value | None, **attributes: Any) -> Value:
        return self.builder.call(op, *operands, **attributes)

    def grow(self, steps: list[Step], count: int) -> None:
        for _ in range(count):
            try:
                value = self.pick(*steps)(self)
            except TypeInferenceError:
                continue
            if 0 not in value.shape:
                self.values.append(value)

    def finish(self) -> Graph:
        outputs = [self.values[-1], *[v for v in self.values[:-1] if self.rng.random() < 0.15]]
        for k, value in enumerate(dict.fromkeys(outputs)):
            value.name = value.name or f"out{k}"
        return self.builder.output(*dict.fromkeys(outputs))


def image_network(seed: int) -> Graph:
    """Convolutions and what stands around them, on images of a symbolic batch."""
    net = Network(seed)
    size = net.pick(6, 7, 8)
    image = TensorType((dims.symbol("n"), net.pick(1, 3, 16, 24), size, size), "float32")
    net.values.append(net.builder.input(image, "x"))
    net.grow(IMAGE_STEPS, int(net.rng.integers(4, 14)))
    return net.finish()


def sequence_network(seed: int) -> Graph:
    """Matrix products, normalizations, views and slices, on sequences of a symbolic batch."""
    net = Network(seed)
    shape = (dims.symbol("n"), 4, 12) if net.rng.random() < 0.5 else (2, 4, 12)
    net.values.append(net.builder.input(TensorType(shape, "float32"), "x"))
    net.grow(SEQUENCE_STEPS, int(net.rng.integers(4, 16)))
    return net.finish()


def _convolution(net: Network) -> Value:
    x = net.value(4)
    channels, kernel = x.shape[1], net.pick(1, 2, 3)
    depthwise = net.rng.random() < 0.25
    outputs = channels if depthwise else net.pick(1, 5, 16, 32)
    weight = net.constant(outputs, 1 if depthwise else channels, kernel, kernel)
    return net.call("nn.conv2d", x, weight, padding=net.pick((0, 0), (1, 1), (1, 0, 0, 1)), strides=net.pick((1, 1), (2, 1)),
                    groups=channels if depthwise else 1)


def _transposed(net: Network) -> Value:
    x = net.value(4)
    kernel, stride = net.pick(2, 3, 4), net.pick(1, 2)
    weight = net.constant(x.shape[1], net.pick(3, 16), kernel, kernel)
    if x.shape[2] > 12:
        raise TypeInferenceError("large enough")
    return net.call("nn.conv2d_transpose", x, weight, strides=(stride, stride), padding=net.pick((0, 0), (1, 1)))


def _batch_norm(net: Network) -> Value:
    x = net.value(4)
    return net.call("nn.batch_norm", x, *(net.constant(x.shape[1]) for _ in range(4)))


def _bias(net: Network) -> Value:
    x = net.value(4)
    return net.call("nn.bias_add", x, net.constant(x.shape[1]))


def _channel_arithmetic(net: Network) -> Value:
    x = net.value(4)
    shape = net.pick((), (1,), (x.shape[1], 1, 1), (1, x.shape[1], 1, 1), (x.shape[3],), (x.shape[2], 1))
    operands = [x, net.constant(*shape)]
    if net.rng.random() < 0.3:
        operands.reverse()
        return net.call(net.pick("add", "multiply", "subtract", "maximum"), *operands)
    return net.call(net.pick("add", "multiply", "subtract", "divide", "maximum"), *operands)


def _sum(net: Network) -> Value:
    return net.call(net.pick("add", "multiply", "maximum"), net.value(), net.value())


def _activation(net: Network) -> Value:
    op, attributes = net.pick(
        ("nn.relu", {}), ("sigmoid", {}), ("tanh", {}), ("nn.leaky_relu", {"alpha": 0.1}), ("clip", {"a_min": 0.0, "a_max": 6.0}),
        ("copy", {}), ("nn.dropout", {}), ("negative", {}),
    )
    return net.call(op, net.value(), **attributes)


def _pool(net: Network) -> Value:
    op = net.pick("nn.max_pool2d", "nn.avg_pool2d", "nn.global_avg_pool2d", "nn.adaptive_avg_pool2d")
    if op == "nn.global_avg_pool2d":
        return net.call(op, net.value(4))
    if op == "nn.adaptive_avg_pool2d":
        return net.call(op, net.value(4), output_size=(2, 2))
    return net.call(op, net.value(4), pool_size=(2, 2), strides=net.pick((1, 1), (2, 2)), padding=net.pick((0, 0), (1, 1)))


def _concatenation(net: Network) -> Value:
    return net.call("concatenate", net.value(4), net.value(4), axis=net.pick(1, 2))


def _padding(net: Network) -> Value:
    widths = ((0, 0), net.pick((0, 0), (1, 0)), (1, 1), (0, 2))
    return net.call("nn.pad", net.value(4), pad_width=widths, pad_mode=net.pick("constant", "edge"))


def _resizing(net: Network) -> Value:
    if net.value(4).shape[2] > 12:
        raise TypeInferenceError("large enough")
    return net.call("nn.upsampling", net.value(4), scale_h=2.0, scale_w=1.0, method=net.pick("nearest_neighbor", "bilinear"))


def _prelu(net: Network) -> Value:
    x = net.value(4)
    return net.call("nn.prelu", x, net.constant(net.pick(1, x.shape[1])))


def _reduction(net: Network) -> Value:
    axes = net.pick((2,), (3,), (2, 3), (1,), (-1, 1))
    return net.call(net.pick("mean", "sum", "max"), net.value(4), axis=axes, keepdims=True)


def _crop(net: Network) -> Value:
    return net.call("strided_slice", net.value(4), begin=(net.pick(0, 1),), end=(net.pick(-1, 5),), axes=(net.pick(1, 2, 3),))


def _gate(net: Network) -> Value:
    x = net.value(4)
    return net.call("multiply", x, net.call("sigmoid", net.call("nn.global_avg_pool2d", x)))


def _dense(net: Network) -> Value:
    x = net.value()
    units = net.pick(3, 12, 24)
    if net.rng.random() < 0.5:
        return net.call("nn.dense", x, net.constant(units, x.shape[-1]))
    return net.call("nn.matmul", x, net.constant(x.shape[-1], units))


def _vector_arithmetic(net: Network) -> Value:
    x = net.value()
    operands = [x, net.constant(*net.pick((), (1,), (x.shape[-1],)))]
    if net.rng.random() < 0.3:
        operands.reverse()
        return net.call(net.pick("add", "multiply", "subtract"), *operands)
    return net.call(net.pick("add", "multiply", "subtract", "divide"), *operands)


def _view(net: Network) -> Value:
    x = net.value()
    last = x.shape[-1]
    if not isinstance(last, int):
        raise TypeInferenceError("sizes are known")
    if net.rng.random() < 0.3:
        return net.call("reshape", x, newshape=(-1, last))
    if net.rng.random() < 0.4 and last % 3 == 0:
        return net.call("reshape", x, newshape=(*x.shape[:-1], 3, last // 3))
    return net.call(net.pick("expand_dims"), x, axis=net.pick(0, 1))


def _transpose(net: Network) -> Value:
    x = net.value()
    return net.call("transpose", x, axes=tuple(int(a) for a in net.rng.permutation(x.rank)))


def _slice(net: Network) -> Value:
    x = net.value()
    extent = x.shape[-1]
    if not isinstance(extent, int) or extent == 0:
        raise TypeInferenceError("bounds are known")
    if net.rng.random() < 0.4:
        axis = net.pick(*[k for k, d in enumerate(x.shape) if isinstance(d, int) and d])
        return net.call("take", x, net.builder.constant(np.int64(net.rng.integers(x.shape[axis]))), axis=axis)
    begin = int(net.rng.integers(extent))
    return net.call("strided_slice", x, begin=(begin,), end=(extent,), axes=(x.rank - 1,))


def _split(net: Network) -> Value:
    x = net.value()
    if not isinstance(x.shape[-1], int):
        raise TypeInferenceError("parts have known sizes")
    parts = net.builder.call_multi("split", x, indices_or_sections=3, axis=-1)
    return parts[net.rng.integers(3)]


def _attention(net: Network) -> Value:
    x = net.value(3)
    scores = net.call("nn.matmul", x, net.call("transpose", x, axes=(0, 2, 1)))
    return net.call("nn.matmul", net.call("nn.softmax", net.call("divide", scores, net.builder.constant(np.float32(8)))), x)


def _normalization(net: Network) -> Value:
    x = net.value()
    mean = net.call("mean", x, axis=(-1,), keepdims=True)
    centred = net.call("subtract", x, mean)
    squares = net.call("power", centred, net.builder.constant(np.float32(2)))
    variance = net.call("mean", squares, axis=(-1,), keepdims=True)
    root = net.call("sqrt", net.call("add", variance, net.builder.constant(np.float32(0.1))))
    return net.call("multiply", net.call("divide", centred, root), net.constant(x.shape[-1]))


def _gelu(net: Network) -> Value:
    x = net.value()
    inner = net.call("erf", net.call("divide", x, net.builder.constant(np.float32(np.sqrt(2)))))
    gate = net.call("add", inner, net.builder.constant(np.float32(1)))
    return net.call("multiply", net.call("multiply", x, gate), net.builder.constant(np.float32(0.5)))


IMAGE_STEPS: list[Step] = [
    _convolution, _convolution, _convolution, _transposed, _batch_norm, _bias, _channel_arithmetic, _sum, _activation,
    _activation, _pool, _concatenation, _padding, _resizing, _gate, _prelu, _reduction, _crop,
]
SEQUENCE_STEPS: list[Step] = [
    _dense, _dense, _vector_arithmetic, _vector_arithmetic, _sum, _activation, _view, _view, _transpose, _slice, _split,
    _attention, _normalization, _gelu,
]
