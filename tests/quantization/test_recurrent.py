"""Recurrent layers in ``IRModule.quantize``: codes for weights, states that are rounded, reports, exclusions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge import dims
from forge.ir import Builder, Module, TensorType
from forge.ir.nodes import Node
from forge.quantization.places import recurrent
from forge.quantization.places.recurrent import operand_of
from forge.quantization.reports.check import QuantizationWarning
from tests.saturation import skip_where_sums_saturate

STEPS, INPUTS, UNITS = 6, 12, 16
CELLS: dict[str, tuple[int, tuple[str, ...]]] = {
    "nn.lstm": (4, ("sigmoid", "tanh", "tanh")), "nn.gru": (3, ("sigmoid", "tanh")), "nn.rnn": (1, ("tanh",))}


def network(op: str, directions: int = 1, rows: int | str = 1, head: bool = True, spread: float = 0.0) -> forge.IRModule:
    """A recurrent layer and, on its last state, a dense layer."""
    rng = np.random.default_rng(0)
    gates, activations = CELLS[op]
    b = Builder()
    x = b.input(TensorType((STEPS, dims.symbol(rows) if isinstance(rows, str) else rows, INPUTS), "float32"), "x")
    w, r = ((rng.standard_normal((directions, gates * UNITS, depth)) * np.exp(spread * rng.standard_normal(depth))
             / np.sqrt(depth)).astype(np.float32) for depth in (INPUTS, UNITS))
    bias = (rng.standard_normal((directions, 2 * gates * UNITS)) / 4).astype(np.float32)
    numbers = (0.0,) * len(activations) * directions
    results = b.call_multi(op, x, b.constant(w), b.constant(r), b.constant(bias), activations=activations * directions,
                           activation_alpha=numbers, activation_beta=numbers,
                           direction="bidirectional" if directions == 2 else "forward", name="cell")
    if not head:
        return forge.IRModule(Module(b.output(results[0])))
    flat = b.call("reshape", b.call("transpose", results[1], axes=(1, 0, 2)), newshape=(-1, directions * UNITS))
    weight = b.constant((rng.standard_normal((10, directions * UNITS)) / np.sqrt(directions * UNITS)).astype(np.float32))
    return forge.IRModule(Module(b.output(b.call("nn.dense", flat, weight, name="head"))))


def samples(rows: int = 1, count: int = 6) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((STEPS, rows, INPUTS)).astype(np.float32) for _ in range(count)]


def cell(ir: forge.IRModule) -> Node:
    return next(node for node in ir.main.nodes if node.op in CELLS)


def quantized(*given: Any, rows: int = 1, **arguments: Any) -> tuple[forge.IRModule, forge.IRModule]:
    real = network(*given)
    made = real.copy()
    made.calibrate(samples(rows))
    made.quantize(**arguments)
    return real, made


def sqnr(real: forge.IRModule, made: forge.IRModule, data: list[np.ndarray]) -> float:
    whole, own = real.get_inference_function(), made.get_inference_function()
    expected = np.concatenate([whole(x) for x in data])
    lost = np.concatenate([own(x) for x in data]) - expected
    return float(10 * np.log10(np.square(expected).sum() / np.square(lost).sum()))


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("op", CELLS)
def test_weights_become_codes_and_outputs_are_near(op: str, directions: int) -> None:
    real, made = quantized(op, directions)
    assert operand_of(cell(made), "w").dtype == operand_of(cell(made), "r").dtype == "int8"
    assert operand_of(cell(made), "w_scale").shape == (directions, CELLS[op][0] * UNITS)
    assert cell(made).attributes.get("dynamic_quantization", False) == (op == "nn.lstm")
    assert made.is_quantized
    assert sqnr(real, made, samples()) > 28
    reference = made.get_inference_function("reference")
    for x in samples():
        np.testing.assert_allclose(made.get_inference_function()(x), reference(x), rtol=0, atol=0.05)


@pytest.mark.parametrize(("rows", "arguments", "rounds"), [
    (3, {}, False), ("batch", {}, False), (3, {"quant_type": "dynamic"}, True), (1, {"quant_type": "static"}, False)])
def test_states_are_rounded_where_rows_stay_independent(rows: int | str, arguments: dict[str, Any], rounds: bool) -> None:
    count = rows if isinstance(rows, int) else 2
    real, made = quantized("nn.lstm", 1, rows, rows=count, **arguments)
    assert cell(made).attributes["dynamic_quantization"] == rounds
    assert sqnr(real, made, samples(count)) > 28


def test_without_samples_weights_alone_are_quantized() -> None:
    made = network("nn.lstm", head=False)
    made.quantize()
    assert made.is_quantized and not cell(made).attributes["dynamic_quantization"]


def test_what_would_lose_too_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "MIN_ROUNDED_SQNR", 200.0)
    assert not cell(quantized("nn.lstm")[1]).attributes["dynamic_quantization"]
    monkeypatch.setattr(recurrent, "MIN_SQNR", 200.0)
    _, made = quantized("nn.lstm")
    assert operand_of(cell(made), "w").dtype == "float32"
    (reason,) = made.quantization_report(tries=False).left.values()
    assert "with weights of 8 bits its results are" in reason


def test_excluded_by_name_and_by_operator() -> None:
    for exclude in ("cell", "nn.lstm"):
        _, made = quantized("nn.lstm", exclude=exclude)
        assert operand_of(cell(made), "w").dtype == "float32" and made.is_quantized
        assert list(made.quantization_report(tries=False).left.values()) == ["excluded"]
    only = network("nn.gru", head=False)
    only.calibrate(samples())
    with pytest.warns(QuantizationWarning, match="no layer was quantized"):
        only.quantize(exclude="cell")


@pytest.mark.parametrize("op", CELLS)
def test_reports_have_a_row(op: str) -> None:
    real, made = quantized(op)
    report = made.quantization_report(tries=False)
    assert [row.operator for row in report.layers] == [op, "nn.dense"]
    row = report.layers[0]
    assert row.name == "cell" and row.weight is not None and row.weight.bytes > 3 * row.weight.code_bytes
    assert 30 < row.error.alone < 60 and row.error.weight is not None
    assert (row.error.data == 150.0) == (op != "nn.lstm")
    alone = real.copy()
    alone.calibrate(samples())
    alone.quantize(exclude="head")
    assert row.only is not None and abs(row.only - sqnr(real, alone, samples())) < 1.0
    assert row.without is not None and row.without > (report.outputs[0].sqnr or 0.0)


def test_accuracy_control_keeps_a_recurrent_layer() -> None:
    careful = network("nn.lstm")
    careful.calibrate(samples())
    whole = careful.get_inference_function()

    def near(run: Any) -> float:
        return -float(max(np.abs(run(x) - whole(x)).max() for x in samples()))

    found = careful.quantize_with_accuracy(near, max_drop=-near(network_with_real_head()) * 1.01 + 1e-6)
    assert found.kept and found.real - found.quantized <= -near(network_with_real_head()) * 1.01 + 1e-6


def network_with_real_head() -> Any:
    """The network with its dense layer quantized alone."""
    made = network("nn.lstm")
    made.calibrate(samples())
    made.quantize(per_channel=True, exclude="cell")
    return made.get_inference_function()


def test_layers_are_exported_as_they_are(tmp_path: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    skip_where_sums_saturate()
    for op in CELLS:
        _, made = quantized(op)
        path = tmp_path / f"{op}.onnx"
        made.to_onnx(path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (x, *_) = samples()
        (found,) = session.run(None, {"x": x})
        np.testing.assert_allclose(found, made.get_inference_function()(x), rtol=0, atol=0.05)
