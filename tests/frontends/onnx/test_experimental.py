"""Operators that ONNX no longer specifies: Caffe2's, and PyTorch's under the name ATen."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from forge.errors import ImportModelError, OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from forge.module import IRModule
from tests.frontends.onnx.support import example, model, run

X = example(0, 2, 3)


def call(text: str, inputs: str = "float[2, 3] x", **weights: Any) -> onnx.ModelProto:
    return model(f"g ({inputs}) => (y) {{ y = {text} }}", opset=11, **weights)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Affine<alpha = 2.0, beta = -0.5>(x)", 2 * X - 0.5),
        ("Affine(x)", X),
        ("Scale<scale = 0.5>(x)", 0.5 * X),
        ("Scale(x)", X),
        ("ScaledTanh<alpha = 2.0, beta = 0.5>(x)", 2 * np.tanh(0.5 * X)),
        ("ScaledTanh(x)", np.tanh(X)),
        ("ParametricSoftplus<alpha = 0.5, beta = 2.0>(x)", 0.5 * np.log(np.exp(2 * X) + 1)),
        ("ParametricSoftplus(x)", np.log(np.exp(X) + 1)),
    ],
)
def test_functions_of_an_element(text: str, expected: np.ndarray) -> None:
    (got,) = run(call(text), X)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_softplus_of_large_numbers_is_finite() -> None:
    x = np.array([[200, -200, 0], [1000, -1000, 1]], np.float32)
    (got,) = run(call("ParametricSoftplus(x)"), x)
    np.testing.assert_allclose(got, np.logaddexp(0, x), rtol=1e-6)


@pytest.mark.parametrize("batch", ["2", "n"])
@pytest.mark.parametrize("with_bias", [True, False])
def test_fully_connected(batch: str, with_bias: bool) -> None:
    x, w, b = example(1, 2, 3, 4), example(2, 5, 12), example(3, 5)
    text, weights = ("FC(x, w, b)", {"w": w, "b": b}) if with_bias else ("FC(x, w)", {"w": w})
    (got,) = run(call(text, f"float[{batch}, 3, 4] x", **weights), x)
    np.testing.assert_allclose(got, x.reshape(2, 12) @ w.T + (b if with_bias else 0), rtol=1e-5, atol=1e-5)


def test_fully_connected_along_other_axes() -> None:
    x, w, b = example(1, 2, 3, 4), example(2, 5, 7, 4), example(3, 35)
    (got,) = run(call("FC<axis = 2, axis_w = 2>(x, w, b)", "float[2, 3, 4] x", w=w, b=b), x)
    np.testing.assert_allclose(got, x @ w.reshape(35, 4).T + b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attributes", ["", "<is_test = 1, epsilon = 0.1, order = \"NCHW\">"])
def test_spatial_batch_norm(attributes: str) -> None:
    x, scale, bias, mean, variance = example(1, 2, 3, 4, 5), *(example(k, 3) for k in (2, 3, 4)), np.abs(example(5, 3)) + 0.5
    proto = call(f"SpatialBN{attributes}(x, s, b, m, v)", "float[2, 3, 4, 5] x", s=scale, b=bias, m=mean, v=variance)
    (got,) = run(proto, x)
    s, b, m, v = (a.reshape(1, 3, 1, 1) for a in (scale, bias, mean, variance))
    np.testing.assert_allclose(got, (x - m) / np.sqrt(v + (0.1 if attributes else 1e-5)) * s + b, rtol=1e-4, atol=1e-5)


def test_spatial_batch_norm_in_another_order_is_refused() -> None:
    proto = call('SpatialBN<order = "NHWC">(x, s, s, s, s)', "float[2, 4, 5, 3] x", s=example(0, 3))
    with pytest.raises(OpAttributeUnimplemented, match="attribute 'order': got 'NHWC'; supported: 'NCHW'"):
        import_model(proto)


def aten(operator: str, inputs: dict[str, Any], outputs: int = 1, domain: str = "", **attributes: Any) -> onnx.ModelProto:
    """A model of one node; arrays are weights, shapes are those of inputs."""
    names = [f"y{k}" for k in range(outputs)]
    node = helper.make_node("ATen", list(inputs), names, domain=domain, operator=operator, **attributes)
    given = [helper.make_tensor_value_info(n, 1, v) for n, v in inputs.items() if isinstance(v, list)]
    weights = [onnx.numpy_helper.from_array(v, n) for n, v in inputs.items() if isinstance(v, np.ndarray)]
    output = onnx.ValueInfoProto(name="y0")
    graph = helper.make_graph([node], "g", given, [output], weights)
    opsets = [helper.make_opsetid("", 11), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def integers(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("domain", ["", "org.pytorch.aten"])
def test_aten_size(domain: str) -> None:
    np.testing.assert_array_equal(run(aten("size", {"x": [2, 3]}, domain=domain), X)[0], [2, 3])
    for axis, expected in ((0, 2), (-1, 3)):
        (got,) = run(aten("size", {"x": ["n", 3], "axis": np.array(axis)}, domain=domain), X)
        assert got.shape == () and got.dtype == np.int64 and got == expected


def test_aten_arange() -> None:
    (got,) = run(aten("arange", {"a": np.array(1, np.int32), "b": np.array(8, np.int64), "c": np.array(3, np.int64)}))
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, [1, 4, 7])
    (got,) = run(aten("arange", {"a": np.array(1), "b": np.array(2.5, np.float32), "c": np.array(0.5, np.float32)}))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.array([1, 1.5, 2], np.float32))


def test_aten_reshape() -> None:
    np.testing.assert_array_equal(run(aten("reshape", {"x": [2, 3], "s": integers(3, -1)}), X)[0], X.reshape(3, 2))
    (got,) = run(aten("reshape", {"x": [2, 0], "s": integers(0, 5)}), X[:, :0])
    assert got.shape == (0, 5)


WEIGHT, INDICES, OFFSETS = example(7, 6, 4), integers(5, 0, 1, 1, 3, 2), integers(0, 2, 2, 5)


def bags(mode: int, ends: list[int], padding: int = -1) -> np.ndarray:
    """PyTorch's embedding_bag, bag by bag."""
    rows = []
    for first, last in zip([0, 2, 2, 5], ends):
        chosen = [WEIGHT[i] for i in INDICES[first:last] if i != padding]
        reduce = (np.sum, np.mean, np.max)[mode]
        rows.append(reduce(chosen, axis=0) if chosen else np.zeros(4, np.float32))
    return np.array(rows)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 1])
