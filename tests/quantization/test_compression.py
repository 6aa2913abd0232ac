"""Weights become codes of few bits: what they become, that they stay packed, and that results say so everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge import dims
from forge.errors import InputError, OptionError
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.options import CompileOptions
from forge.quantization.chosen.compression import Compressed
from forge.quantization.observed import gram
from forge.quantization.places.layers import layers_of

pytestmark = pytest.mark.usefixtures("compile_cache")
VOCABULARY, WIDTH = 60, 64
N = dims.symbol("n")


def constant(b: Builder, rng: np.random.Generator, *shape: int, name: str = "") -> Value:
    return b.constant((rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32), name=name)


def network(tied: bool = False) -> forge.IRModule:
    """An embedding, a normalization with channels of different sizes, and two layers around an activation."""
    rng = np.random.default_rng(3)
    b = Builder()
    index = b.input(TensorType((N,), "int64"), "index")
    table = b.constant(rng.standard_normal((VOCABULARY, WIDTH)).astype(np.float32), name="table")
    x = b.call("take", table, index, axis=0, name="embedding")
    gamma = np.exp(1.5 * rng.standard_normal(WIDTH)).astype(np.float32)
    x = b.call("nn.layer_norm", x, b.constant(gamma), constant(b, rng, WIDTH))
    first = b.call("nn.dense", x, constant(b, rng, 128, WIDTH), name="first")
    x = b.call("nn.relu", b.call("add", first, constant(b, rng, 128)))
    x = b.call("nn.matmul", x, constant(b, rng, 128, WIDTH), name="second")
    head = table if tied else constant(b, rng, 40, WIDTH)
    return forge.IRModule(Module(b.output(b.call("nn.dense", x, head, name="head"))))


def samples() -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [rng.integers(0, VOCABULARY, 50) for _ in range(3)]


def results(ir: forge.IRModule) -> np.ndarray:
    found: np.ndarray = ir.get_inference_function("reference")(samples()[0])
    return found


def sqnr(ir: forge.IRModule) -> float:
    real = results(network())
    return float(10 * np.log10(np.square(real).sum() / np.square(results(ir) - real).sum()))


def weight(found: Compressed, name: str) -> Any:
    return next(w for w in found.weights if w.label.startswith(name))


OPTIONS: dict[str, dict[str, Any]] = {
    "4 bits": {}, "rows": {"group": None}, "without zero points": {"symmetric": True}, "8 bits": {"bits": 8},
    "2 bits": {"bits": 2, "group": 16}, "long groups": {"group": 128}, "rows by -1": {"group": -1, "symmetric": True},
    "gptq": {"scheme": "gptq"}, "awq": {"scheme": "awq"}, "tied": {"tied": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_compiled(options: dict[str, Any], tmp_path: Path) -> None:
    """The reference, compiled code, onnxruntime, and what a file brings back give the same results."""
    options = dict(options)
    ir = network(options.pop("tied", False))
    before = sum(a.nbytes for a in ir.main.constants.values())
    found = ir.compress(calib_data=samples(), **options)
    assert ir.is_quantized
    assert found.bytes_before == before
    assert found.bytes_after == sum(a.nbytes for a in ir.main.constants.values()) < 0.4 * before
    expected = results(ir)
    size = np.abs(expected).max()
    ir.compile(output_path=tmp_path / "compiled")
    np.testing.assert_allclose(forge.Runtime(tmp_path / "compiled")(samples()[0]) / size, expected / size, atol=2e-5)
    ir.save(tmp_path / "model.forge")
    assert forge.load(tmp_path / "model.forge").fingerprint == ir.fingerprint
    if options.get("bits") == 2:
        return
    ir.to_onnx(tmp_path / "model.onnx")
    ort = pytest.importorskip("onnxruntime")
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it rounds data to 8 bits otherwise
    session = ort.InferenceSession(tmp_path / "model.onnx", settings)
    np.testing.assert_allclose(session.run(None, {"index": samples()[0]})[0] / size, expected / size, atol=2e-5)


def test_weights_stay_packed_up_to_the_kernel() -> None:
    ir = network()
    ir.compress()
    for name in ("first", "second", "head"):
        assert "pack_blocks: replaced it" in ir.explain(next(n for n in ir.main.nodes if n.name == name))
    assert next(n.dtype for n in ir.main.nodes if n.op == "take") == "uint8"


def test_schemes() -> None:
    """Neither gives a layer more error than rounding to the nearest, and both give results less."""
    found = {}
    layers = {}
    for scheme in ("rtn", "awq", "gptq"):
        ir = network()
        layers[scheme] = ir.compress(scheme=scheme, embeddings=0, calib_data=samples())
        found[scheme] = sqnr(ir)
    assert found["awq"] > found["rtn"] + 1
    assert found["gptq"] > found["rtn"] + 3
    for scheme in ("awq", "gptq"):
        for name in ("first", "second", "head"):
            assert weight(layers[scheme], name).sqnr >= weight(layers["rtn"], name).sqnr - 1e-3
    assert weight(layers["awq"], "first").scheme == "awq"
    assert weight(layers["gptq"], "first").scheme == "gptq"


def test_scales_are_folded_into_what_makes_the_inputs() -> None:
    ir = network()
    ops = [n.op for n in ir.main.nodes]
    ir.compress(scheme="awq", calib_data=samples(), embeddings=0)
    assert "multiply" not in [n.op for n in ir.main.nodes]
    assert [n.op for n in ir.main.nodes if n.op in ("nn.layer_norm", "nn.relu", "nn.dense")] == [
        op for op in ops if op in ("nn.layer_norm", "nn.relu", "nn.dense")]


def test_scales_that_cannot_be_folded_are_a_product_where_that_is_worth_it() -> None:
    rng = np.random.default_rng(6)
    b = Builder()
    x = b.input(TensorType((N, 64), "float32"), "x")
    ir = forge.IRModule(Module(b.output(b.call("nn.dense", x, constant(b, rng, 48, 64), name="layer"))))
    sizes = np.exp(1.5 * rng.standard_normal(64)).astype(np.float32)
    data = [rng.standard_normal((40, 64)).astype(np.float32) * sizes]
    other = forge.IRModule(ir)
    found = ir.compress(scheme="awq", calib_data=data)
    assert ir.main.find("multiply").operands[0] is ir.main.inputs[0]
    assert weight(found, "layer").sqnr > weight(other.compress(scheme="rtn", calib_data=data), "layer").sqnr + 0.5
    even = forge.IRModule(Module(b.graph))
    even.compress(scheme="awq", calib_data=[rng.standard_normal((400, 64)).astype(np.float32)])
    assert not [n for n in even.main.nodes if n.op == "multiply"]


@pytest.mark.parametrize("share", [0.2, 0.25, 0.3, 0.6, 1.0])
def test_size(share: float) -> None:
    ir = network()
    found = ir.compress(size=share, calib_data=samples())
    assert found.bytes_after <= share * found.bytes_before
    assert found.bytes_after == sum(a.nbytes for a in ir.main.constants.values())
    bits = [w.bits for w in found.weights]
    assert set(bits) <= {4, 8, 32}
    assert share < 1 or set(bits) == {32}
    assert share != 0.25 or len(set(bits)) == 2


def test_defaults() -> None:
    """Tables get 8 bits but to reach a size, and there is a scheme for what is known."""
    plain, known, small = network().compress(), network().compress(calib_data=samples()), network().compress(size=0.18)
    assert [weight(found, "embedding").bits for found in (plain, known, small)] == [8, 8, 4]
    assert [weight(found, "first").scheme for found in (plain, known)] == ["rtn", "gptq"]
    assert weight(network().compress(embeddings=4), "embedding").bits == 4


def test_sizes_in_bytes_and_more_room_give_more_accuracy() -> None:
    found = []
    for size in (16_000, 20_000, 30_000, 60_000):
        ir = network()
        assert ir.compress(size=size, calib_data=samples()).bytes_after <= size
        found.append(sqnr(ir))
    assert found == sorted(found)
    assert found[-1] > found[0] + 15


def test_a_tied_table_is_held_once() -> None:
    ir = network(tied=True)
    found = ir.compress()
    assert [w.label for w in found.weights if w.bytes_before == 4 * VOCABULARY * WIDTH] == ["embedding (take)"]
    assert len([a for a in ir.main.constants.values() if a.shape == (VOCABULARY, WIDTH // 2)]) == 1


def test_names_stay() -> None:
    ir = network()
    names = ir.output_names
    ir.compress()
    assert ir.output_names == names
    assert "table" in ir.main.constants


@pytest.mark.parametrize(("depth", "bits", "group"), [
    (64, 4, 32), (48, 4, 24), (40, 4, 40), (104, 4, 104), (24, 4, 24), (20, 8, 20), (36, 8, 36), (100, 8, 20), (54, 32, 0),
])
def test_depths_that_groups_do_not_divide(depth: int, bits: int, group: int) -> None:
    rng = np.random.default_rng(depth)
    b = Builder()
    x = b.input(TensorType((3, depth), "float32"), "x")
    ir = forge.IRModule(Module(b.output(b.call("nn.dense", x, constant(b, rng, 40, depth)))))
    (found,) = ir.compress().weights
    assert (found.bits, found.group) == (bits, group)
    assert ("would not stay packed" in found.reason) == (bits == 32)


def test_recurrent_layers_get_8_bits() -> None:
    rng = np.random.default_rng(8)
    b = Builder()
    x = b.input(TensorType((5, 2, 16), "float32"), "x")
    bias = b.constant(np.zeros((2, 192), np.float32))
    states = b.call_multi(
        "nn.lstm", x, constant(b, rng, 2, 96, 16), constant(b, rng, 2, 96, 24), bias, name="lstm", direction="bidirectional",
        activations=("sigmoid", "tanh", "tanh") * 2, activation_alpha=(0.0,) * 6, activation_beta=(0.0,) * 6)
    ir = forge.IRModule(Module(b.output(states[0])))
    data = rng.standard_normal((5, 2, 16)).astype(np.float32)
    real = ir.get_inference_function("reference")(data)
    found = ir.compress()
    assert [(w.kind, w.bits) for w in found.weights] == [("recurrent", 8)] * 2
    quantized = ir.get_inference_function("reference")(data)
    np.testing.assert_allclose(quantized, real, atol=0.02)
    assert "keep_codes: replaced it" in ir.explain(ir.main.find("nn.lstm"))


def image(**attributes: Any) -> forge.IRModule:
    rng = np.random.default_rng(9)
    b = Builder()
    x = b.input(TensorType((2, 8, 9, 9), "float32"), "x")
    groups = attributes.get("groups", 1)
    weights = b.constant(rng.standard_normal((16, 8 // groups, 3, 3)).astype(np.float32))
    return forge.IRModule(Module(b.output(b.call("nn.conv2d", b.call("nn.relu", x), weights, name="conv", **attributes))))


def test_convolutions() -> None:
    """They are real numbers in artifacts, so nothing becomes of them unless that is asked for."""
    ir = image()
    (left,) = ir.compress(8).weights
    assert (left.bits, "quantize computes them with integers" in left.reason) == (32, True)
    assert not ir.is_quantized
    (found,) = ir.compress(8, convolutions=True).weights
    assert (found.kind, found.bits, found.bytes_after) == ("convolution", 8, 16 * 8 * 9 + 4 * 16)
    assert found.sqnr > 35


GEOMETRIES: dict[str, dict[str, Any]] = {
    "plain": {}, "padding and strides": {"padding": (1, 2), "strides": (2, 1)}, "dilation": {"dilation": (2, 2)},
    "groups": {"groups": 4}, "depthwise": {"groups": 8, "padding": (1, 1)}, "uneven padding": {"padding": (0, 1, 2, 1)},
}


@pytest.mark.parametrize("attributes", GEOMETRIES.values(), ids=GEOMETRIES)
def test_gram_matrices_of_convolutions(attributes: dict[str, Any]) -> None:
    """The error that they give for any change of the weight is that of the results."""
    ir = image(**attributes)
    rng = np.random.default_rng(10)
    data = [{"x": rng.standard_normal((2, 8, 9, 9)).astype(np.float32)} for _ in range(2)]
    (layer,) = layers_of(ir.main)
    matrix = gram.gram_matrices(ir.mod, [layer], data, CompileOptions())[layer]
    groups = attributes.get("groups", 1)
    rows = layer.weight.constant.reshape(groups, 16 // groups, -1)
    assert matrix.shape == (groups, rows.shape[2], rows.shape[2])
    energy = np.einsum("gnk,gkl,gnl->", rows, matrix, rows)
    reference = ir.get_inference_function("reference")
    assert energy == pytest.approx(sum(np.square(reference(sample["x"])).sum() for sample in data), rel=1e-4)


def test_gptq_of_convolutions() -> None:
    rng = np.random.default_rng(11)
    mixed = rng.standard_normal((2, 1, 9, 9)) + 0.1 * rng.standard_normal((2, 8, 9, 9))
    found = {}
    for scheme in ("rtn", "gptq"):
        ir = image(groups=2)
        found[scheme] = ir.compress(8, scheme=scheme, calib_data=[mixed.astype(np.float32)], convolutions=True).weights[0].sqnr
    assert found["gptq"] > found["rtn"] + 1


def test_layers_in_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the matrices of all layers do not fit into memory."""
    whole, parts = network(), network()
    for ir, limit in ((whole, gram.MAX_BYTES), (parts, 1)):
        monkeypatch.setattr(gram, "MAX_BYTES", limit)
        ir.compress(scheme="gptq", calib_data=samples())
    assert parts.fingerprint == whole.fingerprint


