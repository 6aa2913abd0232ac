"""``IRModule.quantize``: what is rounded where, what stays real, and how near the outputs are."""

from __future__ import annotations

import platform
import warnings
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import forge
from forge.driver import CompiledModel, compile_module
from forge.errors import OptionError, TargetError
from forge.ir.graph import Module
from forge.options import CompileOptions
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.observed import trial
from forge.quantization.observed.ranges import METHODS
from forge.quantization.quantize import quantize, statistics_of
from forge.quantization.reports.check import QuantizationWarning
from forge.quantization.weights.equalization import equalize
from tests.quantization.nets import samples, small_net

RNG = np.random.default_rng(0)
SAMPLES = [RNG.standard_normal((1, 4, 8, 8)).astype(np.float32) for _ in range(8)]
OUTLIER = 64.0
"""A power of two, so that a network with such channels computes the same numbers."""

NETWORK = """
def @main(%x: Tensor[(1, 4, 8, 8), float32], %a: Tensor[(8, 4, 3, 3), float32], %b: Tensor[(8), float32],
          %c: Tensor[(8, 1, 3, 3), float32], %d: Tensor[(6, 8, 1, 1), float32], %e: Tensor[(5, 12), float32]) {
  %0 = nn.relu(nn.bias_add(nn.conv2d(%x, %a, padding=[1, 1]), %b));
  %1 = nn.relu(nn.conv2d(%0, %c, padding=[1, 1], groups=8));
  %2 = nn.conv2d(%1, %d);
  %3 = nn.max_pool2d(nn.relu(%2), pool_size=[2, 2], strides=[2, 2]);
  %4 = nn.max_pool2d(%2, pool_size=[2, 2], strides=[2, 2]);
  %5 = mean(concatenate(%3, %4, axis=1), axis=[2, 3]);
  nn.dense(%5, %e)
}
"""


def weights(outliers: float = 1.0) -> dict[str, np.ndarray]:
    """Of the network; two channels of its first value may be larger than the others."""
    rng = np.random.default_rng(1)
    shapes = {"a": (8, 4, 3, 3), "b": (8,), "c": (8, 1, 3, 3), "d": (6, 8, 1, 1), "e": (5, 12)}
    made = {k: (rng.standard_normal(s) / np.sqrt(np.prod(s[1:]))).astype(np.float32) for k, s in shapes.items()}
    factors = np.where(np.arange(8) < 2, outliers, 1).astype(np.float32)
    made["a"] *= factors.reshape(-1, 1, 1, 1)
    made["b"] *= factors
    made["c"] /= factors.reshape(-1, 1, 1, 1)
    return made


def network(outliers: float = 1.0) -> forge.IRModule:
    ir = forge.IRModule(NETWORK, weights(outliers))
    ir.calibrate(SAMPLES)
    return ir


def outputs(ir: forge.IRModule) -> np.ndarray:
    run = ir.get_inference_function()
    return np.concatenate([run(sample) for sample in SAMPLES])


def sqnr(real: np.ndarray, other: np.ndarray) -> float:
    return float(10 * np.log10(np.sum(real**2) / np.sum((real - other) ** 2)))


def quantized(ir: forge.IRModule, **options: Any) -> forge.IRModule:
    copied = ir.copy()
    copied.quantize(**options)
    return copied


@pytest.fixture(scope="module")
def real() -> forge.IRModule:
    """Calibrated; do not change it."""
    return network()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("options", "least"), [
    ({}, 30), ({"per_channel": True}, 32), ({"activation_dtype": "uint8"}, 32),
    ({"activation_dtype": "uint8", "kernel_dtype": "int8"}, 30),
    ({"calib_method": "mse"}, 30), ({"calib_method": "entropy"}, 25), ({"symmetric": True}, 25), ({"quant_type": "dynamic"}, 30),
    ({"bias_dtype": "int8"}, 20),
], ids=str)
def test_outputs_are_near(real: forge.IRModule, options: dict[str, Any], least: float) -> None:
    made = quantized(real, **options)
    assert made.is_quantized
    assert sqnr(outputs(real), outputs(made)) > least


def test_compiled_integers_are_those_of_the_graph(real: forge.IRModule) -> None:
    made = quantized(real)
    reference, run = made.get_inference_function("reference"), made.get_inference_function()
    for sample in SAMPLES[:3]:
        np.testing.assert_allclose(run(sample), reference(sample), atol=0.02 * np.abs(reference(sample)).max())


def test_values_are_rounded_where_they_are_made(real: forge.IRModule) -> None:
    """Before pools, and parts of a concatenation alike."""
    made = quantized(real)
    rounded = made.main.select("qnn.quantize")
    sources = [node.operands[0] for node in rounded]
    assert not any(v is not None and v.op in ("nn.max_pool2d", "concatenate") for v in sources)
    (joined,) = made.main.select("concatenate")
    scales = [pool.operands[0].producer.operands[1].constant for pool in joined.pred]
    assert scales[0] == scales[1]


