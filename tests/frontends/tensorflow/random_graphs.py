"""Random graphs of TensorFlow's operators, as `test_random` compares with TensorFlow.

A graph is grown from inputs of float64, whose first size, the batch, may be left open: operators keep it, or compute within it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.frontends.tensorflow.writer import Graph

Shape = tuple[int, ...]
MOST = 4096
"""Elements of a tensor."""
UNARY = ("Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Square", "Softplus", "Elu", "Selu", "Softsign", "Sin", "Atan", "Erf", "Floor",
         "Round", "Sign", "Relu6", "LeakyRelu", "Identity", "Cos")
BINARY = ("AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "DivNoNan", "Atan2")
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "EuclideanNorm")


@dataclass
class Tensor:
    name: str
    shape: Shape


@dataclass
class Grown:
    """A graph while it grows."""

    draw: random.Random
    graph: Graph = field(default_factory=Graph)
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[np.ndarray] = field(default_factory=list)

    def ints(self, *values: int) -> str:
        return self.graph.constant(np.array(values, np.int32))

    def number(self, value: int) -> str:
        return self.graph.constant(np.array(value, np.int32))

    def weights(self, *shape: int) -> str:
        drawn = np.random.default_rng(self.draw.randrange(1 << 30)).uniform(-1, 1, shape)
        return self.graph.constant(drawn / max(np.sqrt(np.prod(shape[:-1])), 1))

    def add(self, op: str, inputs: list[str], shape: Shape, output: int = 0, **attributes: Any) -> Tensor:
        name = self.graph.node(op, inputs, T="float64", **attributes)
        found = Tensor(name if output == 0 else f"{name}:{output}", shape)
        self.tensors.append(found)
        return found

    def of_rank(self, least: int, most: int = 5) -> Tensor | None:
        fitting = [t for t in self.tensors if least <= len(t.shape) <= most]
        return self.draw.choice(fitting) if fitting else None

    def axis(self, x: Tensor) -> int:
        """Of a tensor of rank 2 or more, not the batch."""
        return self.draw.randrange(1, len(x.shape))


def unary(g: Grown) -> None:
    x = g.draw.choice(g.tensors)
    g.add(g.draw.choice(UNARY), [x.name], x.shape)


def binary(g: Grown) -> None:
    x = g.draw.choice(g.tensors)
    alike = [t for t in g.tensors if t.shape == x.shape]
    g.add(g.draw.choice(BINARY), [x.name, g.draw.choice(alike).name], x.shape)


def with_constant(g: Grown) -> None:
    x = g.draw.choice(g.tensors)
    shape = tuple(g.draw.choice((1, n)) for n in x.shape[1:])[g.draw.randrange(len(x.shape)) :]
    g.add(g.draw.choice(BINARY), [x.name, g.weights(*shape)], x.shape)


def reduction(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        axis, keep = g.axis(x), g.draw.random() < 0.5
        shape = tuple(1 if k == axis else n for k, n in enumerate(x.shape) if keep or k != axis)
        given = axis - len(x.shape) if g.draw.random() < 0.3 else axis
        g.add(g.draw.choice(REDUCTIONS), [x.name, g.ints(given)], shape, keep_dims=keep)


def transpose(g: Grown) -> None:
    x = g.of_rank(3)
    if x is not None:
        order = [0, *g.draw.sample(range(1, len(x.shape)), len(x.shape) - 1)]
        g.add("Transpose", [x.name, g.ints(*order)], tuple(x.shape[k] for k in order))


def reshape(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        rest = int(np.prod(x.shape[1:]))
        part = g.draw.choice([k for k in range(1, rest + 1) if rest % k == 0])
        g.add("Reshape", [x.name, g.ints(-1, part, rest // part)], (x.shape[0], part, rest // part))


def expand(g: Grown) -> None:
    x = g.of_rank(1, 4)
    if x is not None:
        axis = g.draw.randrange(1, len(x.shape) + 1)
        g.add("ExpandDims", [x.name, g.number(axis)], (*x.shape[:axis], 1, *x.shape[axis:]))


def concat(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        axis = g.axis(x)
        shape = tuple(2 * n if k == axis else n for k, n in enumerate(x.shape))
        g.add("ConcatV2", [x.name, x.name, g.number(axis)], shape)


def pack(g: Grown) -> None:
    x = g.of_rank(1, 3)
    if x is not None:
        g.add("Pack", [x.name, x.name], (*x.shape, 2), axis=-1)


def split(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None and x.shape[-1] % 2 == 0:
        g.add("Split", [g.number(-1), x.name], (*x.shape[:-1], x.shape[-1] // 2), g.draw.randrange(2), num_split=2)


def pad(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        axis = g.axis(x)
        widths = np.zeros((len(x.shape), 2), np.int32)
        widths[axis] = g.draw.randrange(3), g.draw.randrange(3)
        shape = tuple(int(n + sum(w)) for n, w in zip(x.shape, widths))
        g.add("Pad", [x.name, g.graph.constant(widths)], shape)


def slice_(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        axis = g.axis(x)
        start = g.draw.randrange(x.shape[axis])
        begin, end, steps = ([0] * len(x.shape) for _ in range(3))
        begin[axis], end[axis] = start, x.shape[axis]
        steps = [1] * len(x.shape)
        steps[axis] = g.draw.choice((1, 2))
        masks = sum(1 << k for k in range(len(x.shape)) if k != axis)
        size = -(-(x.shape[axis] - start) // steps[axis])
        shape = tuple(size if k == axis else n for k, n in enumerate(x.shape))
        g.add("StridedSlice", [x.name, g.ints(*begin), g.ints(*end), g.ints(*steps)], shape, begin_mask=masks, end_mask=masks)


def tile(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        axis = g.axis(x)
        times = [2 if k == axis else 1 for k in range(len(x.shape))]
        g.add("Tile", [x.name, g.ints(*times)], tuple(n * t for n, t in zip(x.shape, times)))


def softmax(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        g.add(g.draw.choice(("Softmax", "LogSoftmax")), [x.name], x.shape)


def running(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        options = {"exclusive": g.draw.random() < 0.5, "reverse": g.draw.random() < 0.5}
        g.add("Cumsum", [x.name, g.number(g.axis(x))], x.shape, **options)


def reverse(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        g.add("ReverseV2", [x.name, g.ints(g.axis(x))], x.shape)


def gather(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        axis = g.axis(x)
        places = [g.draw.randrange(x.shape[axis]) for _ in range(g.draw.randrange(1, 5))]
        shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
        g.add("GatherV2", [x.name, g.ints(*places), g.number(axis)], shape, Tparams="float64")


def top(g: Grown) -> None:
    x = g.of_rank(2)
    if x is not None:
        count = g.draw.randrange(1, x.shape[-1] + 1)
        g.add("TopKV2", [x.name, g.number(count)], (*x.shape[:-1], count))


def matmul(g: Grown) -> None:
    x = g.of_rank(2, 2)
    if x is not None:
        size = g.draw.randrange(1, 9)
        g.add("MatMul", [x.name, g.weights(x.shape[1], size)], (x.shape[0], size))


def batch_matmul(g: Grown) -> None:
    x = g.of_rank(3)
    if x is not None:
        shape = (*x.shape[:-1], x.shape[-2])
        g.add("BatchMatMulV2", [x.name, x.name], shape, adj_y=True)


def convolution(g: Grown) -> None:
    x = g.of_rank(4, 4)
    if x is not None:
        size, step, out = g.draw.randrange(1, 4), g.draw.randrange(1, 3), g.draw.randrange(1, 6)
        padding = "SAME" if min(x.shape[1:3]) < size else g.draw.choice(("SAME", "VALID"))
        less = size - 1 if padding == "VALID" else 0
        shape = (x.shape[0], *(-(-(n - less) // step) for n in x.shape[1:3]), out)
        weights = g.weights(size, size, x.shape[3], out)
        g.add("Conv2D", [x.name, weights], shape, strides=(1, step, step, 1), padding=padding)


def pool(g: Grown) -> None:
    x = g.of_rank(4, 4)
    if x is not None and min(x.shape[1:3]) > 1:
        shape = (x.shape[0], *(-(-n // 2) for n in x.shape[1:3]), x.shape[3])
        g.add(g.draw.choice(("MaxPool", "AvgPool")), [x.name], shape, ksize=(1, 3, 3, 1), strides=(1, 2, 2, 1), padding="SAME")


STEPS: tuple[Callable[[Grown], None], ...] = (
    unary, unary, unary, binary, binary, with_constant, reduction, transpose, reshape, expand, concat, pack, split, pad, slice_,
    tile, softmax, running, reverse, gather, top, matmul, batch_matmul, convolution, convolution, pool)


def grown(number: int, *, open_: bool) -> Grown:
    """A graph with its inputs, and some of its tensors, which none reads, as results."""
    found = Grown(random.Random(f"tensorflow:{number}"))
    batch = found.draw.randrange(1, 4)
    values = np.random.default_rng(number)
    for shape in ((batch, 6, 8, 3), (batch, found.draw.randrange(1, 7))):
        found.inputs.append(values.uniform(-2, 2, shape))
        name = found.graph.placeholder("float64", (-1, *shape[1:]) if open_ else shape, f"x{len(found.inputs)}")
        found.tensors.append(Tensor(name, shape))
    for _ in range(found.draw.randrange(4, 24)):
        found.draw.choice(STEPS)(found)
        if np.prod(found.tensors[-1].shape) > MOST:
            found.tensors.pop()
    return found
