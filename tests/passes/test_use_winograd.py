"""use_winograd."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.builder import Builder
from forge.ir.nodes import Graph
from forge.ir.types import TensorType
from forge.ops.nn_conv_winograd import restore_filters, transform_filters
from forge.passes import choose_layouts, use_winograd
from forge.passes.base import PassContext
from tests.passes.checks import AVX2, AVX512, check, weights


def network(channels: int, size: int, **attributes: object) -> Graph:
    net = Builder()
    x = net.input(TensorType((1, channels, size, size), "float32"), "x")
    y = net.call("nn.conv2d", x, net.constant(weights(20, channels, 3, 3)), padding=(1, 1), **attributes)
    net.output(net.call("nn.relu", y))
    return net.graph


def converted(graph: Graph, target: object = AVX512) -> int:
    choose_layouts.run(graph, PassContext(target))
    return check(use_winograd.run, graph, target)


@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_converts_and_keeps_the_meaning(target: object) -> None:
    graph = network(24, 12)
    assert converted(graph, target) == 1
    (node,) = [n for n in graph.nodes if n.op == "nn.contrib_conv2d_winograd_NCHWc"]
    assert node.operands[1].shape[1] in (16, 36)
    assert node.attributes["in_channels"] == 24


@pytest.mark.parametrize(("channels", "size", "attributes"), [
    (24, 12, {"strides": (2, 2)}), (24, 12, {"dilation": (2, 2)}), (3, 12, {}), (24, 5, {}), (1024, 12, {}),
])
def test_leaves_alone(channels: int, size: int, attributes: dict[str, object]) -> None:
    assert converted(network(channels, size, **attributes)) == 0


@pytest.mark.parametrize("tile", [2, 4])
def test_filters_come_back(tile: int) -> None:
    packed = weights(2, 1, 3, 3, 4, 5)
    np.testing.assert_allclose(restore_filters(transform_filters(packed, tile)), packed, rtol=0, atol=1e-6)