def test_aten_embedding_bag(mode: int, padding: int) -> None:
    inputs = {"w": ["rows", 4], "i": INDICES, "o": OFFSETS}
    attributes = {"mode": mode, "padding_idx": padding, "sparse": 0, "scale_grad_by_freq": 0}
    (got,) = run(aten("embedding_bag", inputs, outputs=4, **attributes, include_last_offset=0), WEIGHT)
    np.testing.assert_allclose(got, bags(mode, [2, 2, 5, 6], padding), rtol=1e-5, atol=1e-6)
    (got,) = run(aten("embedding_bag", inputs, outputs=4, **attributes, include_last_offset=1), WEIGHT)
    np.testing.assert_allclose(got, bags(mode, [2, 2, 5], padding), rtol=1e-5, atol=1e-6)


def test_what_embedding_bag_keeps_for_itself_is_refused_where_it_is_read() -> None:
    proto = aten("embedding_bag", {"w": ["rows", 4], "i": INDICES, "o": OFFSETS}, outputs=4)
    proto.graph.node.append(helper.make_node("Neg", ["y2"], ["z"], name="reader"))
    with pytest.raises(ImportModelError, match=r"'reader'.*value 'y2' is read: output 2 of node 'ATen_0', which its conversion"):
        import_model(proto)


@pytest.mark.parametrize("accumulate", [False, True])
def test_aten_index_put(accumulate: bool) -> None:
    x = example(1, 4, 5, 3)
    rows, columns, values = integers([0], [3]), integers(1, -1, 2), example(2, 3, 3)
    expected = x.copy()
    if accumulate:
        np.add.at(expected, (rows, columns), values)
    else:
        expected[rows, columns] = values
    inputs = {"x": ["n", 5, 3], "r": rows, "c": columns, "v": values, "a": np.array(accumulate)}
    np.testing.assert_allclose(run(aten("index_put", inputs), x)[0], expected, rtol=1e-6)


def test_aten_index_put_of_one_value_at_repeated_places() -> None:
    x = np.zeros((4, 2), np.float32)
    inputs = {"x": [4, 2], "r": integers(1, 1, 3), "v": np.array(2, np.float32), "a": np.array(1)}
    np.testing.assert_array_equal(run(aten("index_put", inputs), x)[0], [[0, 0], [4, 4], [0, 0], [2, 2]])


@pytest.mark.parametrize(
    ("proto", "error", "message"),
    [
        (aten("linalg_qr", {"x": [2, 3]}), OpAttributeUnimplemented,
         "got 'linalg_qr'; supported: arange, embedding_bag, index_put, reshape, size"),
        (aten("reshape", {"x": [2, 3]}), OpAttributeInvalid, "operator reshape: got 1 inputs; expected 2 to 2"),
        (aten("size", {"x": [2, 3]}, mode=1), OpAttributeInvalid, "operator size: got attribute 'mode'; expected one of: none"),
        (aten("embedding_bag", {"w": WEIGHT, "i": INDICES, "o": OFFSETS}, mode=3), OpAttributeInvalid,
         "operator embedding_bag: attribute 'mode': got 3; expected 0"),
        (aten("index_put", {"x": [2, 3], "m": np.array([True, False]), "v": X[0], "a": np.array(0)}), OpAttributeUnimplemented,
         "index_put: got a mask"),
        (aten("index_put", {"x": [2, 3], "v": X[0], "a": np.array(0)}), OpAttributeInvalid, "got 3 inputs; expected 4 or more"),
        (aten("index_put", {"x": [2, 3], "m": integers(1), "v": X[0], "a": [1]}), OpAttributeUnimplemented,
         "whether index_put accumulates is computed at run time"),
    ],
)
def test_aten_mistakes(proto: onnx.ModelProto, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        import_model(proto)


def test_they_compile() -> None:
    x = example(1, 2, 3, 4)
    proto = model("""g (float[n, 3, 4] x) => (y) {
        a = Affine<alpha = 2.0, beta = 1.0>(x)  t = ScaledTanh<alpha = 2.0>(a)  p = ParametricSoftplus(t)
        s = Scale<scale = 3.0>(p)  y = FC(s, w, b)
    }""", opset=11, w=example(2, 5, 12), b=example(3, 5))
    ir = IRModule(import_model(proto))
    np.testing.assert_allclose(
        ir.get_inference_function()(x), ir.get_inference_function("reference")(x), rtol=1e-4, atol=1e-4)
