"""Layers that differ in numbers of channels share kernels, where other sizes are known at run time only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import CompiledModel, check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from tests.kernels.support import EVERY_TARGET


class Net(Builder):
    """A builder with convolutions of random weights, over an image, a series or a volume of any size."""

    def image(self, channels: int, axes: int = 2) -> Value:
        return self.input(TensorType((*map(dims.symbol, "n"), channels, *map(dims.symbol, "dhw"[-axes:])), "float32"), "x")

    def layer(self, x: Value, channels: int, *kernel: int, activation: str = "nn.relu", **attributes: Any) -> Value:
        inner, rng = x.shape[1], np.random.default_rng(channels)
        assert isinstance(inner, int)
        values = rng.normal(0, (inner * np.prod(kernel)) ** -0.5, (channels, inner, *kernel))
        weight, bias = (self.constant(v.astype(np.float32)) for v in (values, rng.normal(size=channels)))
        padding = [k // 2 for k in kernel]
        result = self.call(f"nn.conv{len(kernel)}d", x, weight, padding=padding * 2, **attributes)
        return self.call(activation, self.call("nn.bias_add", result, bias))

    def compiled(self, target: str, *outputs: Value) -> CompiledModel:
        self.output(*outputs)
        return compile_module(Module(self.graph.copy()), check_options(target), use_cache=False)

    def check(self, compiled: CompiledModel, *sizes: Sequence[int]) -> None:
        for images, *extents in sizes:
            shape = (images, self.graph.inputs[0].shape[1], *extents)
            x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
            results, wanted = compiled.runtime()(x), run_graph(self.graph, [x])
            results = results if isinstance(results, list | tuple) else [results]
            for result, want in zip(results, wanted, strict=True):
                assert result.shape == want.shape
                np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4 * np.abs(want).max(initial=1))


def kernels(compiled: CompiledModel, name: str) -> int:
    """How many kernels have this part of a name."""
    assert compiled.lowered is not None
    return sum(name in function.name for function in compiled.lowered.library.functions)


@EVERY_TARGET
def test_layers_of_other_channels_share_a_convolution(target: str) -> None:
    net = Net()
    x = net.image(32)
    for channels in (64, 128, 32, 64):
        x = net.layer(x, channels, 1, 1)
    compiled = net.compiled(target, x)
    assert kernels(compiled, "conv2d") < 4
    net.check(compiled, (1, 9, 11), (2, 1, 40), (3, 33, 2), (1, 1, 1), (0, 3, 5))


@EVERY_TARGET
def test_layers_that_copy_their_input_share_a_convolution(target: str) -> None:
    """Of stride 2 with padding; the last ones have more weights than the cache holds, and take them in chunks."""
    net = Net()
    x = net.image(32)
    for channels in (64, 128, 256, 512, 768, 512):
        x = net.layer(x, channels, 3, 3, strides=(2, 2))
    compiled = net.compiled(target, x)
    assert kernels(compiled, "conv2d") < 5
    net.check(compiled, (1, 37, 61), (2, 5, 170), (1, 70, 3))


@EVERY_TARGET
def test_layers_of_other_channels_share_a_winograd_convolution(target: str) -> None:
    net = Net()
    x = net.image(64)
    for channels in (128, 64, 256, 64):
        x = net.layer(x, channels, 3, 3)
    compiled = net.compiled(target, x)
    assert 0 < kernels(compiled, "winograd") < 4
    net.check(compiled, (1, 9, 11), (2, 17, 4), (1, 1, 1), (1, 40, 33))


@pytest.mark.parametrize("axes", [1, 3])
def test_series_and_volumes(axes: int) -> None:
    net = Net()
    x = net.image(32, axes)
    for channels in (64, 128, 64, 32):
        x = net.layer(x, channels, *[3] * axes, strides=[1] * (axes - 1) + [2])
    compiled = net.compiled("llvm", x)
    assert kernels(compiled, "conv") < 4
    net.check(compiled, (1, *[5] * (axes - 1), 70), (2, *[2] * (axes - 1), 33))


def test_what_follows_a_layer_has_its_channels() -> None:
    """Biases, factors of each channel, numbers and other tensors, of one channel too."""
    net = Net()
    x = net.image(32)
    for channels in (32, 64, 64, 32):
        y = net.layer(x, channels, 1, 1, activation="sigmoid")
        factor = net.constant(np.linspace(0.5, 2, channels, dtype=np.float32)[:, None, None])
        y = net.call("multiply", y, factor)
        x = net.call("add", y, x) if y.shape == x.shape else y
    compiled = net.compiled("llvm", x, net.layer(x, 1, 1, 1))
    net.check(compiled, (1, 9, 11), (2, 3, 40))


@EVERY_TARGET
@pytest.mark.parametrize(("last", "most"), [("nn.relu", 4), ("add", 2)])
def test_layers_with_and_without_another_operand_share_a_kernel(target: str, last: str, most: int) -> None:
    """It is added before or after the activation; a layer that adds what it reads has code of its own."""
    net = Net()
    x = net.layer(net.image(32), 64, 3, 3)
    for channels in (64, 128, 128):
        y = net.layer(x, channels, 3, 3, activation="nn.relu" if last == "add" else "negative")
        y = net.layer(y, channels, 3, 3, activation="nn.relu" if last == "add" else "negative")
        y = net.call("add", x, y) if x.shape == y.shape else y
        x = y if last == "add" else net.call(last, y)
    own = net.layer(x, 128, 3, 3)
    compiled = net.compiled(target, net.call("add", own, x))
    assert 0 < kernels(compiled, "winograd") <= most
    net.check(compiled, (1, 9, 11), (2, 17, 4), (1, 1, 1), (1, 40, 33), (0, 3, 5))


def test_a_layer_without_the_operand_keeps_the_signs_of_zeros() -> None:
    net = Net()
    x = net.image(16)
    weight = net.constant(np.ones((16, 16, 1, 1), np.float32))
    plain = net.call("negative", net.call("nn.conv2d", x, weight))
    joined = net.call("add", net.call("negative", net.call("nn.conv2d", net.call("nn.relu", plain), weight)), x)
    compiled = net.compiled("llvm", plain, joined)
    assert kernels(compiled, "conv2d") == 1
    assert np.signbit(compiled.runtime()(np.zeros((1, 16, 3, 5), np.float32))[0]).all()
    net.check(compiled, (1, 9, 11), (2, 3, 40))


def test_what_is_no_multiple_of_the_blocks_is_right() -> None:
    net = Net()
    x = net.image(24)
    for channels in (40, 24, 40, 33, 7):
        x = net.layer(x, channels, 1, 1)
    net.check(net.compiled("llvm", x), (1, 9, 11), (2, 3, 40))


@EVERY_TARGET
def test_depthwise_layers_of_other_channels_share_a_kernel(target: str) -> None:
    net = Net()
    x = net.image(32)
    for channels in (32, 64, 64, 160):
        weight = np.random.default_rng(1).normal(size=(x.shape[1], 1, 3, 3)).astype(np.float32)
        y = net.call("nn.conv2d", x, net.constant(weight), groups=x.shape[1], padding=(1, 1, 1, 1))
        x = net.layer(net.call("nn.relu", y), channels, 1, 1)
    compiled = net.compiled(target, x)
    assert kernels(compiled, "depthwise") < 3
    net.check(compiled, (1, 9, 11), (2, 3, 40), (1, 1, 1), (1, 70, 5))


@EVERY_TARGET
def test_concatenations_of_other_channels_share_a_kernel(target: str) -> None:
    net = Net()
    x, outputs = net.image(16), []
    for _ in range(6):
        outputs.append(net.call("nn.relu", x))
        x = net.call("concatenate", x, outputs[-1], axis=1)
    compiled = net.compiled(target, x, *outputs)
    assert kernels(compiled, "concatenate") < 4  # memory of the caller may be aligned otherwise
    net.check(compiled, (1, 9, 11), (2, 3, 40), (3, 1, 1), (2, 0, 4))


@EVERY_TARGET
def test_concatenations_along_other_axes_share_a_kernel(target: str) -> None:
    net = Net()
    x, outputs = net.image(3), []
    for axis in (2, 1, 2, 1, 2, 3):
        outputs.append(net.call("nn.relu", x))
        x = net.call("concatenate", outputs[-1], x, axis=axis)
    compiled = net.compiled(target, x, *outputs)
    assert kernels(compiled, "concatenate") < 5  # memory of the caller may be aligned otherwise; along rows, there are many runs
    net.check(compiled, (1, 9, 11), (2, 3, 40), (3, 1, 1), (2, 0, 4), (1, 2, 7))


def test_known_sizes_keep_kernels_of_their_own() -> None:
    net = Net()
    x = net.input(TensorType((1, 32, 8, 8), "float32"), "x")
    for channels in (64, 128):
        x = net.layer(x, channels, 1, 1)
    assert kernels(net.compiled("llvm", x), "conv2d") == 2
