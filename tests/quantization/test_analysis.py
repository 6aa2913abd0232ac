"""Errors of layers and outputs next to the same computed by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.ir import Builder, TensorType
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.places.pairing import pairs_of
from forge.quantization.quantize import QuantizedModule, quantize
from forge.quantization.reports.analysis import MAX_DB, OutputSums, analyse, decibels
from tests.quantization.nets import NEAR, OPTIONS, SCHEMES, record, samples, small_net


def interpreted(graph: Graph, values: list[Value]) -> list[list[np.ndarray]]:
    kept, graph.outputs = graph.outputs, values
    found = [[np.asarray(a, np.float64) for a in run_graph(graph, [sample])] for sample in samples()]
    graph.outputs = kept
    return found


def expected_decibels(made: QuantizedModule) -> list[float]:
    """Cumulative errors, by the interpreter."""
    results = [pair.results for pair in pairs_of(made.real, made.module)]
    real = interpreted(made.real.main, [a for a, _ in results])
    quantized = interpreted(made.module.main, [b for _, b in results])
    sums = np.array([[(np.sum(a**2), np.sum((a - b) ** 2)) for a, b in zip(*pair)] for pair in zip(real, quantized)])
    return [decibels(*pair) for pair in sums.sum(axis=0)]


@pytest.mark.parametrize("name", SCHEMES)
def test_errors_in_the_model_are_those_of_the_interpreter(name: str) -> None:
    made = record(**SCHEMES[name])
    found = analyse(made.real, made.module, made.real.calibration.samples, OPTIONS)
    assert [layer.label for layer in found.layers] == ["conv0 (nn.conv2d)", "conv1 (nn.conv2d)", "fc (nn.dense)"]
    np.testing.assert_allclose([layer.cumulative for layer in found.layers], expected_decibels(made), atol=NEAR)
    assert found.samples == len(samples())


def test_errors_alone_are_those_of_the_weight_and_the_data() -> None:
    made = record()
    for layer in analyse(made.real, made.module, made.real.calibration.samples, OPTIONS).layers:
        assert layer.weight is not None
        shares = [10 ** (-db / 10) for db in (layer.weight, layer.data, layer.alone)]
        assert shares[2] == pytest.approx(shares[0] + shares[1], rel=0.5)


def test_the_first_layer_in_the_model_is_as_alone() -> None:
    made = record(bias_correction=False)
    first = analyse(made.real, made.module, made.real.calibration.samples, OPTIONS).layers[0]
    assert first.cumulative == pytest.approx(first.alone, abs=NEAR)


def test_scales_of_channels_are_nearer_by_what_the_weight_says() -> None:
    plain, channels = record(equalize=False), record(per_channel=True, equalize=False)
    before, after = (analyse(m.real, m.module, m.real.calibration.samples, OPTIONS).layers[1] for m in (plain, channels))
    assert after.weight is not None
    assert before.weight is not None
    assert after.weight > before.weight + 3
    assert after.data == pytest.approx(before.data, abs=1)


def test_outputs_only_are_the_same_outputs() -> None:
    made = record()
    whole = analyse(made.real, made.module, made.real.calibration.samples, OPTIONS)
    ticks: list[tuple[int, int]] = []
    given = made.real.calibration.samples
    outputs = analyse(made.real, made.module, given, OPTIONS, layers=False, tick=lambda *t: ticks.append(t))
    assert outputs.layers == ()
    assert [o.name for o in outputs.outputs] == ["out"]
    assert outputs.sqnr == pytest.approx(whole.sqnr, abs=NEAR)
    assert outputs.agreement == whole.agreement == 1.0
    assert ticks == [(k, 4) for k in range(1, 5)]


def test_a_model_is_equal_to_itself() -> None:
    ir = small_net()
    ir.calibrate(samples())
    found = analyse(ir.mod, ir.mod, ir.mod.calibration.samples, OPTIONS)
    assert (found.layers, found.sqnr, found.agreement) == ((), MAX_DB, 1.0)


def test_products_of_two_activations() -> None:
    b = Builder()
    x, y = (b.input(TensorType((2, 8, 8), "float32"), n) for n in "xy")
    module = Module(b.output(b.call("nn.batch_matmul", b.call("tanh", x), b.call("tanh", y), name="product")))
    ir = forge.IRModule(module)
    ir.calibrate([{n: s.reshape(-1)[:128].reshape(2, 8, 8) for n in "xy"} for s in samples()])
    made = quantize(ir.mod, QuantizationScheme(), OPTIONS)
    (layer,) = analyse(ir.mod, made.module, ir.mod.calibration.samples, OPTIONS).layers
    assert layer.weight is None
    assert layer.alone == layer.data
    assert layer.cumulative == pytest.approx(layer.alone, abs=NEAR)


def test_agreement_counts_rows_and_equal_integers() -> None:
    sums = OutputSums(["logits", "image", "label", "one", "text"])
    logits, image = np.array([[1.0, 2, 0], [3, 1, 2]], np.float32), np.zeros((1, 2, 2, 2), np.float32)
    other = image.copy()
    other[0, 1, 0, 0] = 1
    one = np.ones((2, 1), np.float32)
    sums.add([logits, image, np.array([1, 2, 3, 4]), one, np.array(["a"])],
             [logits[:, ::-1].copy(), other, np.array([1, 2, 3, 5]), one, np.array(["b"])])
    assert [o.agreement for o in sums.analysis().outputs] == [0.5, 0.75, 0.75, None, None]
    assert [o.sqnr is None for o in sums.analysis().outputs] == [False, False, True, False, True]


@pytest.mark.parametrize(("signal", "error", "expected"), [
    (1.0, 0.1, 10.0), (1.0, 0.0, MAX_DB), (0.0, 0.0, MAX_DB), (0.0, 1.0, -MAX_DB), (1.0, float("nan"), -MAX_DB),
    (1.0, float("inf"), -MAX_DB), (float("inf"), 1.0, MAX_DB),
])
def test_decibels(signal: float, error: float, expected: float) -> None:
    assert decibels(signal, error) == pytest.approx(expected)
