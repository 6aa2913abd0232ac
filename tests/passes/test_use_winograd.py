"""use_winograd."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dtypes
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.types import TensorType
from forge.ops.packed.winograd import restore_filters, transform_filters
from forge.options import CompileOptions
from forge.passes import choose_layouts, use_winograd
from forge.target import Target
from tests.passes.checks import AVX2, AVX512, check, weights

DOTS = Target.parse("llvm -mcpu=znver4")


def network(channels: int, size: int, dtype: str = "float32", outputs: int = 20, **attributes: object) -> Graph:
    net = Builder()
    x = net.input(TensorType((1, channels, size, size), dtype), "x")
    filters = weights(outputs, channels, 3, 3).astype(dtypes.numpy_dtype(dtype))
    y = net.call("nn.conv2d", x, net.constant(filters), padding=(1, 1), **attributes)
    net.output(net.call("nn.relu", y))
    return net.graph


def converted(graph: Graph, target: object = AVX512, tolerance: float = 1e-5) -> int:
    choose_layouts.run(graph, CompileOptions(target=target))
    return check(use_winograd.run, graph, target, tolerance=tolerance)


def nbytes(graph: Graph) -> int:
    """Of the weights that nodes use."""
    used = [v for node in graph.nodes for v in node.operands if v is not None and v.constant is not None]
    return sum(v.constant.nbytes for v in used)


@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_converts_and_keeps_the_meaning(target: object) -> None:
    graph = network(24, 12)
    choose_layouts.run(graph, CompileOptions(target=target))
    before = nbytes(graph)
    assert use_winograd.grown_bytes(graph) == 0
    assert check(use_winograd.run, graph, target, tolerance=1e-5) == 1
    assert use_winograd.grown_bytes(graph) == nbytes(graph) - before > 0
    (node,) = [n for n in graph.nodes if n.op == "nn.contrib_conv2d_winograd_NCHWc"]
    assert node.operands[1].shape[1] in (16, 36)
    assert node.attributes["in_channels"] == 24


@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_converts_dilated_ones(target: object) -> None:
    graph = network(24, 26, dilation=(2, 3))
    assert converted(graph, target) == 1
    (node,) = [n for n in graph.nodes if n.op == "nn.contrib_conv2d_winograd_NCHWc"]
    assert tuple(node.attributes["dilation"]) == (2, 3)


@pytest.mark.parametrize("target", [DOTS, AVX512, AVX2])
def test_filters_of_bfloat16_are_float32(target: object) -> None:
    graph = network(64, 24, "bfloat16", 64)
    assert converted(graph, target, tolerance=2**-8) == 1
    (node,) = [n for n in graph.nodes if n.op == "nn.contrib_conv2d_winograd_NCHWc"]
    assert (node.operands[1].dtype, node.result.dtype) == ("float32", "bfloat16")


def test_pairs_of_bfloat16_are_faster_where_images_are_small() -> None:
    assert converted(network(128, 8)) == 1
    assert converted(network(128, 8, "bfloat16"), DOTS, tolerance=2**-8) == 0


@pytest.mark.parametrize(("channels", "size", "attributes"), [
    (24, 12, {"strides": (2, 2)}), (24, 12, {"dilation": (5, 4)}), (3, 12, {}), (24, 5, {}), (1024, 12, {}),
])
def test_leaves_alone(channels: int, size: int, attributes: dict[str, object]) -> None:
    assert converted(network(channels, size, **attributes)) == 0


@pytest.mark.parametrize("tile", [2, 4])
def test_filters_come_back(tile: int) -> None:
    packed = weights(2, 1, 3, 3, 4, 5)
    np.testing.assert_array_equal(transform_filters(packed, tile), transform_filters(packed, 4)[:, : (tile + 2) ** 2])
    np.testing.assert_allclose(restore_filters(transform_filters(packed, tile)), packed, rtol=0, atol=1e-6)
