"""Which nodes are layers, and where their data are rounded."""

from __future__ import annotations

import numpy as np
import pytest

from forge.errors import OptionError
from forge.quantization.places.layers import exclusions, is_depthwise, layers_of, left_out, numbered_layers, sites_of, sources
from forge.quantization.places.products import products
from tests.quantization.models import Net, cnn, transformer


def test_convolutions_and_dense_layers() -> None:
    layers = layers_of(cnn().mod.main)
    assert [is_depthwise(layer) for layer in layers] == [False, True, False, False]
    assert [layer.groups for layer in layers] == [1, 8, 1, 1]
    assert [layer.depth for layer in layers] == [27, 9, 8, 8]
    axes = [(layer.axis, layer.summed_axis, layer.channel_axis) for layer in layers]
    assert axes == [(0, 1, 1), (0, None, 1), (0, 1, 1), (0, 1, -1)]


def test_products_of_activations_have_no_weight() -> None:
    graph = transformer().mod.main
    found = numbered_layers(graph)
    both = [layer for layer in found.values() if layer.weight is None]
    assert [layer.data for layer in both] == [(0, 1)] * 2 and all(layer.summed_axis is None for layer in both)
    assert [products(graph)[k] for k in found] == [layer.node for layer in found.values()]


def test_parts_of_a_concatenation_are_rounded_alike() -> None:
    net = Net(4, 4, 4)
    parts = [net.call("nn.relu", net.conv(net.x, 4)) for _ in range(2)]
    joined = net.call("concatenate", *parts, axis=1)
    net.module(net.conv(net.call("transpose", joined, axes=(0, 1, 3, 2)), 4))
    sites = sites_of(layers_of(net.builder.graph))
    assert list(sources(joined)) == parts
    assert sites.groups[parts[0]] is sites.groups[parts[1]] and set(sites.groups[parts[0]]) == set(parts)
    assert sites.channel_axis[parts[0]] == 1 and net.x in sites.groups and joined not in sites.groups


def test_one_term_of_a_sum_of_two_layers_is_stored() -> None:
    net = Net(4, 4, 4)
    terms = [net.conv(net.x, 4) for _ in range(2)]
    net.module(net.conv(net.call("nn.relu", net.call("add", *terms)), 4))
    groups = sites_of(layers_of(net.builder.graph)).groups
    assert terms[0] in groups and terms[1] not in groups


def test_exclusions_name_layers() -> None:
    graph = cnn().mod.main
    nodes = [layer.node for layer in layers_of(graph)]
    assert left_out(graph, exclusions("nn.dense"), nodes) == {nodes[-1]}
    assert left_out(graph, exclusions([nodes[0], "nn.den*"]), nodes) == {nodes[0], nodes[-1]}
    assert left_out(graph, exclusions(lambda n: n.op == "nn.conv2d"), nodes) == set(nodes[:3])
    with pytest.raises(OptionError, match=r"exclude: 'nn.relu': matches nn.relu, and so no layer; expected the name"):
        left_out(graph, ["nn.relu"], nodes)


def test_weights_are_arrays() -> None:
    layer = layers_of(cnn().mod.main)[0]
    assert isinstance(layer.array, np.ndarray) and layer.array.shape == (8, 3, 3, 3)
