"""Constant operands by their channels."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.builder import Builder
from forge.ir.interp import run_graph
from forge.ir.types import TensorType
from forge.quantization.weights.channels import ChannelOperand, along, from_rows, parameters_of, rows_of


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows_and_back(axis: int) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    rows = rows_of(array, axis)
    assert [row.tolist() for row in rows] == [np.take(array, k, axis).ravel().tolist() for k in range(array.shape[axis])]
    np.testing.assert_array_equal(from_rows(rows, array.shape, axis), array)


def test_a_vector_broadcasts_along_an_axis() -> None:
    assert along(1, 3) == [1, -1, 1] and along(-1, 2) == [1, -1]


@pytest.mark.parametrize("shape", [(4,), (1,), (3, 4)])
def test_constants_are_multiplied(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    b, old, factors = Builder(), rng.standard_normal(shape).astype(np.float32), np.array([1, 2, 4, 0.5])
    x = b.input(TensorType((3, 4), "float32"), "x")
    graph = b.output(b.call("add", x, b.constant(old, name="c")))
    add = graph.outputs[0].producer
    assert add is not None
    ChannelOperand(add, 1, -1).multiply(factors)
    data = rng.standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_allclose(run_graph(graph, [data])[0], data + old * factors, rtol=1e-6)
    made = add.operands[1]
    assert made is not None and made.name == "c" and made.dtype == "float32"


@pytest.mark.parametrize(("op", "attributes", "positions"), [
    ("nn.layer_norm", {"axis": -1}, [1, 2]), ("nn.rms_norm", {"axis": 1}, [1]), ("nn.layer_norm", {"axis": 0}, None),
    ("nn.layer_norm", {"axis": -1, "scale": False}, None),
])
def test_parameters_of_normalizations(op: str, attributes: dict[str, object], positions: list[int] | None) -> None:
    b = Builder()
    x = b.input(TensorType((3, 4), "float32"), "x")
    parameters = [b.constant(np.ones(4, np.float32)) for _ in range(2 if op == "nn.layer_norm" else 1)]
    node = b.call(op, x, *parameters, **attributes).producer
    assert node is not None
    found = parameters_of(node)
    assert (None if found is None else [p.position for p in found]) == positions
