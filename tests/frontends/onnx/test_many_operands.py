"""Operators with very many operands, of which few are different."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import forge
from forge.frontends.onnx import import_model
from tests.frontends.onnx.support import evaluate, example, ops


def repeated(op: str, *operands: str, kind: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
    names = list(dict.fromkeys(operands))
    inputs = [onnx.helper.make_tensor_value_info(name, kind, [4]) for name in names]
    node = onnx.helper.make_node(op, list(operands), ["y"])
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.helper.make_tensor_value_info("y", kind, [4])])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=8)


def test_a_sum_of_a_hundred_thousand_operands_is_a_few_nodes() -> None:
    proto = repeated("Sum", *["x"] * 100_000)
    assert len(ops(import_model(proto))) < 40
    x = np.array([0.1, -1.5, 3e10, 0.0], np.float32)
    np.testing.assert_allclose(forge.from_onnx(proto).get_inference_function()(x), 1e5 * x.astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize(("op", "meaning"), [("Sum", np.sum), ("Max", np.max), ("Min", np.min), ("Mean", np.mean)])
@pytest.mark.parametrize("count", [1, 2, 64, 65, 199])
def test_operands_in_any_order(op: str, meaning: Any, count: int) -> None:
    names = [f"x{k * k % 7}" for k in range(count)]
    values = {name: example(k, 4) for k, name in enumerate(dict.fromkeys(names))}
    module = import_model(repeated(op, *names))
    expected = meaning(np.stack([values[name] for name in names]).astype(np.float64), axis=0)
    np.testing.assert_allclose(evaluate(module, *values.values())[0], expected, rtol=1e-5, atol=1e-5)


def test_few_operands_are_added_in_order() -> None:
    module = import_model(repeated("Sum", *["x"] * 64))
    assert ops(module).count("add") == 63


def test_integers_wrap_as_they_do_in_order() -> None:
    module = import_model(repeated("Sum", *["x"] * 1000, kind=onnx.TensorProto.INT8), opset=13)
    x = np.array([1, 100, -128, 0], np.int8)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(evaluate(module, x)[0], (x.astype(np.int64) * 1000).astype(np.int8))