def test_kept_samples_are_used() -> None:
    ir = network()
    ir.calibrate(samples())
    assert weight(ir.compress(scheme="gptq"), "first").scheme == "gptq"


def test_params_are_weights() -> None:
    rng = np.random.default_rng(12)
    array = rng.standard_normal((40, 64)).astype(np.float32)
    text = "def @main(%x: Tensor[(3, 64), float32], %w: Tensor[(40, 64), float32]) { nn.dense(%x, %w) }"
    ir = forge.IRModule(text, params={"w": array})
    (found,) = ir.compress().weights
    assert (found.bits, found.bytes_before) == (4, array.nbytes)
    assert not ir.params


def test_exclude() -> None:
    ir = network()
    found = ir.compress(exclude=[ir.main.find("first"), "take"])
    assert {w.label: w.reason for w in found.weights if w.bits == 32} == {
        "first (nn.dense)": "excluded", "embedding (take)": "excluded"}
    assert weight(network().compress(embeddings=0), "embedding").reason == "embeddings=0"


def test_the_result_is_a_table() -> None:
    found = network().compress()
    lines = str(found).splitlines()
    assert lines[0].split()[:3] == ["layer", "kind", "bits"]
    assert len(lines) == 2 + len(found.weights)
    assert lines[-1].endswith(f"{found.bytes_after} after ({found.bytes_after / found.bytes_before:.0%})")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "bits": ({"bits": 5}, "bits: got 5; expected 2, 4 or 8"),
    "group": ({"group": 0}, "group: got 0; expected a positive number"),
    "scheme": ({"scheme": "best"}, "scheme: got 'best'; expected 'rtn', 'awq' or 'gptq'"),
    "embeddings": ({"embeddings": True}, "embeddings: got True; expected 2, 4 or 8, or 0"),
    "size": ({"size": -1}, "size: got -1; expected a number of bytes"),
    "half a byte": ({"size": 2.5}, "size: got 2.5; expected a number of bytes"),
    "symmetric": ({"symmetric": 1}, "symmetric: got 1; expected True or False"),
    "small": ({"size": 100}, "size: got 100 bytes; expected at least"),
    "no samples": ({"scheme": "gptq"}, "scheme: 'gptq' needs samples; got none; give calib_data, or calibrate the model first"),
    "unknown layer": ({"exclude": "nothing"}, "exclude: 'nothing': matches no node"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_errors(options: dict[str, Any], message: str) -> None:
    ir = network()
    before = ir.fingerprint
    with pytest.raises(OptionError, match=message):
        ir.compress(**options)
    assert ir.fingerprint == before


def test_inputs_that_are_not_finite() -> None:
    b = Builder()
    x = b.call("log", b.input(TensorType((2, 16), "float32"), "x"))
    ir = forge.IRModule(Module(b.output(b.call("nn.dense", x, b.constant(np.ones((32, 16), np.float32)), name="layer"))))
    with pytest.raises(InputError, match=r"samples: the input of layer \(nn.dense\) is not finite"):
        ir.compress(scheme="gptq", calib_data=np.zeros((2, 16), np.float32))
