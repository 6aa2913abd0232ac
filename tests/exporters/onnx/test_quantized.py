"""Exports of quantized models: onnxruntime gives the integers of the original, and weights stay in 8 bits or fewer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

import forge
from benchmarks import models, quantized
from forge.driver import Compilation, check_options, run_stages
from forge.frontends.onnx import import_model
from forge.ir.graph import Module
from forge.ir.interp import run_graph
from forge.ir.parser import parse_module
from tests.exporters.onnx.support import check, exported, onnxruntime_outputs
from tests.frontends.onnx.microsoft.support import node_model
from tests.frontends.onnx.microsoft.test_recurrent import WEIGHTS, operands
from tests.random_onnx import run_onnxruntime
from tests.random_quantized import random_quantized_model
from tests.saturation import is_exact, skip_where_sums_saturate
from tests.test_random_quantized import judged

STAGES = ("", "to_integers")
"""What has been done to a module before it is exported: nothing, or all up to this stage."""


def weight_bytes(model: onnx.ModelProto) -> int:
    return sum(len(t.raw_data) or 4 * (len(t.int32_data) + len(t.float_data)) for t in model.graph.initializer)


@pytest.mark.parametrize("signed", [False, True], ids=["uint8", "int8"])
@pytest.mark.parametrize("name", models.MODELS)
def test_networks(name: str, signed: bool, tmp_path: Path) -> None:
    """As onnxruntime's quantizer writes them: what is exported computes the same, bit for bit."""
    pytest.importorskip("torch")
    _, path = quantized.quantized(name, tmp_path, activations="int8" if signed else "uint8", small=True)
    original = onnx.load(path)
    model = forge.from_onnx(path).to_onnx()
    assert model is not None
    check(model)
    assert weight_bytes(model) <= weight_bytes(original)
    feeds = models.inputs(name, small=True)
    outputs = [onnxruntime_outputs(m, [feeds[i.name] for i in m.graph.input]) for m in (original, model)]
    for expected, got in zip(*outputs, strict=True):
        np.testing.assert_array_equal(got, expected)


def check_random(seed: int, stage: str) -> None:
    """Layer by layer, each from the integers before it, within one step."""
    skip_where_sums_saturate()
    drawn = random_quantized_model(seed)
    module = import_model(drawn.model(drawn.layers))
    if stage:
        compilation = Compilation(module, check_options())
        run_stages(compilation, stop_after=stage)
        module = Module(compilation.functions[0].graph)
    found = dict(zip(drawn.layers, run_onnxruntime(exported(module), drawn.inputs), strict=True))
    assert not judged(drawn, found), f"seed {seed}"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed: int, stage: str) -> None:
    check_random(seed, stage)


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("part", range(20))
def test_many_random_graphs(part: int, stage: str) -> None:
    for seed in range(1000 + 20 * part, 1020 + 20 * part):
        check_random(seed, stage)


INTEGERS = {
    "a weight with zero points for each channel": """def @main(%x: Tensor[(1, 2, 5, 5), uint8]) {
        %0 = cast(meta[relay.Constant][0], dtype="int32");
        %1 = subtract(%0, meta[relay.Constant][1]);
        nn.conv2d(cast(%x, dtype="int32"), %1)
    }""",
    "a border of numbers": """def @main(%x: Tensor[(1, 2, 5, 5), uint8]) {
        nn.conv2d(%x, meta[relay.Constant][2], padding=[1, 0, 2, 1], pad_value=7, out_dtype="int32")
    }""",
    "data of 16 bits": """def @main(%x: Tensor[(1, 2, 5, 5), int16]) {
        nn.conv2d(%x, meta[relay.Constant][2], padding=[1, 0, 2, 1], pad_value=-300, strides=[2, 1], out_dtype="int32")
    }""",
    "transposed": """def @main(%x: Tensor[(1, 3, 5, 5), uint8]) {
        nn.conv2d_transpose(%x, meta[relay.Constant][2], strides=[2, 2], out_dtype="int32")
    }""",
    "a product": """def @main(%x: Tensor[(3, 18), uint8]) {
        nn.dense(%x, reshape(meta[relay.Constant][2], newshape=[3, 18]), out_dtype="int32")
    }""",
}


@pytest.mark.parametrize("name", INTEGERS)
def test_sums_of_integers(name: str) -> None:
    """By operators on integers of 8 bits, which runtimes have, and exactly."""
    rng = np.random.default_rng(3)
    constants = [rng.integers(0, 256, (3, 2, 3, 3)).astype(np.uint8), np.array([0, 128, 255], np.int32).reshape(3, 1, 1, 1),
                 rng.integers(-128, 128, (3, 2, 3, 3)).astype(np.int8)]
    graph = parse_module(INTEGERS[name], constants).main
    info = np.iinfo(graph.inputs[0].dtype)
    x = rng.integers(info.min, info.max + 1, [int(d) for d in graph.inputs[0].shape]).astype(graph.inputs[0].dtype)
    (expected,) = run_graph(graph, [x])
    model = exported(Module(graph))
    if is_exact():
        np.testing.assert_array_equal(onnxruntime_outputs(model, [x])[0], expected)
    assert all(t.data_type != onnx.TensorProto.INT32 or t.dims in ([], [3, 1, 1, 1]) for t in model.graph.initializer)


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, 0), (np.uint8, 90)])
def test_recurrent_layers_that_round_their_states(dtype: type, zero: int) -> None:
    inputs = operands("bias", "lengths", "h0", directions=2, dtype=dtype, zero=zero)
    original = node_model("DynamicQuantizeLSTM", inputs, {"hidden_size": 9, "direction": "bidirectional"},
                          outputs=(True, True, True), constant=WEIGHTS, declared=dict.fromkeys(range(3), onnx.TensorProto.FLOAT))
    model = exported(import_model(original))
    check(model)
    assert [n.op_type for n in model.graph.node] == ["Identity", "DynamicQuantizeLSTM"]  # the first: of checked lengths
    fed = [x for k, x in enumerate(inputs) if x is not None and k not in WEIGHTS]
    for expected, got in zip(*(onnxruntime_outputs(m, fed) for m in (original, model)), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("dtype", "zero"), [
    ("int8", ""), ("int8", ", 0i8"), ("int8", ", 3i8"), ("int16", ""), ("int16", ", 3i16"), ("uint8", ""), ("uint16", ""),
])
def test_onnxruntime_may_move_reshapes_before_conversions(dtype: str, zero: str) -> None:
    """It writes another pair around them then, and loses the type of codes in some opsets."""
    text = f"""
    def @main(%x: Tensor[(2, 6), float32]) {{
      %0 = qnn.dequantize(qnn.quantize(%x, 0.02f{zero}, out_dtype="{dtype}"), 0.02f{zero});
      exp(transpose(reshape(%0, newshape=[2, 3, 2]), axes=[0, 2, 1]))
    }}
    """
    ir = forge.IRModule(text)
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(2, 6)
    model = ir.to_onnx()
    assert model is not None
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x})[0], ir.get_inference_function("reference")(x), rtol=1e-6)
