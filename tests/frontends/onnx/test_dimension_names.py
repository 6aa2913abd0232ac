"""Texts of dimensions in models are labels of sizes, never arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import forge
from forge import dims
from forge.errors import ForgeError, ImportModelError, ParseError
from forge.frontends.inputs import DimensionNames
from forge.frontends.onnx import import_model
from forge.ir.parser import parse_module
from forge.ir.printer import print_module
from tests.frontends.onnx.support import example, model, onnxruntime_outputs

LABELS = [
    "n", "batch*seq", "n+1", "2*n", "n - 1", "a b", "a-b", "0", "7", "min", "1x", "é", "批", 'quo"te', "back\\slash",
    "line\nbreak", "*/", "), float32]", "%x", "$", "input_0_dim1", "x" * 1000,
]
UNKNOWN = ["", "_", "?", "-1", "None", "unknown"]


def labelled(*shapes: Sequence[str | int], graph: str = "y = Concat<axis = 0>(x0, x1)") -> onnx.ModelProto:
    """A model with inputs x0, x1 ... whose dimensions have these labels or sizes."""
    rank = len(shapes[0])
    declared = f"float[{', '.join(['n'] * rank)}]"
    inputs = ", ".join(f"{declared} x{k}" for k in range(len(shapes)))
    proto = model(f"g ({inputs}) => ({declared} y) {{ {graph} }}")
    for info, shape in zip(proto.graph.input, shapes, strict=True):
        for dim, size in zip(info.type.tensor_type.shape.dim, shape, strict=True):
            dim.Clear()
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = size
    return proto


def shapes_of(module: Any) -> list[tuple[Any, ...]]:
    return [v.shape for v in module.main.inputs]


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_one_symbol(label: str) -> None:
    module = import_model(labelled((label, 2), (3, label)))
    (first, _), (_, second) = shapes_of(module)
    assert first == second
    assert dims.symbol_name(first) == label[: dims.MAX_NAME]
    text = print_module(module)
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize("label", UNKNOWN)
def test_texts_that_say_nothing_are_sizes_of_their_own(label: str) -> None:
    module = import_model(labelled((label, label), (label, label)))
    sizes = [d for shape in shapes_of(module) for d in shape]
    assert len({dims.symbol_name(d) for d in sizes}) == 4


def test_sizes_without_a_label_never_take_the_name_of_one() -> None:
    (first, second), (third, _) = shapes_of(import_model(labelled(("?", "input_1_dim0"), ("", 3))))
    assert len({first, second, third}) == 3


def test_long_labels_stay_different() -> None:
    labels = DimensionNames(["x" * 500 + "a", "x" * 500 + "b", "x" * 500 + "a"])
    assert labels.symbol("x" * 500 + "a") != labels.symbol("x" * 500 + "b")


@pytest.mark.parametrize("label", ["batch*seq", "n+1", "-1", "a b", "0", 'quo"te\n', "é", "x" * 1000, "?", ""])
def test_models_with_any_label_compile_and_run(label: str, tmp_path: Path) -> None:
    graph = "t = Transpose<perm = [1, 0]>(x0)\n p = MatMul(x0, t)\n y = Add(p, x1)"
    proto = labelled((label, 4), (1, 1), graph=graph)
    x, one = example(0, 3, 4), np.ones((1, 1), np.float32)
    (expected,) = onnxruntime_outputs(proto, x, one)
    ir = forge.from_onnx(proto)
    got = ir.get_inference_function()(x, one)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    ir.save(tmp_path / "m.forge")
    assert str(forge.load(tmp_path / "m.forge")) == str(ir)


@pytest.mark.parametrize("label", ["batch*seq", "n+1", "a b", "0", 'quo"te\n', "é"])
def test_labels_come_back_in_exported_models(label: str) -> None:
    made = forge.from_onnx(labelled((label, 4), (3, 4))).to_onnx()
    assert made is not None
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == label


def test_inputs_that_share_a_label_have_equal_sizes_when_run() -> None:
    function = forge.from_onnx(labelled(("2*n", 4), ("2*n", 4))).get_inference_function()
    assert function(example(0, 3, 4), example(1, 3, 4)).shape == (6, 4)
    with pytest.raises(ForgeError, match=r"input 'x1', dimension 0: symbol '2\*n' has two values; got 5; expected 3"):
        function(example(0, 3, 4), example(1, 5, 4))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"x0": (6, 4)}, "(6, 4) (6, n)"),
        ({"x1": (6, 5)}, "(6, 4) (6, 5)"),
        ({"x0": ("batch*seq", 4)}, '($"batch*seq", 4) ($"batch*seq", n)'),
        ({"x0": ("n", 4)}, "(n, 4) (n, n)"),
        ({"x0": (None, 4), "x1": (-1, "batch*seq")}, '($"batch*seq", 4) ($"batch*seq", $"batch*seq")'),
        ({"x0": ("rows", 4)}, "(rows, 4) (rows, n)"),
        ({"x1": (None, "2*k + 1")}, '($"batch*seq", 4) ($"batch*seq", 2*k + 1)'),
        ({"x1": (None, 'k*$"batch*seq"')}, '($"batch*seq", 4) ($"batch*seq", $"batch*seq"*k)'),
    ],
)
def test_shape_names_labels_as_the_model_does(shape: Any, expected: str) -> None:
    module = import_model(labelled(("batch*seq", 4), ("batch*seq", "n"), graph="y = Relu(x0)"), shape=shape)
    assert " ".join(f"({', '.join(map(str, s))})" for s in shapes_of(module)) == expected


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ({"x0": (6, 4), "x1": (5, 4)}, ImportModelError,
         r"input 'x1', axis 0: shape= gives 5; the model declares \$\"2\*n\"; input 'x0', axis 0 gives 6 for '2\*n'"),
        ({"x0": ("no name", 4)}, ParseError, "'no name' is not an integer expression"),
    ],
)
def test_shape_that_does_not_fit_labels(shape: Any, error: type[ForgeError], message: str) -> None:
    with pytest.raises(error, match=message):
        import_model(labelled(("2*n", 4), ("2*n", 4)), shape=shape)


def test_what_is_said_of_outputs_and_values_between_is_no_arithmetic_either() -> None:
    proto = labelled(("n", 4), ("n", 4), graph="h = Relu(x0)\n y = Concat<axis = 0>(h, x1)")
    declared = onnx.helper.make_tensor_type_proto(1, ["n+1", "-1"])
    proto.graph.output[0].type.CopyFrom(declared)
    proto.graph.value_info.append(onnx.ValueInfoProto(name="h", type=declared))
    x = example(0, 3, 4)
    assert forge.from_onnx(proto).get_inference_function()(x, x).shape == (6, 4)


def test_unequal_sizes_of_one_label() -> None:
    """onnxruntime warns and computes; here the error of the call names the option with which the model takes them."""
    proto = labelled(("n", 4), ("n", 4))
    inputs = example(0, 3, 4), example(1, 5, 4)
    with pytest.raises(ForgeError, match=r"symbol 'n' has two values.*load it with unify_dimensions=False"):
        forge.from_onnx(proto).get_inference_function()(*inputs)
    ir = forge.from_onnx(proto, unify_dimensions=False)
    assert [str(shape) for shape in ir.input_shapes] == ["(n, 4)", "(n_1, 4)"]
    np.testing.assert_array_equal(ir.get_inference_function()(*inputs), onnxruntime_outputs(proto, *inputs)[0])
    with pytest.raises(ForgeError, match="unify_dimensions: got 0; expected True or False"):
        forge.from_onnx(proto, unify_dimensions=0)
