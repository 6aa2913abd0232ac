"""Biases that give results the means of the float model."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.interp import run_graph
from forge.quantization.places.layers import layers_of
from forge.quantization.places.products import products
from forge.quantization.weights.correction import add_to_bias, corrections
from tests.quantization.models import Net
from tests.quantization.nets import OPTIONS, record, samples


@pytest.mark.parametrize("quant_type", ["static", "dynamic"])
def test_differences_of_means_are_those_of_the_interpreter(quant_type: str) -> None:
    made = record(bias_correction=False, quant_type=quant_type)
    real, quantized = made.real.main, made.module.main
    found = corrections(made.real, made.module, [0], made.real.calibration.samples, OPTIONS)
    means = []
    for graph in (real, quantized):
        kept, graph.outputs = graph.outputs, [products(graph)[0].result]
        means.append(np.mean([run_graph(graph, [x])[0].mean(axis=(0, 2, 3)) for x in samples()], axis=0))
        graph.outputs = kept
    assert list(found) == [0]
    np.testing.assert_allclose(found[0], means[0] - means[1], atol=1e-3)
    assert np.abs(found[0]).max() > 1e-3


@pytest.mark.parametrize("kind", ["dense", "conv2d"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_number_is_added_to_each_channel(kind: str, has_bias: bool) -> None:
    net = Net(4) if kind == "dense" else Net(4, 5, 5)
    if has_bias:
        made = net.dense(net.x, 3) if kind == "dense" else net.conv(net.x, 3)
    else:
        made = net.call(f"nn.{kind}", net.x, net.weight(3, 4) if kind == "dense" else net.weight(3, 4, 1, 1))
    net.module(net.call("abs", made))
    graph, (x,) = net.builder.graph, net.samples(1)
    (layer,) = layers_of(graph)
    delta = np.array([1, -2, 0.5], np.float32)
    kept, graph.outputs = graph.outputs, [made]
    expected = run_graph(graph, [x])[0] + delta.reshape(-1, *[1] * (len(x.shape) - 2))
    graph.outputs = kept
    value = add_to_bias(layer, delta)
    assert (value is layer.result) == has_bias
    graph.sort()
    np.testing.assert_allclose(run_graph(graph, [x])[0], np.abs(expected), rtol=1e-5, atol=1e-5)
