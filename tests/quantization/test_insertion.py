"""Conversions around layers, and codes for biases."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.interp import run_graph
from forge.quantization.observed.ranges import AffineCodes
from forge.quantization.places.insertion import MAX_BIAS, convert, put_after, round_at_run_time, whole_bias
from forge.quantization.places.layers import layers_of, sites_of
from forge.quantization.weights.codes import quantized_weight
from tests.quantization.models import Net


def test_biases_are_whole_steps_of_the_sums() -> None:
    made = whole_bias(np.array([0.26, -1.0], np.float32), np.array([0.1, 0.25]))
    assert made is not None
    assert made.codes.tolist() == [3, -4] and made.codes.dtype == np.int32
    np.testing.assert_allclose(made.real, [0.3, -1.0], rtol=1e-6)
    assert whole_bias(np.array([2.0 * MAX_BIAS], np.float32), np.array([1.0])) is None


@pytest.mark.parametrize("bias_dtype", ["int32", "int8", "uint8"])
def test_a_layer_of_codes_computes_what_they_stand_for(bias_dtype: str) -> None:
    net = Net(6)
    net.module(net.dense(net.x, 4))
    graph = net.builder.graph
    (layer,) = layers_of(graph)
    bias = next(v.constant for n in graph.nodes if n.op == "add" for v in n.operands if v is not None and v.constant is not None)
    codes, weight = AffineCodes("int8", 0.02, 3), quantized_weight(layer.array, 0, "int8", per_channel=True)
    convert(graph, sites_of([layer]), {net.x: codes}, {layer: weight}, bias_dtype)
    (x,) = net.samples(1)
    step = 0.02 * weight.scale if bias_dtype == "int32" else quantized_weight(bias, 0, bias_dtype, per_channel=False).scale
    expected = codes.rounded(x) @ weight.real.T
    found = run_graph(graph, [x])[0] - expected
    assert (np.abs(found - bias) < 0.51 * step + 1e-5).all() and np.ptp(found, axis=0).max() < 1e-5
    assert [n.op for n in graph.nodes if n.op.startswith("qnn.")].count("qnn.dequantize") == 3


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_rows_are_rounded_by_their_ranges(dtype: str) -> None:
    net = Net(5, 6)
    net.module(net.call("nn.dense", net.x, net.weight(4, 6)))
    graph = net.builder.graph
    (layer,) = layers_of(graph)
    weight = layer.array
    round_at_run_time(graph, layer, dtype)
    (x,) = net.samples(1)
    low, high = np.minimum(x.min(-1, keepdims=True), 0), np.maximum(x.max(-1, keepdims=True), 0)
    if dtype == "int8":
        scale = np.maximum(-low, high) / 127
        rounded = np.clip(np.rint(x / scale), -128, 127) * scale
    else:
        scale = (high - low) / 255
        zero = np.rint(-low / scale)
        rounded = (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale
    (found,) = run_graph(graph, [x])
    np.testing.assert_allclose(found, rounded @ weight.T, atol=0.02)
    assert np.abs(found - x @ weight.T).max() > 1e-4


def test_what_is_put_after_a_value_has_its_readers_and_name() -> None:
    net = Net(3)
    value = net.call("negative", net.x)
    value.name = "y"
    net.module(value, net.call("exp", value))
    made = put_after(net.builder.graph, value, lambda builder, x: builder.call("abs", x))
    net.builder.graph.sort()
    assert made.name == "y" and not value.name and net.builder.graph.outputs[0] is made
    x = np.array([[-1, 2, 3]], np.float32)
    first, second = run_graph(net.builder.graph, [x])
    np.testing.assert_array_equal(first, np.abs(x))
    np.testing.assert_allclose(second, np.exp(np.abs(x)), rtol=1e-6)
