"""Scales that are unusual.

Where they make sums halves of steps, kernels of FULLY_CONNECTED multiply by a float64, and round half away from 0. Where they are
0, integers are moved, but stand for no numbers.
"""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.errors import ForgeError
from tests.frontends.tflite.record import REFERENCE, run
from tests.frontends.tflite.writer import Graph, model

ROWS, IN, OUT = 48, 24, 64


@pytest.mark.parametrize("is_per_channel", [False, True])
@pytest.mark.parametrize("scales", [(0.5, 0.25, 1.0), (0.1, 0.02, 0.1), (0.25, 0.03, 0.5), (0.037, 0.0121, 0.051)])
def test_halves(scales: tuple[float, float, float], is_per_channel: bool) -> None:
    random, graph, (of_data, of_weight, of_result) = np.random.default_rng(0), Graph(), map(np.float32, scales)
    x = graph.input((ROWS, IN), "int8", scale=of_data)
    weight = random.integers(-20, 21, (OUT, IN)).astype(np.int8)
    bias = random.integers(-100, 100, OUT).astype(np.int32)
    operands = [
        x, graph.constant(weight, scale=[of_weight] * OUT if is_per_channel else of_weight),
        graph.constant(bias, scale=of_data * of_weight)]
    graph.outputs = [graph.tensor((ROWS, OUT), "int8", scale=of_result)]
    graph.op("FULLY_CONNECTED", operands, graph.outputs)
    given = random.integers(-30, 31, (ROWS, IN)).astype(np.int8)
    sums = given.astype(np.int64) @ weight.T.astype(np.int64) + bias
    steps = sums * (np.float64(of_data) * np.float64(of_weight) / np.float64(of_result))
    expected = np.clip(np.sign(steps) * np.floor(np.abs(steps) + 0.5), -128, 127).astype(np.int8)
    loaded = forge.from_tflite(model(graph))
    for how in ((), ("reference",)):
        np.testing.assert_array_equal(loaded.get_inference_function(*how)(given), expected)
    pytest.importorskip("ai_edge_litert")
    np.testing.assert_array_equal(run(model(graph), [given], REFERENCE)[0], expected)


@pytest.mark.parametrize(("name", "options"), [("RESHAPE", {"new_shape": [2, 3]}), ("CONCATENATION", {"axis": 0}), ("RELU", {})])
def test_scales_of_0(name: str, options: dict[str, object]) -> None:
    graph = Graph()
    x = graph.input((1, 6), "int8", scale=0.0)
    sizes = [graph.constant(np.array([2, 3], np.int32))] if name == "RESHAPE" else [x] if name == "CONCATENATION" else []
    shape = {"RESHAPE": (2, 3), "CONCATENATION": (2, 6)}.get(name, (1, 6))
    graph.outputs = [graph.tensor(shape, "int8", scale=0.0)]
    graph.op(name, [x, *sizes], graph.outputs, **options)
    given = np.arange(6, dtype=np.int8)[None]
    if name == "RELU":
        with pytest.raises(ForgeError, match="expected positive numbers"):
            forge.from_tflite(model(graph))
        return
    found = np.asarray(forge.from_tflite(model(graph)).get_inference_function()(given))
    pytest.importorskip("ai_edge_litert")
    np.testing.assert_array_equal(found, run(model(graph), [given], REFERENCE)[0])
