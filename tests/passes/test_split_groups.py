"""split_groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_module
from forge.ir.types import TensorType
from forge.passes import choose_layouts, split_groups
from tests.passes.checks import AVX2, AVX512, check, weights


def grouped(batch: dims.Dim, inner: int, outer: int, groups: int, kernel: int = 3, height: dims.Dim = 9, **attributes: Any
            ) -> Graph:
    b = Builder()
    x = b.input(TensorType((batch, inner * groups, height, 8), "float32"), "x")
    weight = b.constant(weights(outer * groups, inner, kernel, kernel))
    made = b.call("nn.conv2d", x, weight, groups=groups, name="layer", **attributes)
    return b.output(b.call("nn.relu", made))


def operators(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op != "constant"]


@pytest.mark.parametrize(("inner", "outer", "groups"), [(16, 16, 2), (24, 12, 4), (8, 20, 3)])
def test_one_convolution_a_group(inner: int, outer: int, groups: int) -> None:
    graph = grouped(2, inner, outer, groups, padding=(1, 1), strides=(2, 1), dilation=(1, 2))
    assert check(split_groups.run, graph) == 1
    assert operators(graph) == [*["strided_slice", "nn.conv2d"] * groups, "concatenate", "nn.relu"]
    assert graph.find("concatenate").name == "layer"


@pytest.mark.parametrize(("inner", "outer", "groups", "convolutions"), [(4, 4, 8, 2), (8, 8, 4, 2), (4, 8, 2, 1), (4, 4, 6, 2)])
def test_narrow_groups_share_one(inner: int, outer: int, groups: int, convolutions: int) -> None:
    graph = grouped(2, inner, outer, groups, padding=(1, 1))
    assert check(split_groups.run, graph) == 1
    assert operators(graph).count("nn.conv2d") == convolutions
    assert graph.find("layer") is not None


def test_several_transposed_filters_of_each_channel() -> None:
    b = Builder()
    x = b.input(TensorType((2, 8, 4, 5), "float32"), "x")
    made = b.call("nn.conv2d_transpose", x, b.constant(weights(8, 3, 3, 2)), groups=8, strides=(2, 1), name="layer")
    graph = b.output(b.call("nn.relu", made))
    assert check(split_groups.run, graph) == 1
    assert operators(graph) == ["repeat", "nn.conv2d_transpose", "nn.relu"]
    assert graph.find("layer").attrs.groups == 24


def test_several_filters_of_each_channel_of_images_of_any_size() -> None:
    graph = grouped(2, 1, 3, 32, height=dims.symbol("h"), padding=(1, 1))
    assert check(split_groups.run, graph, symbols={"h": 7}) == 1
    assert operators(graph) == ["repeat", "nn.conv2d", "nn.relu"]
    assert graph.find("layer").attrs.groups == 96


@pytest.mark.parametrize("filters", [2, 8])
def test_filters_that_divide_a_block_of_channels(filters: int) -> None:
    """They read the same data in blocks."""
    graph = grouped(2, 1, filters, 20, height=dims.symbol("h"), padding=(1, 1))
    assert check(split_groups.run, graph, AVX512, symbols={"h": 7}) == 0
    assert check(choose_layouts.run, graph, AVX512, symbols={"h": 7})
    assert operators(graph)[:2] == ["layout_transform", "nn.contrib_depthwise_conv2d_NCHWc"]


def test_a_symbolic_batch() -> None:
    assert check(split_groups.run, grouped(dims.symbol("n"), 16, 16, 2), symbols={"n": 3}) == 1


@pytest.mark.parametrize(("inner", "outer", "groups", "convolutions"), [(16, 16, 2, 2), (4, 8, 2, 1), (8, 20, 3, 3)])
def test_transposed_ones(inner: int, outer: int, groups: int, convolutions: int) -> None:
    b = Builder()
    x = b.input(TensorType((2, inner * groups, 4, 5), "float32"), "x")
    weight = b.constant(weights(inner * groups, outer, 4, 3))
    attributes: dict[str, Any] = {"strides": (2, 1), "padding": (1, 0), "output_padding": (1, 0)}
    graph = b.output(b.call("nn.conv2d_transpose", x, weight, groups=groups, **attributes))
    assert check(split_groups.run, graph) == 1
    assert operators(graph).count("nn.conv2d_transpose") == convolutions


@pytest.mark.parametrize("outer", [1, 3])
def test_few_output_channels_are_sums(outer: int) -> None:
    graph = grouped(2, 32, outer, 1, padding=(1, 0), strides=(2, 1))
    assert check(split_groups.run, graph) == 1
    assert operators(graph) == [*["nn.conv2d", "sum"] * outer, *["concatenate"] * (outer > 1), "nn.relu"]
    assert graph.find("layer").op == ("sum" if outer == 1 else "concatenate")


@pytest.mark.parametrize(("inner", "outer", "kernel"), [(32, 4, 3), (32, 1, 1), (16, 1, 3), (40, 1, 3)])
def test_other_convolutions_keep_their_channels(inner: int, outer: int, kernel: int) -> None:
    assert check(split_groups.run, grouped(2, inner, outer, 1, kernel), AVX512) == 0


@pytest.mark.parametrize("op", ["nn.conv3d", "nn.conv3d_transpose"])
def test_volumes(op: str) -> None:
    b = Builder()
    x = b.input(TensorType((1, 32, 3, 4, 5), "float32"), "x")
    graph = b.output(b.call(op, x, b.constant(weights(32, 16, 2, 2, 3)), groups=2))
    assert check(split_groups.run, graph) == 1
    assert operators(graph).count(op) == 2


@pytest.mark.parametrize(("graph", "target"), [
    (grouped(1, 1, 1, 32), AVX512),  # depthwise
    (grouped(1, 2, 2, 8), AVX512),  # narrow
    (grouped(1, 16, 2, 4), AVX512),  # mostly padding
    (grouped(1, 16, 16, 1), AVX512),  # one group
    (grouped(1, 16, 16, 2, data_layout="NCHW", out_dtype="float64"), AVX2),  # sums of another type
])
def test_what_stays(graph: Graph, target: Any) -> None:
    assert check(split_groups.run, graph, target) == 0


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize(("inner", "outer", "groups"), [(32, 16, 2), (12, 20, 3), (32, 2, 1)])
def test_compiled(inner: int, outer: int, groups: int, target: str) -> None:
    module = Module(grouped(2, inner, outer, groups, padding=(1, 1)))
    x = np.random.default_rng(0).standard_normal((2, inner * groups, 9, 8)).astype(np.float32)
    wanted = run_module(module, {"x": x})[0]
    got = compile_module(module, check_options(target)).runtime()(x)
    np.testing.assert_allclose(got, wanted, atol=2e-5 * np.abs(wanted).max())