def test_depthwise_weights_have_scales_for_each_channel(real: forge.IRModule) -> None:
    made = quantized(real)
    sizes = {node.attributes["groups"]: node.operands[1].producer.operands[1].size for node in made.main.select("nn.conv2d")}
    assert sizes == {1: 1, 8: 8}


def test_outlier_channels_are_equalized() -> None:
    outlying = network(OUTLIER)
    np.testing.assert_allclose(outputs(outlying), outputs(network()), rtol=1e-5, atol=1e-6)
    without, with_ = (sqnr(outputs(outlying), outputs(quantized(outlying, equalize=e, check=False))) for e in (False, True))
    assert with_ > 40 > without + 10


def test_equalization_changes_no_result() -> None:
    module = quantize(network(OUTLIER)._verified(), QuantizationScheme(bias_correction=False), CompileOptions()).real
    equalized = forge.IRModule(module, fold_constants=False, fold_batch_norms=False)
    np.testing.assert_array_equal(outputs(equalized), outputs(network(OUTLIER)))
    assert equalize(module.main, dict(statistics_of(module)), per_channel=False) == 0


def test_bias_correction_keeps_means() -> None:
    """Of the outputs, on the samples that were corrected on."""
    real = network()
    means = [np.abs((outputs(quantized(real, calib_method="percentile", bias_correction=c)) - outputs(real)).mean(axis=0)).max()
             for c in (False, True)]
    assert means[1] < 0.6 * means[0]


def test_exclusions_stay_real(real: forge.IRModule) -> None:
    made = quantized(real, exclude=[real.main.find("nn.dense"), lambda node: node.attributes.get("groups") == 8])
    kinds = {(n.op, n.attributes.get("groups")): n.operands[1].op for n in made.main.select("nn.*") if len(n.operands) == 2}
    assert kinds["nn.dense", None] == kinds["nn.conv2d", 8] == "constant"
    assert kinds["nn.conv2d", 1] == "qnn.dequantize"


def onnx_network(symbolic: bool = False) -> forge.IRModule:
    """Two convolutions and a Gemm with biases, as exporters name them; calibrated."""
    rng, (height, width) = np.random.default_rng(2), ("height", "width") if symbolic else (8, 8)
    arrays = {"w0": (8, 4, 3, 3), "b0": (8,), "w1": (8, 8, 3, 3), "b1": (8,), "w2": (5, 8), "b2": (5,)}
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], "/conv1/Conv"), helper.make_node("Relu", ["c0"], ["r0"], "/Relu"),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], "/conv2/Conv"),
        helper.make_node("ReduceMean", ["c1"], ["m"], "/mean", axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["m", "w2", "b2"], ["y"], "/fc/Gemm", transB=1)]
    weights = [numpy_helper.from_array((rng.standard_normal(s) / 4).astype(np.float32), n) for n, s in arrays.items()]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 4, height, width)), ("y", (1, 5)))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    ir = forge.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    ir.calibrate(SAMPLES)
    return ir


@pytest.mark.parametrize(("exclude", "kept"), [
    ("/conv1/Conv", {"/conv1/Conv"}), ("/fc/Gemm", {"/fc/Gemm"}), ("c1", {"/conv2/Conv"}),
    ("*Conv", {"/conv1/Conv", "/conv2/Conv"}),
    (["nn.dense", "conv1"], {"/fc/Gemm", "/conv1/Conv"}), (lambda node: node.name == "/fc/Gemm", {"/fc/Gemm"}),
], ids=["node", "gemm", "result", "pattern", "several", "predicate"])
def test_layers_are_excluded_by_the_names_of_the_file(exclude: Any, kept: set[str]) -> None:
    made = quantized(onnx_network(), exclude=exclude, check=False)
    products = {n.name: n.operands[1].op for n in made.main.nodes if n.op in ("nn.conv2d", "nn.dense")}
    assert set(products) == {"/conv1/Conv", "/conv2/Conv", "/fc/Gemm"}
    assert {name for name, weight in products.items() if weight == "constant"} == kept
    assert {label.partition(" ")[0] for label in made.quantization_report(tries=False).left} == kept


