"""Operators of StableHLO inside TFLite models, beside what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import forge
from forge import dtypes
from forge.errors import ForgeError, ImportModelError
from tests.frontends.tflite.writer import Graph, Tensor, model

RANDOM = np.random.default_rng(0)


def f32(*shape: int, low: float = -2, high: float = 2) -> np.ndarray:
    return RANDOM.uniform(low, high, shape).astype(np.float32)


@dataclass
class Row:
    """An operator, its operands (constants where they are lists), what it should give, and its body by a TFLite operator."""

    op: str
    operands: Sequence[Any]
    expected: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)
    body: str = ""


def unary(op: str, function: Callable[[np.ndarray], np.ndarray], low: float = -2) -> Row:
    x = f32(3, 4, low=low)
    return Row(op, [x], function(x))


def binary(op: str, function: Callable[[np.ndarray, np.ndarray], np.ndarray], dtype: str = "float32", low: float = -2) -> Row:
    a, b = (f32(3, 4, low=low).astype(dtype) for _ in range(2))
    return Row(op, [a, b], function(a, b).astype(a.dtype))


X = f32(3, 4)
IMAGE, KERNEL = f32(1, 5, 6, 2), f32(3, 2, 2, 4)
TABLE, OTHER = f32(5, 3), f32(3, 4)
ADDED = np.array([0, 2, 0, 0, 0], np.float32)[:, None]


def convolved() -> np.ndarray:
    out = np.zeros((1, 3, 5, 4), np.float32)
    for row in range(3):
        for column in range(5):
            out[0, row, column] = np.einsum("hwi,hwio->o", IMAGE[0, row : row + 3, column : column + 2], KERNEL)
    return out


CONVOLUTION = {
    "window_strides": [1, 1], "padding": [0, 0, 0, 0], "lhs_dilation": [1, 1], "rhs_dilation": [1, 1],
    "input_batch_dimension": 0, "input_feature_dimension": 3, "input_spatial_dimensions": [1, 2],
    "kernel_input_feature_dimension": 2, "kernel_output_feature_dimension": 3, "kernel_spatial_dimensions": [0, 1],
    "output_batch_dimension": 0, "output_feature_dimension": 3, "output_spatial_dimensions": [1, 2], "feature_group_count": 1,
    "batch_group_count": 1}
ROWS = [
    unary("ABS", np.abs), unary("CBRT", np.cbrt), unary("COSINE", np.cos), unary("EXPONENTIAL", np.exp),
    unary("FLOOR", np.floor), unary("LOG", np.log, 0.1), unary("LOGISTIC", lambda x: 1 / (1 + np.exp(-x))),
    unary("NEGATE", np.negative), unary("RSQRT", lambda x: 1 / np.sqrt(x), 0.1), unary("TANH", np.tanh),
    binary("ADD", np.add), binary("SUBTRACT", np.subtract), binary("MULTIPLY", np.multiply), binary("DIVIDE", np.divide, low=0.5),
    binary("MAXIMUM", np.maximum), binary("MINIMUM", np.minimum), binary("POWER", np.power, low=0.1),
    binary("REMAINDER", np.fmod, low=0.5), binary("AND", np.bitwise_and, "int32"), binary("OR", np.bitwise_or, "int32"),
    binary("SHIFT_LEFT", np.left_shift, "int32", 0),
    Row("CLAMP", [np.float32(-1), X, np.float32(1)], np.clip(X, -1, 1)),
    Row("SELECT", [X > 0, X, -X], np.abs(X)),
    Row("COMPARE", [X, OTHER], np.greater_equal(X, OTHER), {"comparison_direction": "GE"}),
    Row("CONVERT", [X], X.astype(np.int32)),
    Row("RESHAPE", [X], X.reshape(2, 6)),
    Row("TRANSPOSE", [X], X.T, {"permutation": [1, 0]}),
    Row("CONCATENATE", [X, X[:1]], np.concatenate([X, X[:1]]), {"dimension": 0}),
    Row("BROADCAST_IN_DIM", [X[0]], np.broadcast_to(X[0], (2, 4)), {"broadcast_dimensions": [1]}),
    Row("SLICE", [X], X[1:3, 0:4:2], {"start_indices": [1, 0], "limit_indices": [3, 4], "strides": [1, 2]}),
    Row("PAD", [X, np.float32(7)], np.pad(X, ((1, 0), (0, 2)), constant_values=7),
        {"edge_padding_low": [1, 0], "edge_padding_high": [0, 2], "interior_padding": [0, 0]}),
    Row("DYNAMIC_SLICE", [X, np.int32(1), np.int32(9)], X[1:3, 2:4], {"slice_sizes": [2, 2]}),
    Row("DYNAMIC_UPDATE_SLICE", [X, OTHER[:1], np.int32(2), np.int32(0)], np.concatenate([X[:2], OTHER[:1]])),
    Row("IOTA", [], np.broadcast_to(np.arange(3, dtype=np.int32)[:, None], (3, 2)), {"iota_dimension": 0}),
    Row("DOT_GENERAL", [X, f32(4, 5)], np.empty((3, 5)), {"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0]}),
    Row("CONVOLUTION", [IMAGE, KERNEL], convolved(), CONVOLUTION),
    Row("GATHER", [TABLE, np.array([[4], [0]], np.int32)], TABLE[[4, 0]],
        {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1, "slice_sizes": [1, 3]}),
    Row("SCATTER", [TABLE, np.array([[1], [1]], np.int32), np.ones((2, 3), np.float32)], np.add(TABLE, ADDED),
        {"update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1},
        "ADD"),
    Row("REDUCE", [X, np.float32(-9)], X.max(1), {"dimensions": [1]}, "STABLEHLO_MAXIMUM"),
    Row("REDUCE_WINDOW", [X, np.float32(0)], X[:, ::2] + X[:, 1::2],
        {"window_dimensions": [1, 2], "window_strides": [1, 2], "padding": [0, 0, 0, 0]}, "ADD"),
    Row("SORT", [X], np.sort(X, 1), {"dimension": 1, "is_stable": True}, "LESS"),
]  # fmt: skip
ROWS[[row.op for row in ROWS].index("DOT_GENERAL")].expected = X @ ROWS[[r.op for r in ROWS].index("DOT_GENERAL")].operands[1]
BODIES = {"SCATTER": "update_computation_subgraph_index", "SORT": "comparator_subgraph_index"}


def tensor_like(graph: Graph, value: np.ndarray, is_input: bool) -> Tensor:
    make = graph.input if is_input else graph.tensor
    return make(value.shape, dtypes.canonical(value.dtype))


def made(row: Row) -> bytes:
    main, graphs = Graph(), []
    operands = [tensor_like(main, np.asarray(v), True) for v in row.operands]
    main.outputs = [tensor_like(main, np.asarray(row.expected), False)]
    options = dict(row.options)
    if row.body:
        options[BODIES.get(row.op, "body_subgraph_index")] = 1
        body = Graph("body")
        pair = [body.input((), "float32") for _ in range(2)]
        body.outputs = list(body.op(row.body, pair, [body.tensor((), "bool" if row.body == "LESS" else "float32")]))
        graphs.append(body)
    main.op(f"STABLEHLO_{row.op}", operands, main.outputs, **options)
    return model(main, *graphs)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.op)
def test_operators(row: Row) -> None:
    ir = forge.from_tflite(made(row))
    for how in (("reference",), ()):
        found = ir.get_inference_function(*how)(*row.operands)
        assert found.dtype == (row.expected.dtype if row.expected.dtype != np.float64 else np.float32)
        np.testing.assert_allclose(found, row.expected, rtol=2e-5, atol=1e-6)


def test_random_bits() -> None:
    main = Graph()
    state = main.input((2,), "uint64")
    main.outputs = [main.tensor((2,), "uint64"), main.tensor((3, 4), "uint32")]
    main.op("STABLEHLO_RNG_BIT_GENERATOR", [state], main.outputs, algorithm="PHILOX")
    run = forge.from_tflite(model(main)).get_inference_function()
    after, bits = run(np.array([1, 2], np.uint64))
    assert bits.shape == (3, 4) and len(np.unique(bits)) > 6 and not np.array_equal(after, [1, 2])


def test_a_custom_call_is_refused_by_its_target() -> None:
    main = Graph()
    x = main.input((2,))
    main.outputs = list(main.op("STABLEHLO_CUSTOM_CALL", [x], [main.tensor((2,))], call_target_name="acme.f"))
    with pytest.raises(ForgeError, match=r"acme\.f"):
        forge.from_tflite(model(main))


def test_a_body_of_other_operators_is_refused() -> None:
    row = Row("REDUCE", [X, np.float32(0)], X.sum(1), {"dimensions": [1]}, "ATAN2")
    with pytest.raises(ForgeError, match="ATAN2 inside the body of a StableHLO operator"):
        forge.from_tflite(made(row))


def test_bodies_do_not_contain_themselves() -> None:
    main, body = Graph(), Graph("body")
    x, start = main.input((3, 4)), main.input(())
    main.outputs = list(main.op("STABLEHLO_REDUCE", [x, start], [main.tensor((3,))], dimensions=[1], body_subgraph_index=1))
    pair = [body.input(()) for _ in range(2)]
    body.outputs = list(body.op("STABLEHLO_REDUCE", pair, [body.tensor(())], dimensions=[], body_subgraph_index=1))
    with pytest.raises(ImportModelError, match="nested more than 64 deep"):
        forge.from_tflite(model(main, body))
