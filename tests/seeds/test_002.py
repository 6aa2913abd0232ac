"""Seed 002: the guide to introspection, line by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import forge
from tests.frontends.onnx.support import model
from tests.seeds.items import differs, works
from tests.seeds.models import X, network


@pytest.fixture
def ir(tmp_path: Path) -> forge.IRModule:
    onnx.save(network(), tmp_path / "model.onnx")
    onnx_model = onnx.load(tmp_path / "model.onnx")
    return forge.from_onnx(onnx_model)


@works("load a model", "`forge.IRModule` is the intermediate representation module")
def test_load(ir: forge.IRModule) -> None:
    assert isinstance(ir, forge.IRModule)


@works("`ir.mod`", "`ir.typed_mod`: with static typing", "a notebook cell displays the graph as text")
def test_representation(ir: forge.IRModule) -> None:
    assert str(ir.mod).startswith("def @main(%x: Tensor[(batch, 3, 6, 6), float32])")
    assert "/* ty=" in str(ir.typed_mod)
    assert "nn.conv2d" in ir._repr_html_()
    assert "nn.conv2d" in repr(ir.mod)


@works("`ir.operators`: Dict[str, int]")
def test_operators(ir: forge.IRModule) -> None:
    assert ir.operators["nn.conv2d"] == 1
    assert all(isinstance(name, str) and isinstance(count, int) for name, count in ir.operators.items())


@works("`ir.input_count`", "`ir.input_shapes`: List[Tuple[int, ...]]", "`ir.input_dtypes`: List[str]")
def test_inputs() -> None:
    ir = forge.from_onnx(network(), shape={"x": (2, 3, 6, 6)})
    assert (ir.input_count, ir.input_shapes, ir.input_dtypes) == (1, [(2, 3, 6, 6)], ["float32"])


@works("`ir.output_count`", "`ir.output_shapes`: List[Tuple[int, ...]]", "`ir.output_dtypes`: List[str]")
def test_outputs() -> None:
    ir = forge.from_onnx(network(), shape={"x": (2, 3, 6, 6)})
    assert (ir.output_count, ir.output_shapes, ir.output_dtypes) == (1, [(2, 5)], ["float32"])


@works(
    "`ir.fingerprint`: str, of structure and weights",
    "IRModules with matching fingerprints are completely identical",
    note="names of inputs and outputs count, too",
)
def test_fingerprint(ir: forge.IRModule) -> None:
    assert isinstance(ir.fingerprint, str)
    assert ir.fingerprint == forge.from_onnx(network()).fingerprint
    assert ir.fingerprint != forge.from_onnx(network(1)).fingerprint
    renamed = ir.copy()
    with renamed.edit() as e:
        e.rename(renamed.main.inputs[0], "other")
    assert ir.fingerprint != renamed.fingerprint


@works(
    "`hash(ir)`: int, of structure without weights",
    "models trained on different data have matching hashes",
    note="trained scalars are weights, too",
)
def test_hash(ir: forge.IRModule) -> None:
    assert isinstance(hash(ir), int)
    assert hash(ir) == hash(forge.from_onnx(network(1)))
    scaled = [forge.from_onnx(model("g (float[n] x) => (float[n] y) { y = Mul(x, s) }", s=np.float32(s))) for s in (0.5, 0.7)]
    assert hash(scaled[0]) == hash(scaled[1])
    assert scaled[0].fingerprint != scaled[1].fingerprint


@works("`func = ir.get_inference_function()`; `func(input_data)`, `func(input0, input1, ..., inputN)`")
def test_inference(ir: forge.IRModule) -> None:
    func = ir.get_inference_function()
    np.testing.assert_allclose(func(X), ir.get_inference_function("reference")(X), rtol=1e-5, atol=1e-5)
    two = forge.from_onnx(model("g (float[n] a, float[n] b) => (float[n] y) { y = Sub(a, b) }")).get_inference_function()
    np.testing.assert_array_equal(two(np.float32([3, 4]), np.float32([1, 1])), [2, 3])


@differs(
    "the inference function is not an optimized compilation",
    why='it is one: faster and checked against the interpreter, which `get_inference_function("reference")` gives',
)
def test_inference_is_compiled(ir: forge.IRModule) -> None:
    assert isinstance(ir.get_inference_function(), forge.Runtime)
    assert not isinstance(ir.get_inference_function("reference"), forge.Runtime)


@works('`ir.graph_count`: always at least 1, the "main" graph')
def test_graph_count(ir: forge.IRModule) -> None:
    assert ir.graph_count == 1


@works(
    "`ir.partition_for_tensorrt()`",
    "`ir.is_tensorrt`",
    '`ir.subgraph_count` excludes "main"',
    "the optimal number of subgraphs is one",
    note="biases go in, so that a network of supported operators is one",
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_partition(ir: forge.IRModule) -> None:
    assert not ir.is_tensorrt
    ir.partition_for_tensorrt()
    assert ir.is_tensorrt
    assert ir.subgraph_count == ir.graph_count - 1 == 1
    assert "tensorrt" in str(ir.mod)


@works('`ir.inline_partitions()`: the single "flattened" graph')
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_undo(ir: forge.IRModule) -> None:
    before = ir.copy()
    ir.partition_for_tensorrt()
    ir.inline_partitions()
    assert (ir.graph_count, ir.is_tensorrt) == (1, False)
    assert str(ir.mod) == str(before.mod)