@pytest.mark.parametrize(("exclude", "message"), [
    ("/Relu", "matches nn.relu, and so no layer; expected the name of a layer"), ("/fc/Gem", "matches no node.*: /fc/Gemm"),
    (lambda node: False, "matches no node, and so no layer"),
], ids=["no layer", "misspelt", "predicate"])
def test_exclusions_that_keep_no_layer_are_refused(exclude: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        onnx_network().quantize(exclude=exclude)


def test_nothing_to_quantize_is_said() -> None:
    ir = onnx_network()
    with pytest.warns(QuantizationWarning, match=r"no layer was quantized, the model is as it was: /conv1/Conv .*: excluded; "):
        ir.quantize(exclude="nn.*", check=False)
    assert not ir.is_quantized
    assert ir.quantization_report(tries=False).warnings[0].startswith("no layer was quantized")
    elementwise = forge.IRModule("def @main(%x: Tensor[(2), float32]) { exp(%x) }")
    with pytest.warns(QuantizationWarning, match="the model has no convolution, matrix product or recurrent layer"):
        elementwise.quantize()


def test_symbolic_sizes_are_quantized() -> None:
    fixed, symbolic = (quantized(onnx_network(s)) for s in (False, True))
    assert symbolic.is_quantized
    assert len(symbolic.main.select("qnn.quantize")) == len(fixed.main.select("qnn.quantize"))
    np.testing.assert_allclose(outputs(symbolic), outputs(fixed), atol=1e-5)


def test_methods_make_models_of_their_own() -> None:
    """Also of values whose channels are equalized."""
    for real in (network(), network(OUTLIER)):
        made = [quantized(real, calib_method=method, calib_guard=False, check=False) for method in METHODS]
        assert len({ir.fingerprint for ir in made}) == len(METHODS)
        reports = [ir.quantization_report(tries=False).values for ir in made]
        (values,), cuts = set(map(len, reports)), [sum(v.choice.startswith("cut to [") for v in report) for report in reports]
        assert cuts[METHODS.index("minmax")] == 0
        assert cuts[METHODS.index("average")] == values
        assert cuts[METHODS.index("percentile")] >= values - 1, "all but a mean of few numbers"


@pytest.mark.parametrize(("options", "message"), [
    ({"activation_dtype": "int4"}, "activation_dtype: got 'int4'; expected one of 'int8', 'uint8'"),
    ({"kernel_dtype": "float"}, "kernel_dtype: got 'float'"), ({"bias_dtype": 8}, "bias_dtype: got 8"),
    ({"calib_method": "max"}, "calib_method: got 'max'"), ({"quant_type": None}, "quant_type: got None"),
    ({"per_channel": 1}, "per_channel: got 1"), ({"calib_guard": None}, "calib_guard: got None"),
    ({"exclude": "no.such"}, "exclude: 'no.such': matches no node"),
    ({"exclude": 3}, "exclude: got 3"),
])
def test_bad_arguments(real: forge.IRModule, options: dict[str, Any], message: str) -> None:
    before = real.fingerprint
    with pytest.raises(OptionError, match=message.replace(".", r"\.")):
        real.quantize(**options)
    assert real.fingerprint == before
    assert not real.is_quantized


def test_static_without_statistics_names_the_layers() -> None:
    ir = forge.IRModule(NETWORK, weights())
    with pytest.raises(OptionError, match=r"layers without statistics: .*nn\.conv2d.*nn\.dense"):
        ir.quantize(quant_type="static")
    ir.quantize()
    assert {n.op for n in ir.main.nodes} >= {"min", "max"}, "ranges of each call"


def test_quantized_models_are_refused(real: forge.IRModule) -> None:
    made = quantized(real)
    with pytest.raises(OptionError, match="quantized already"):
        made.quantize()
    made.reload()
    assert not made.is_quantized


def test_a_loss_is_said() -> None:
    """Of a network whose data have outliers, when nothing is done about them."""
    with pytest.warns(QuantizationWarning, match=r"dB from those in float.*lose most: .*quantize_with_accuracy"):
        quantized(network(OUTLIER**2), equalize=False, bias_correction=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quantized(network(OUTLIER**2))


def test_accuracy_keeps_the_layers_that_cost_most() -> None:
    real = network()
    expected = outputs(real)
    made = real.copy()
    found = made.quantize_with_accuracy(lambda run: min(100, sqnr(expected, np.concatenate([run(x) for x in SAMPLES]))), 46.5)
    assert 0 < len(found.kept) < 4 and found.quantized >= 53.5 > found.trials[0].metric
    made = real.copy()
    found = made.quantize_with_accuracy(lambda run: 1.0)
    assert not found.kept and len(found.trials) == 1
    with pytest.raises(OptionError, match="gave 'x'; expected a number"):
        real.copy().quantize_with_accuracy(lambda run: "x")  # type: ignore[arg-type,return-value]
    with pytest.raises(OptionError, match="no samples"):
        forge.IRModule(NETWORK, weights()).quantize_with_accuracy(lambda run: 1.0)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code for x86-64")
def test_models_that_measure_losses_are_compiled_for_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[str, str]] = []

    def compiled(module: Module, options: CompileOptions, *, name: str = "", **others: Any) -> CompiledModel:
        used.append((name, options.target.cpu))
        return compile_module(module, options, name=name, **others)

    monkeypatch.setattr(trial, "compile_module", compiled)
    ir = small_net()
    ir.quantize(calib_data=list(samples()), target="llvm -mcpu=x86-64", bias_correction=True)
    assert {name for name, _ in used} >= {"calibrate", "correct_biases", "compare"}
    assert {cpu for _, cpu in used} == {"x86-64"}
    report = ir.quantization_report(tries=False)
    assert report.cpu.startswith("x86-64") and {cpu for _, cpu in used} == {"x86-64"}
    with pytest.raises(TargetError):
        small_net().quantize(target="llvm -mcpu=none")
