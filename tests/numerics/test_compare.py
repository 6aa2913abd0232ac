"""Comparison layer by layer: how models are run, which values are matched, and what counts as a difference."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import forge
from forge.driver import check_options
from forge.errors import InputError, OptionError
from forge.numerics import compare
from tests.driver.support import DIGITS, pictures

MODEL = DIGITS / "digits.onnx"
LAYERS = "div getitem relu getitem_3 relu_1 getitem_6 add_45 relu_2 max_pool2d getitem_9 relu_3 mean".split()

FLOAT = """
def @main(%x: Tensor[(n, 8), float32]) {
  %0 = nn.relu(multiply(%x, 2f));
  %1 = nn.softmax(%0);
  add(%1, 1f)
}
"""
QUANTIZED = """
def @main(%x: Tensor[(n, 8), float32]) {
  %0 = nn.relu(multiply(%x, 2f));
  %1 = qnn.quantize(%0, 0.05f, 0i8);
  %2 = nn.softmax(qnn.dequantize(%1, 0.05f, 0i8));
  add(%2, 1f)
}
"""


def names(found: Any) -> list[str]:
    return [row.name for row in found.layers]


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The digits in both formats of onnxruntime's quantizer."""
    quantization = pytest.importorskip("onnxruntime.quantization")

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.batches = iter([{"image": pictures(16)}])

        def get_next(self) -> Any:
            return next(self.batches, None)

    folder, found = tmp_path_factory.mktemp("quantized"), {}
    for form in quantization.QuantFormat:
        found[form.name] = folder / f"{form.name}.onnx"
        quantization.quantize_static(MODEL, found[form.name], Reader(), quant_format=form)
    return found


def test_levels_of_one_module(digits: forge.IRModule) -> None:
    levels = [check_options(opt_level=level) for level in (0, 3)]
    found = compare(digits, digits, pictures(4), options_a=levels[0], options_b=levels[1])
    assert names(found) == LAYERS
    assert found.agrees
    assert found.threshold == 60
    assert found.samples == 1
    (logits,) = found.outputs
    assert (logits.name, logits.shape) == ("logits", (4, 10))
    assert logits.difference.agreeing == logits.difference.rows == 4
    assert all(row.sqnr > 100 and row.difference.relative < 1e-5 for row in (*found.layers, logits))


def test_a_module_alone_is_compared_with_the_interpreter(digits: forge.IRModule) -> None:
    found = compare(digits, data=pictures(2))
    assert ("interpreter" in found.first, "compiled at level 3" in found.second) == (True, True)
    assert found.agrees


def test_a_file_alone_is_compared_with_its_framework() -> None:
    pytest.importorskip("onnxruntime")
    found = compare(MODEL, data=pictures(2))
    assert found.first == "digits.onnx, onnxruntime"
    assert names(found) == LAYERS
    assert found.agrees


def test_samples_are_summed_and_the_data_may_be_random(digits: forge.IRModule) -> None:
    found = compare(digits, data=[pictures(2), pictures(3)])
    assert found.samples == 2
    assert found.outputs[0].difference.elements == 50
    assert compare(digits, sizes={"batch": 3}).outputs[0].shape == (3, 10)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_quantized_layers_are_matched_with_what_they_stand_for(form: str, quantized: dict[str, Path]) -> None:
    """Activations are merged into layers, whose clipped results must not be compared with those before the activation."""
    found = compare(MODEL, quantized[form], pictures(16))
    assert set(names(found)) >= {"div", "relu", "relu_1", "getitem_6", "relu_2", "relu_3", "mean"}
    assert not {"getitem", "getitem_3", "add_45", "getitem_9"} & set(names(found))
    assert found.threshold == 20
    assert found.agrees
    assert all(20 < row.sqnr < 80 for row in found.layers)


def test_a_quantized_model_against_its_framework(quantized: dict[str, Path]) -> None:
    found = compare(quantized["QDQ"], data=pictures(4))
    assert found.agrees
    assert len(found.layers) >= 7


