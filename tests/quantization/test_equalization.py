"""Channels that get ranges and weights that quantize well, while results stay."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.graph import Graph
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.saved.statistics import Statistics
from forge.quantization.places.layers import layers_of
from forge.quantization.weights.equalization import chain_of, equalize
from tests.quantization.models import Net

SPREAD = np.array([64, 1, 1, 0.25, 8, 1, 1, 1], np.float32)


def spread_net(between: str) -> tuple[Net, Value]:
    """Two layers, of which the first gives channels of very different ranges, and what lies between."""
    net = Net(4, 6, 6) if "pool" in between else Net(4)
    array = np.asarray(net.weight(8, 4).constant) * SPREAD[:, None]
    if "pool" in between:
        made = net.call("nn.conv2d", net.x, net.builder.constant(array[:, :, None, None]))
        hidden = net.call(between, net.call("nn.relu", made), pool_size=(2, 2), strides=(2, 2))
        net.module(net.conv(hidden, 8, 1))
    else:
        made = net.call("nn.dense", net.x, net.builder.constant(array))
        net.module(net.dense(net.call(between, made), 8))
    return net, made


def statistics_of(graph: Graph, inputs: list[np.ndarray]) -> dict[Value, Statistics]:
    """By the interpreter."""
    found: dict[Value, Statistics] = {}

    def observe(node: object, results: object) -> None:
        for value, array in zip(node.results, results):  # type: ignore[attr-defined, call-overload]
            axis = 1 if array.ndim == 4 else array.ndim - 1
            others = tuple(k for k in range(array.ndim) if k != axis)
            low, high = array.min(axis=others).astype(float), array.max(axis=others).astype(float)
            found[value] = Statistics(axis, 1, low.min(), high.max(), low.min(), high.max(), channel_low=low, channel_high=high)

    run_graph(graph, inputs, observer=observe)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("between", ["nn.relu", "nn.leaky_relu", "nn.dropout", "nn.max_pool2d", "nn.avg_pool2d"])
def test_results_stay_and_factors_are_powers_of_two(between: str) -> None:
    net, _ = spread_net(between)
    graph, (x,) = net.builder.graph, net.samples(1, batch=16)
    first, second = layers_of(graph)
    before, known = first.array.copy(), statistics_of(graph, [x])
    expected = run_graph(graph, [x])[0]
    assert equalize(graph, known, per_channel=False) == 1
    np.testing.assert_array_equal(run_graph(graph, [x])[0], expected)
    with np.errstate(all="ignore"):
        factors = np.nanmax((before / first.array).reshape(8, -1), axis=1)
    assert (np.log2(factors) % 1 == 0).all() and factors[0] > factors[1] > 0 and len(set(factors.tolist())) > 2
    result = known[second.inputs[0]]
    np.testing.assert_allclose(result.channel_high, statistics_of(graph, [x])[second.inputs[0]].channel_high, rtol=1e-6)


@pytest.mark.parametrize("between", ["tanh", "exp"])
def test_functions_that_keep_no_ratios_end_a_chain(between: str) -> None:
    _, made = spread_net(between)
    assert made.producer is not None and chain_of(made.producer) is None


def test_equal_channels_stay() -> None:
    net = Net(4)
    graph = net.builder.graph
    net.module(net.dense(net.call("nn.relu", net.call("nn.dense", net.x, net.builder.constant(np.ones((8, 4), np.float32)))), 8))
    assert equalize(graph, statistics_of(graph, net.samples(1)), per_channel=True) == 0
