"""Each argument of Relax's ``from_onnx``, and the weights taken off a module."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import forge
import forge.relax.frontend.onnx
from forge.errors import ImportModelError, InvalidGraphError, OptionError
from tests.frontends.onnx.support import example, model

GRAPH = "g (float[batch, 4] x) => (float[batch, 2] y) { h = MatMul(x, w)  y = Add(h, b) }"
X = example(2, 3, 4)
WEIGHTS = {"w": example(0, 4, 2), "b": example(1, 2)}


def dense(name: str = "x") -> onnx.ModelProto:
    proto = model(GRAPH, **WEIGHTS)
    proto.graph.input[0].name = proto.graph.node[0].input[0] = name
    return proto


def test_defaults() -> None:
    ir = forge.relax.from_onnx(dense())
    assert ir.input_names == ["x"]
    assert ir.params == {}
    np.testing.assert_allclose(ir.get_inference_function()(X), X @ WEIGHTS["w"] + WEIGHTS["b"], rtol=1e-5, atol=1e-6)


def test_shape_dict() -> None:
    assert forge.relax.from_onnx(dense(), {"x": [3, 4]}).input_shapes == [(3, 4)]
    assert [str(d) for d in forge.relax.from_onnx(dense(), {"x": ["rows", None]}).input_shapes[0]] == ["rows", "4"]
    with pytest.raises(ImportModelError, match="axis 1: shape_dict= gives 5; the model declares 4"):
        forge.relax.from_onnx(dense(), {"x": [3, 5]})
    with pytest.raises(ImportModelError, match="shape_dict= names 'z'; expected an input: x"):
        forge.relax.from_onnx(dense(), {"z": [3, 4]})


@pytest.mark.parametrize("given", ["float64", {"x": "float64"}])
def test_dtype_dict_fills_in_what_the_model_leaves_open(given: Any) -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
    assert forge.relax.from_onnx(proto, dtype_dict=given).input_dtypes == ["float64"]
    assert forge.relax.from_onnx(proto).input_dtypes == ["float32"]
    assert forge.relax.from_onnx(proto, dtype_dict=None).input_dtypes == ["float32"]


def test_dtype_dict_by_name_replaces() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    assert forge.relax.from_onnx(proto, dtype_dict={"x": "float64"}).input_dtypes == ["float64"]
    with pytest.raises(ImportModelError, match="dtype_dict= names 'z'; expected an input: x"):
        forge.relax.from_onnx(proto, dtype_dict={"z": "float64"})
    told = "dtype_dict= gives float64; the model declares float32; pass dtype_dict={'x': 'float64'} to replace"
    with pytest.raises(ImportModelError, match=told):
        forge.relax.from_onnx(proto, dtype_dict="float64")


def test_opset() -> None:
    proto = model("g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis=1>(x) }", opset=13)
    x = example(0, 2, 3, 4)
    assert forge.relax.from_onnx(proto).get_inference_function("reference")(x).sum() == pytest.approx(8, rel=1e-5)
    assert forge.relax.from_onnx(proto, opset=11).get_inference_function("reference")(x).sum() == pytest.approx(2, rel=1e-5)


@pytest.mark.parametrize("opset", [0, 1000])
def test_opset_that_does_not_exist(opset: int) -> None:
    with pytest.raises(ImportModelError, match=f"got opset {opset}; expected 1 to"):
        forge.relax.from_onnx(dense(), opset=opset)


def test_keep_params_in_input() -> None:
    ir = forge.relax.from_onnx(dense(), keep_params_in_input=True)
    assert [v.name for v in ir.main.inputs] == ["x", "w", "b"]
    assert list(ir.params) == ["w", "b"]
    assert ir.input_names == ["x"]
    np.testing.assert_allclose(ir.get_inference_function()(X), X @ WEIGHTS["w"] + WEIGHTS["b"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"), [("1.x:0", "input_1_x_0"), ("x.1", "x_1"), ("x", "x"), ("_", "input__"), ("é", "input__"), ("w", "w_")]
)
def test_sanitize_input_names(name: str, expected: str) -> None:
    proto = dense(name)
    if name == "w":
        proto.graph.initializer[0].name = proto.graph.node[0].input[1] = "w."
    assert forge.relax.from_onnx(proto, sanitize_input_names=False).input_names == [name]
    kept = forge.relax.from_onnx(proto, {name: (3, 4)}, keep_params_in_input=True)
    assert [v.name for v in kept.main.inputs] == ([expected, "w", "b"] if name != "w" else ["w", "w_", "b"])


def test_sanitized_names_of_parameters_keep_their_order() -> None:
    proto = dense()
    proto.graph.initializer[0].name = proto.graph.node[0].input[1] = "onnx::w"
    ir = forge.relax.from_onnx(proto, keep_params_in_input=True)
    assert list(ir.params) == ["w", "b"]
    assert [v.name for v in ir.main.inputs] == ["x", "w", "b"]
    np.testing.assert_array_equal(ir.params["w"], WEIGHTS["w"])


@pytest.mark.parametrize(
    "arguments",
    [{"keep_params_in_input": 1}, {"sanitize_input_names": "no"}, {"opset": 1.5}, {"shape_dict": 3}, {"dtype_dict": 3}],
)
def test_arguments_of_the_wrong_kind(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(OptionError, match=f"from_onnx: {name}: got"):
        forge.relax.from_onnx(dense(), **arguments)


def test_detach_params() -> None:
    ir = forge.relax.from_onnx(dense(), keep_params_in_input=True)
    detached, params = forge.relax.detach_params(ir)
    assert list(params) == ["main"]
    assert detached.input_names == ["x", "w", "b"]
    assert detached.params == {}
    assert list(ir.params) == ["w", "b"]
    np.testing.assert_array_equal(
        detached.get_inference_function()(X, *params["main"]), ir.get_inference_function()(X))
    assert forge.relax.detach_params(forge.relax.from_onnx(dense()))[1] == {}


def test_the_paths_of_relax() -> None:
    assert forge.relax.frontend.onnx.from_onnx is forge.relax.from_onnx
    assert forge.relax.frontend.detach_params is forge.relax.detach_params


def test_detach_params_takes_the_inner_module_too() -> None:
    ir = forge.relax.from_onnx(dense(), keep_params_in_input=True)
    detached, params = forge.relax.detach_params(ir.mod)
    assert detached.params == {} and list(ir.params) == ["w", "b"]
    for array, name in zip(params["main"], WEIGHTS, strict=True):
        assert isinstance(array, forge.nd.NDArray)
        np.testing.assert_array_equal(array.numpy(), WEIGHTS[name])
    with pytest.raises(InvalidGraphError, match=r"got dict; expected an ir.Module, an IRModule or text"):
        forge.relax.detach_params({})  # type: ignore[arg-type]


def test_weights_are_an_attribute_of_the_function() -> None:
    ir = forge.relax.from_onnx(dense(), keep_params_in_input=True)
    for array, name in zip(ir.mod.attributes()["params"], WEIGHTS, strict=True):
        np.testing.assert_array_equal(array, WEIGHTS[name])
    assert forge.relax.from_onnx(dense()).mod.attributes("main") == {}
    assert forge.IRModule("def @main(%x: Tensor[(2), float32], Inline=1) { nn.relu(%x) }").mod.attributes() == {"Inline": 1}


def test_script() -> None:
    text = forge.relax.from_onnx(dense(), keep_params_in_input=True).script()
    assert text == str(forge.IRModule(text).typed_mod)
    assert "add(%1, %b) /* ty=Tensor[(batch, 2), float32] */" in text


def test_a_graph_without_its_model_is_refused() -> None:
    with pytest.raises(ImportModelError, match=r"got GraphProto; expected a path, bytes or an onnx.ModelProto; .*make_model"):
        forge.relax.from_onnx(dense().graph)  # type: ignore[arg-type]
