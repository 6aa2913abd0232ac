"""No option makes a layer slower: which layers `set_bfloat16` and `set_float16` leave in float32, by the rates of each CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from forge import dims
from forge.ir import Builder, TensorType
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Precision
from forge.kernels.layouts import CpuLayouts
from forge.ops.nn.convolution import Conv
from forge.options import CompileOptions
from forge.passes import to_bfloat16, to_float16, use_winograd
from forge.target import Target
from forge.target.isa import ARCHITECTURES
from forge.target.precision import conversion_cycles, cycles
from tests.backends import toy

OPTIONS = {"bfloat16": to_bfloat16.run, "float16": to_float16.run}
TARGETS = [f"llvm -mtriple={a.triple} -mcpu={cpu}" for a in ARCHITECTURES for cpu in a.cpus]
SMALL_CACHES = "-l2-cache=65536 -l3-cache=262144"
"""So that few weights are more than they hold."""


def weight(*shape: int) -> np.ndarray:
    return np.full(shape, 0.01, np.float32)


@dataclass
class Network:
    """A graph that is written layer by layer."""

    build: Builder

    def dense(self, x: Value, units: int) -> Value:
        return self.build.call("nn.dense", x, self.build.constant(weight(units, x.shape[-1])))

    def conv(self, x: Value, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> Value:
        filters = self.build.constant(weight(channels, x.shape[1] // groups, kernel, kernel))
        made = self.build.call("nn.conv2d", x, filters, strides=(stride, stride), padding=(kernel // 2,) * 4, groups=groups)
        return self.build.call("nn.relu", self.build.call("nn.bias_add", made, self.build.constant(weight(channels))))

    def heads(self, x: Value, count: int) -> Value:
        rows, width = x.shape
        split = self.build.call("reshape", x, newshape=(rows, count, width // count))
        return self.build.call("transpose", split, axes=(1, 0, 2))


def residual(n: Network, x: Value) -> Value:
    """As ResNet: 3x3 convolutions, of stride 1 and 2, and 1x1."""
    x = n.conv(n.conv(x, 64, 7, 2), 64, 3, 2)
    for channels in (64, 128, 256):
        inner = n.conv(n.conv(n.conv(x, channels, 1), channels, 3), 4 * channels, 1)
        x = n.build.call("nn.relu", n.build.call("add", inner, n.conv(x, 4 * channels, 1)))
        x = n.conv(n.conv(x, channels, 3, 2), channels, 3)
    return n.dense(n.build.call("reshape", n.build.call("nn.global_avg_pool2d", x), newshape=(1, 256)), 100)


def separable(n: Network, x: Value) -> Value:
    """As MobileNet: depthwise convolutions between those of 1x1."""
    x = n.conv(x, 32, 3, 2)
    for channels, stride in ((16, 1), (24, 2), (24, 1), (40, 2)):
        wide = n.conv(x, 6 * x.shape[1], 1)
        x = n.conv(n.conv(wide, wide.shape[1], 3, stride, wide.shape[1]), channels, 1)
    return n.conv(x, 96, 5, groups=8)


def encoder(n: Network, x: Value) -> Value:
    """A block of a transformer."""
    q, k, v = (n.heads(n.dense(x, 192), 6) for _ in range(3))
    scores = n.build.call("nn.softmax", n.build.call("nn.matmul", q, k, transpose_b=True))
    mixed = n.build.call("transpose", n.build.call("nn.matmul", scores, v), axes=(1, 0, 2))
    x = n.build.call("add", x, n.dense(n.build.call("reshape", mixed, newshape=x.shape), 192))
    return n.build.call("add", x, n.dense(n.build.call("nn.gelu", n.dense(x, 768)), 192))


def perceptron(n: Network, x: Value) -> Value:
    for units in (256, 512, 511, 1):
        x = n.build.call("nn.relu", n.dense(x, units))
    return x


def odd(n: Network, x: Value) -> Value:
    """A sum that cannot be in pairs, between two that are."""
    for units in (255, 256, 256):
        x = n.build.call("nn.relu", n.dense(x, units))
    return x


NETWORKS: dict[str, tuple[Callable[[Network, Value], Value], tuple[int, ...]]] = {
    "residual": (residual, (1, 3, 112, 112)), "separable": (separable, (1, 3, 112, 112)), "encoder": (encoder, (128, 192)),
    "odd": (odd, (512, 384)),
    "one row": (perceptron, (1, 384)), "few rows": (perceptron, (5, 384)), "many rows": (perceptron, (512, 384)),
}


def network(name: str) -> Graph:
    write, shape = NETWORKS[name]
    build = Builder()
    return build.output(write(Network(build), build.input(TensorType(shape, "float32"), "x")))


def contractions(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op_def.precision is Precision.NARROWS]


def estimate(graph: Graph, options: CompileOptions, rates: to_float16.Rates, dtype: str) -> float:
    """Cycles of all contractions in the types that they have, of casts, and of rounding results."""
    widened, narrowed = conversion_cycles(dtype, options.target)
    total = 0.0
    for node in graph.nodes:
        if node.op == "cast":
            total += node.results[0].size * (widened if node.results[0].dtype == "float32" else narrowed)
    for node in contractions(graph):
        data, result = node.operands[0], node.results[0]
        assert data is not None
        sums, window = rates.sums(node), use_winograd.window_of(Conv.of(node), {})
        times = [cycles(sums, data.dtype, options.target)]
        if window is not None and window.in_channels >= options.layouts.channel_block() and data.dtype != "float16":
            fewest = min(CpuLayouts(options.target).winograd_cycles(window).values())
            times.append(fewest + (data.size * widened if data.dtype == dtype else 0))
        total += min(times) + (result.size * narrowed if result.dtype == dtype else 0)
    return total


def both(name: str, dtype: str, target: str) -> tuple[float, float]:
    """Estimates with the option, and in float32."""
    options, graph = CompileOptions(target=Target.parse(target)), network(name)
    rates = to_float16.Rates.of(graph, options)
    wide = estimate(graph, options, rates, dtype)
    OPTIONS[dtype](graph, options)
    return estimate(graph, options, rates, dtype), wide


def narrow(graph: Graph, dtype: str) -> list[str]:
    """Shapes of the weights of contractions that are narrow."""
    found = [node.operands[:2] for node in contractions(graph)]
    return ["x".join(map(str, w.shape)) for x, w in found if x is not None and w is not None and x.dtype == dtype]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("caches", ["", SMALL_CACHES])
@pytest.mark.parametrize("dtype", OPTIONS)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_network_is_estimated_slower(name: str, dtype: str, caches: str, target: str) -> None:
    narrow, wide = both(name, dtype, f"{target} {caches}")
    assert narrow <= wide


@pytest.mark.usefixtures("narrow_layers")
@pytest.mark.parametrize("name", ["residual", "separable", "encoder", "many rows"])
def test_narrow_layers_everywhere_would_be(name: str) -> None:
    narrow, wide = both(name, "bfloat16", "llvm -mcpu=haswell")
    assert narrow > 1.1 * wide


@pytest.mark.parametrize(("target", "name", "dtype", "expected"), [
    ("haswell", "many rows", "bfloat16", []),
    ("haswell", "one row", "bfloat16", []),
    (f"haswell {SMALL_CACHES}", "one row", "bfloat16", ["256x384", "512x256", "511x512"]),
    (f"haswell {SMALL_CACHES}", "one row", "float16", ["256x384", "512x256", "511x512"]),
    (f"nehalem {SMALL_CACHES}", "one row", "float16", []),
    (f"znver1 {SMALL_CACHES}", "few rows", "float16", []),
    (f"skylake-avx512 {SMALL_CACHES}", "few rows", "bfloat16", ["256x384", "512x256", "511x512"]),
    ("cooperlake", "many rows", "bfloat16", ["256x384", "512x256", "511x512"]),
    ("cooperlake", "many rows", "float16", []),
    ("cooperlake -mtune=sapphirerapids", "many rows", "bfloat16", []),
    ("sapphirerapids", "many rows", "bfloat16", ["256x384", "512x256", "511x512"]),
    ("sapphirerapids", "many rows", "float16", []),
    ("graniterapids", "many rows", "float16", ["256x384", "512x256", "511x512"]),
    ("graniterapids -l2-cache=16777216", "one row", "float16", []),
    (f"graniterapids {SMALL_CACHES}", "one row", "float16", ["256x384", "512x256", "511x512"]),
    ("sapphirerapids", "separable", "bfloat16", ["32x3x3x3", "192x32x1x1", "192x1x3x3", "16x192x1x1"]),
    ("znver5", "separable", "bfloat16", ["32x3x3x3", "192x32x1x1", "192x1x3x3", "16x192x1x1"]),
    ("cooperlake", "odd", "bfloat16", ["255x384", "256x256"]),
    ("cooperlake", "separable", "bfloat16", ["192x32x1x1", "192x1x3x3", "16x192x1x1"]),
])
def test_which_layers_gain(target: str, name: str, dtype: str, expected: list[str]) -> None:
    graph = network(name)
    OPTIONS[dtype](graph, CompileOptions(target=Target.parse(f"llvm -mcpu={target}")))
    assert narrow(graph, dtype)[: max(1, len(expected))] == expected


def test_what_is_read_in_float32_does_not_follow() -> None:
    graph = network("separable")
    to_bfloat16.run(graph, CompileOptions(target=Target.parse("llvm -mcpu=cooperlake")))
    assert "40x144x1x1" in narrow(graph, "bfloat16") and "96x5x5x5" not in narrow(graph, "bfloat16")


def dense_of_any_rows() -> Graph:
    build = Builder()
    x = build.input(TensorType((dims.symbol("n"), 384), "float32"), "x")
    return build.output(Network(build).dense(x, 256))


@pytest.mark.parametrize(("rows", "expected"), [(1, ["256x384"]), (64, [])])
def test_sizes_that_are_not_known_count_as_typical_ones(rows: int, expected: list[str]) -> None:
    graph, target = dense_of_any_rows(), Target.parse(f"llvm -mcpu=haswell {SMALL_CACHES}")
    to_bfloat16.run(graph, CompileOptions(target=target, typical=(("n", rows),)))
    assert narrow(graph, "bfloat16") == expected


@pytest.mark.parametrize(("target", "hidden", "dtype"), [
    ("znver4", 64, "bfloat16"), ("znver4", 40, "float32"), ("cooperlake -mtune=sapphirerapids", 64, "float32"),
    ("haswell", 64, "float32")])
def test_recurrent_layers_gain_where_products_are_added_in_groups(target: str, hidden: int, dtype: str) -> None:
    build = Builder()
    x = build.input(TensorType((5, 1, 16), "float32"), "x")
    weights = [build.constant(weight(1, 4 * hidden, depth)) for depth in (16, hidden)]
    sequence, *_ = build.call_multi("nn.lstm", x, *weights, activations=("sigmoid", "tanh", "tanh"), activation_alpha=(0.0,) * 3,
                                    activation_beta=(0.0,) * 3)
    graph = build.output(sequence)
    to_bfloat16.run(graph, CompileOptions(target=Target.parse(f"llvm -mcpu={target}")))
    assert [v.dtype for v in graph.find("nn.lstm").operands[1:3] if v is not None] == [dtype] * 2


def test_backends_without_layouts_take_every_layer() -> None:
    graph = network("many rows")
    with toy.registered(toy.TOY):
        to_bfloat16.run(graph, CompileOptions(target=Target.parse("toy")))
    assert len(narrow(graph, "bfloat16")) == 4


def test_channels_in_a_layout_of_the_users_are_not_multiplied_in_groups() -> None:
    graph = network("separable")
    to_bfloat16.run(graph, CompileOptions(target=Target.parse("llvm -mcpu=cooperlake"), channel_layout="first"))
    assert narrow(graph, "bfloat16") == []
