"""Networks of volumes: what choose_layouts, split_groups and use_winograd make of them, and that sizes do not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_module
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.options import CompileOptions
from forge.passes import choose_layouts, split_groups, use_winograd
from tests.kernels.support import EVERY_TARGET
from tests.passes.checks import AVX2, AVX512, check, weights

ANY = tuple(map(dims.symbol, ("n", "d", "h", "w")))
SIZES = {"n": 2, "d": 3, "h": 5, "w": 6}


class Net(Builder):
    """A builder with convolutions of random weights, of volumes whose sizes are symbols."""

    def volume(self, channels: int, sizes: tuple[dims.Dim, ...] = ANY) -> Value:
        return self.input(TensorType((sizes[0], channels, *sizes[1:]), "float32"), "x")

    def conv(self, x: Value, channels: int, kernel: tuple[int, int, int] = (3, 3, 3), **attributes: Any) -> Value:
        weight = self.constant(weights(channels, x.shape[1] // attributes.get("groups", 1), *kernel))
        return self.call("nn.conv3d", x, weight, **{"padding": tuple(k // 2 for k in kernel), **attributes})


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op != "constant"]


@pytest.mark.parametrize("target", [AVX512, AVX2])
@pytest.mark.parametrize(("channels", "attributes"), [
    (1, {}), (3, {"strides": (1, 2, 2)}), (16, {"dilation": (2, 1, 2)}), (24, {"kernel": (1, 1, 1)}), (24, {"kernel": (3, 1, 1)}),
    (8, {"padding": (1, 0, 2, 0, 1, 1)}),
])
def test_one_convolution(channels: int, attributes: dict[str, Any], target: Any) -> None:
    net = Net()
    net.output(net.conv(net.volume(channels), 20, **attributes))
    assert check(choose_layouts.run, net.graph, target, SIZES) == 1
    assert ops(net.graph) == ["layout_transform", "nn.contrib_conv3d_NCDHWc", "layout_transform"]


@pytest.mark.parametrize(("groups", "outputs", "convolutions"), [(24, 24, 1), (2, 40, 2), (4, 32, 2)])
def test_groups(groups: int, outputs: int, convolutions: int) -> None:
    net = Net()
    net.output(net.conv(net.volume(24 if groups == 24 else 32), outputs, groups=groups, dilation=(1, 2, 1)))
    split_groups.run(net.graph, CompileOptions(target=AVX512))
    assert check(choose_layouts.run, net.graph, symbols=SIZES)
    name = "nn.contrib_depthwise_conv3d_NCDHWc" if groups == outputs else "nn.contrib_conv3d_NCDHWc"
    assert ops(net.graph).count(name) == convolutions


def network() -> Graph:
    """Two levels of a U-Net."""
    net = Net()
    fine = net.call("nn.relu", net.conv(net.volume(16), 16))
    pooled = net.call("nn.max_pool3d", fine, pool_size=(2, 2, 2), strides=(2, 2, 2))
    coarse = net.call("nn.bias_add", net.conv(pooled, 32, strides=(2, 1, 1)), net.constant(weights(32)))
    mean = net.call("nn.adaptive_avg_pool3d", coarse, output_size=(1, 1, 1))
    gated = net.call("multiply", coarse, net.call("sigmoid", mean))
    padded = net.call("nn.pad", gated, pad_width=((0, 0), (0, 0), (1, 0), (0, 1), (2, 0)))
    joined = net.call("concatenate", padded, net.call("nn.relu", padded), axis=1)
    return net.output(net.conv(net.call("strided_slice", joined, begin=(1,), end=(3,), axes=(3,)), 16))


def test_what_is_between_follows() -> None:
    graph = network()
    assert check(choose_layouts.run, graph, symbols={"n": 2, "d": 6, "h": 8, "w": 10})
    assert ops(graph).count("layout_transform") == 2


@EVERY_TARGET
def test_compiled_for_all_sizes(target: str) -> None:
    module = Module(network())
    run = compile_module(module, check_options(target)).runtime()
    for sizes in ((1, 2, 4, 4), (2, 5, 7, 11), (1, 9, 30, 6)):
        x = np.random.default_rng(1).standard_normal((sizes[0], 16, *sizes[1:])).astype(np.float32)
        want, got = run_module(module, {"x": x})[0], run(x)
        assert isinstance(want, np.ndarray)
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())


@pytest.mark.parametrize(("channels", "attributes", "algorithm"), [
    (32, {}, True), (32, {"kernel": (1, 3, 3)}, True), (24, {"strides": (2, 1, 1)}, True),
    (3, {}, False), (32, {"strides": (1, 2, 2)}, False), (32, {"dilation": (2, 1, 1)}, False), (32, {"kernel": (3, 1, 1)}, False),
])
def test_winograd_of_slices(channels: int, attributes: dict[str, Any], algorithm: bool) -> None:
    net = Net()
    net.output(net.conv(net.volume(channels), 32, **attributes))
    choose_layouts.run(net.graph, CompileOptions(target=AVX512))
    assert check(use_winograd.run, net.graph, symbols=SIZES) == algorithm
    assert ("nn.contrib_conv3d_winograd_NCDHWc" in ops(net.graph)) is algorithm