def test_structure_where_names_say_nothing() -> None:
    found = compare(forge.IRModule(FLOAT), forge.IRModule(QUANTIZED), np.linspace(-3, 3, 24, dtype="f").reshape(3, 8))
    assert names(found) == ["multiply_0", "nn.relu_0", "nn.softmax_0"]
    assert found.threshold == 20
    multiply, relu, softmax = found.layers
    assert multiply.sqnr == relu.sqnr == math.inf
    assert 20 < softmax.sqnr < 60


def test_the_first_divergence_is_marked() -> None:
    wrong = QUANTIZED.replace("0.05f", "1.5f")
    found = compare(forge.IRModule(FLOAT), forge.IRModule(wrong), np.linspace(-3, 3, 24, dtype="f").reshape(3, 8), threshold=30)
    assert found.divergence is not None
    assert found.divergence.name == "nn.softmax_0"
    assert not found.agrees
    told = found.as_dict()
    assert (told["agrees"], told["divergence"], told["threshold_db"]) == (False, "nn.softmax_0", 30)
    assert [row["equal"] for row in told["layers"]] == [True, True, False]


def test_states_are_plain_inputs_and_outputs() -> None:
    ir = forge.IRModule("def @main(%x: Tensor[(2), float32], %total: Tensor[(2), float32]) { add(%total, exp(%x)) }")
    ir.main.states["total"] = forge.ir.functions.states.State(0)
    x = np.ones(2, np.float32)
    found = compare(ir, data={"x": x, "total": x})
    assert found.agrees
    assert ir.main.states


def model_with(weight: np.ndarray, name: str = "x") -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", [name, "w"], ["hidden"]), helper.make_node("Relu", ["hidden"], ["y"])]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in (name, "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_inputs_of_other_names_go_by_their_place() -> None:
    weight = np.random.default_rng(0).standard_normal((4, 4)).astype("f")
    a, b = forge.from_onnx(model_with(weight)), forge.from_onnx(model_with(weight * np.float32(1.2), "data"))
    found = compare(a, b, np.ones((3, 4), "f"))
    assert names(found) == ["hidden"]
    assert found.layers[0].sqnr == pytest.approx(20 * math.log10(1 / 0.2), abs=0.1)
    assert not found.agrees


def test_external_data_is_found(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = model_with(np.eye(4, dtype="f"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    assert compare(tmp_path / "m.onnx", data=np.ones((3, 4), "f")).agrees


def test_torch_against_compiled_code(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 5)]
    network = torch.nn.Sequential(*layers)
    program = torch.export.export(network.eval(), (torch.randn(2, 3, 6, 6),))
    torch.export.save(program, tmp_path / "m.pt2")
    for model in (program, tmp_path / "m.pt2"):
        found = compare(model, model, run_a="torch")
        assert found.agrees
        assert names(found) == ["batch_norm", "relu"]
        assert found.outputs[0].sqnr > 100


@pytest.mark.parametrize(("arguments", "message"), [
    ({"run_a": "tensorrt"}, "no way to run it is called 'tensorrt'; expected one of: compiled, interpreter, onnxruntime, torch"),
    ({"run_a": "onnxruntime"}, "onnxruntime reads ONNX files; got a module; expected an .onnx file"),
    ({"run_b": "torch"}, "torch reads exported programs; got a module"),
    ({"b": forge.IRModule("def @main(%x: Tensor[(2), float32], %y: Tensor[(2), float32]) { add(%x, %y) }")}, "got 2 inputs"),
    ({"b": forge.IRModule("def @main(%x: Tensor[(n, 9), float32]) { exp(%x) }")}, "input 'x': got Tensor"),
])
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        compare(forge.IRModule(FLOAT), **arguments)


def test_a_missing_framework_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(OptionError, match="package onnxruntime is not installed; pip install onnxruntime, or choose another way"):
        compare(MODEL)


def test_a_framework_that_refuses_the_model_is_named(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    values = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Sin", ["x"], ["y"])], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), tmp_path / "m.onnx")
    with pytest.raises(OptionError, match="onnxruntime cannot load the model"):
        compare(tmp_path / "m.onnx")


def test_wrong_data_are_named() -> None:
    with pytest.raises(InputError, match="compare: data: input 'x': sample 0: got shape"):
        compare(forge.IRModule(FLOAT), data=np.ones((3, 9), "f"))
