"""untranspose, and what it and choose_layouts make of transposed convolutions, compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_module
from forge.ir.types import TensorType
from forge.passes import untranspose
from tests.kernels.support import EVERY_TARGET
from tests.passes.checks import AVX2, check, weights


def upsampling(shape: Sequence[dims.Dim], weight: Sequence[int], strides: Sequence[int], **attributes: Any) -> Graph:
    """A transposed convolution with a bias and an activation."""
    b = Builder()
    x = b.input(TensorType(tuple(shape), "float32"), "x")
    groups = attributes.get("groups", 1)
    op = f"nn.conv{len(strides)}d_transpose"
    y = b.call(op, x, b.constant(weights(*weight)), strides=tuple(strides), name="up", **attributes)
    return b.output(b.call("sigmoid", b.call("nn.bias_add", y, b.constant(weights(weight[1] * groups)))))


def operators(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op != "constant"]


@pytest.mark.parametrize("attributes", [
    {"padding": (1, 0)}, {"dilation": (2, 3), "padding": (0, 1, 2, 3)}, {"groups": 2},
    {"padding": (2, 2), "output_padding": (1, 0)},
])
def test_stride_1(attributes: Mapping[str, Any]) -> None:
    graph = upsampling((2, 8, 5, dims.symbol("w")), (8, 6, 3, 3), (1, 1), **attributes)
    assert check(untranspose.run, graph, symbols={"w": 4}) == 1
    assert operators(graph) == ["nn.conv2d", "nn.bias_add", "sigmoid"]
    assert graph.find("nn.conv2d").name == "up"


def test_volumes_of_stride_1() -> None:
    graph = upsampling((1, 4, 3, 4, 5), (4, 6, 2, 3, 1), (1, 1, 1), padding=(1, 1, 0), groups=2)
    assert check(untranspose.run, graph) == 1
    assert operators(graph)[0] == "nn.conv3d"


@pytest.mark.parametrize(("kernel", "channels"), [((2, 2), 24), ((1, 3), 2), ((3, 2), 17)])
def test_windows_side_by_side(kernel: tuple[int, int], channels: int) -> None:
    """Alone, the usual layout stays; next to another convolution blocks of channels do."""
    graph = upsampling((2, 9, 4, dims.symbol("w")), (9, channels, *kernel), kernel)
    assert check(untranspose.run, graph, symbols={"w": 5}) == 1
    assert operators(graph) == ["nn.contrib_subpixel_product", "nn.bias_add", "sigmoid"]
    b = Builder()
    x = b.input(TensorType((1, 9, 4, 5), "float32"), "x")
    up = b.call("nn.conv2d_transpose", x, b.constant(weights(9, 24, 2, 2)), strides=(2, 2))
    graph = b.output(b.call("nn.conv2d", up, b.constant(weights(8, 24, 3, 3))))
    assert untranspose.run(graph, check_options()) == 0


@pytest.mark.parametrize(("channels", "kernel", "strides", "padding"), [
    (1, (4, 4), (2, 2), (0, 0)), (3, (4, 4), (2, 2), (1, 1)), (1, (9, 9), (3, 3), (4, 3, 4, 3)), (5, (1, 8), (1, 4), (0, 2)),
    (2, (3, 5), (2, 3), (1, 0)),
])
def test_few_channels(channels: int, kernel: tuple[int, int], strides: tuple[int, int], padding: tuple[int, ...]) -> None:
    """Pixels fill the lanes that few channels leave empty."""
    graph = upsampling((2, 9, 4, dims.symbol("w")), (9, channels, *kernel), strides, padding=padding)
    assert check(untranspose.run, graph, symbols={"w": 5}) == 1
    moved = ["nn.depth_to_space", "strided_slice"] if any(padding) or kernel[0] % strides[0] else ["nn.depth_to_space"]
    assert operators(graph) == ["nn.conv2d", *moved, "nn.bias_add", "sigmoid"]


@pytest.mark.parametrize(("weight", "groups"), [((4, 3, 2, 3, 2), 1), ((4, 1, 2, 3, 2), 4)])
def test_few_channels_of_volumes(weight: tuple[int, ...], groups: int) -> None:
    graph = upsampling((1, 4, 3, dims.symbol("h"), 4), weight, (2, 3, 1), groups=groups)
    assert check(untranspose.run, graph, symbols={"h": 5}) == 1
    assert operators(graph) == ["nn.conv3d", "reshape", "transpose", "reshape", "nn.bias_add", "sigmoid"]


@pytest.mark.parametrize("graph", [
    upsampling((1, 8, 5, 5), (8, 16, 4, 4), (2, 2)),  # channels fill vectors
    upsampling((1, 8, 5, 5), (8, 1, 1, 1), (1, 2), groups=8),  # single channels
    upsampling((1, 8, 5, 5), (8, 8, 2, 2), (1, 1), padding=(2, 0)),  # all taps of the border's pixels are cropped
    upsampling((1, 8, 5, 5), (8, 2, 2, 2), (2, 2), padding=(0, 0, 3, 0)),  # the last row of the data is not used
    upsampling((1, 8, 5, dims.symbol("w")), (8, 2, 2, 2), (2, 2), padding=(0, dims.symbol("w") // 4)),
    upsampling((1, 8, 5, dims.symbol("w")), (8, 2, 4, 4), (2, 2), padding=(1, 2)),  # of 2 * w - 2 columns
])
def test_what_stays(graph: Graph) -> None:
    assert untranspose.run(graph, check_options(AVX2)) == 0


SHAPES: dict[str, tuple[tuple[int, ...], Sequence[int], Sequence[int], dict[str, Any]]] = {
    "vocoder": ((1, 40, 9), (40, 24, 16), (8,), {"padding": (4,)}),
    "odd lengths": ((2, 17, 5), (17, 33, 5), (3,), {"padding": (2, 1), "output_padding": (1,)}),
    "one channel": ((1, 17, 6), (17, 1, 8), (4,), {"padding": (2,)}),
    "side by side": ((2, 9, 5, 37), (9, 18, 2, 2), (2, 2), {}),
    "side by side along a line": ((1, 31, 103), (31, 17, 3), (3,), {}),
    "images": ((2, 24, 5, 6), (24, 20, 3, 3), (2, 2), {"padding": (1, 1), "output_padding": (1, 1)}),
    "two groups": ((1, 32, 5, 6), (32, 16, 4, 4), (2, 2), {"padding": (1, 1), "groups": 2}),
    "each channel": ((1, 20, 5, 6), (20, 1, 4, 4), (2, 2), {"padding": (1, 1), "groups": 20}),
    "apart": ((1, 16, 5, 6), (16, 16, 3, 2), (2, 3), {"dilation": (2, 2)}),
    "less than the stride": ((1, 16, 4, 3), (16, 16, 1, 2), (3, 4), {"output_padding": (2, 1)}),
    "volumes": ((1, 18, 3, 4, 5), (18, 17, 3, 2, 4), (2, 2, 2), {"padding": (1, 0, 1)}),
    "several of each channel": ((1, 9, 4, 5), (9, 3, 3, 3), (2, 2), {"groups": 9}),
    "each channel of volumes": ((1, 9, 3, 4, 5), (9, 1, 4, 3, 2), (2, 2, 2), {"padding": (1, 1, 0), "groups": 9}),
    "few channels of volumes": ((2, 9, 3, 4, 5), (9, 3, 2, 3, 4), (2, 1, 2), {"padding": (0, 1, 1)}),
    "groups of volumes": ((1, 16, 3, 4, 5), (16, 8, 2, 2, 2), (2, 2, 2), {"groups": 2}),
}


@EVERY_TARGET
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_compiled(name: str, symbolic: bool, target: str) -> None:
    """Of known sizes, and one code for sizes of a single element, primes, and others."""
    (batch, channels, *sizes), weight, strides, attributes = SHAPES[name]
    letters = [dims.symbol(letter) for letter in "dhw"[-len(sizes):]]
    module = Module(upsampling((batch, channels, *(letters if symbolic else sizes)), weight, strides, **attributes))
    compiled = compile_module(module, check_options(target)).runtime()
    for image in ([sizes, [1] * len(sizes), [13] * len(sizes), [2, 31, 3][-len(sizes):]] if symbolic else [sizes]):
        x = np.random.default_rng(image).standard_normal((batch, channels, *image)).astype(np.float32)
        (want,) = run_module(module, {"x": x})
        got = np.asarray(compiled(x))
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
