"""Nodes that may be quantized layers, and graphs of several."""

from __future__ import annotations

import numpy as np

from forge.ir.interp import run_graph
from forge.quantization.places.products import given_to, is_recurrent, joined_graph, node_again, products
from tests.quantization.models import Net, cnn, data, transformer


def test_products_in_order() -> None:
    assert [n.op for n in products(cnn().mod.main)] == ["nn.conv2d"] * 3 + ["nn.dense"]
    assert [n.op for n in products(transformer().mod.main)].count("nn.matmul") == 2


def test_recurrent_layers_have_constant_weights() -> None:
    net = Net(3, 6)
    weights = [net.builder.constant(np.ones((1, 32, n), np.float32)) for n in (6, 8)]
    attributes = {"activations": ("sigmoid", "tanh", "tanh"), "activation_alpha": (0.0,) * 3, "activation_beta": (0.0,) * 3}
    node = net.builder.call_multi("nn.lstm", net.x, *weights, **attributes)[0].producer
    other = net.builder.call_multi("nn.lstm", net.x, net.call("negative", weights[0]), weights[1], **attributes)[0].producer
    assert node is not None and other is not None
    assert is_recurrent(node) and not is_recurrent(other) and products(net.builder.graph) == [node, other]
    assert list(given_to(node)) == ["x"] and list(given_to(other)) == ["x", "w"]
    again = node_again(net.builder, node, {"x": net.x}, layout=1)
    assert again.attributes["layout"] == 1 and again.operands[1] is not node.operands[1]
    np.testing.assert_array_equal(again.operands[1].constant, node.operands[1].constant)  # type: ignore[union-attr]


def test_a_joined_graph_computes_both() -> None:
    graphs = [cnn(seed).mod.main for seed in (0, 1)]
    joined, known = joined_graph(*graphs)
    joined.outputs = [known[g.outputs[0]] for g in graphs]
    assert [v.name for v in joined.inputs] == ["x"]
    x = data("cnn")[0]
    for found, graph in zip(run_graph(joined, [x]), graphs):
        np.testing.assert_array_equal(found, run_graph(graph, [x])[0])
