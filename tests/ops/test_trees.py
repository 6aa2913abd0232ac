"""What ``tree_ensemble`` refuses: tables whose indices would lead out of memory, or that are not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.types import TensorType

NAN_BITS = int(np.array(np.nan, np.float32).view(np.int32))
NODES = [[1, 1, 0, 0], [0, 0, NAN_BITS, 0], [0, 1, NAN_BITS, 1]]


def call(nodes: Any = NODES, roots: Any = (0,), weights: Any = ((1,), (2,)), columns: int = 2, **changes: Any) -> None:
    builder = Builder()
    data = builder.input(TensorType((4, columns), changes.pop("dtype", "float32")))
    tables = [np.array(nodes, np.int32), np.array(roots, np.int64), np.array(weights, np.float32)]
    tables += [np.array(t, np.int64) for t in changes.pop("entries", ())]
    builder.call("tree_ensemble", data, *map(builder.constant, tables), **{"targets": 1, "features": 2, "steps": 1} | changes)


def test_accepts_this() -> None:
    call()


def changed(node: int, column: int, value: int) -> list[list[int]]:
    return [[value if (n, c) == (node, column) else x for c, x in enumerate(row)] for n, row in enumerate(NODES)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": changed(0, 0, 2)}, "features of nodes; got 0 to 2; expected 0 to 1"),
        ({"nodes": changed(0, 1, 2)}, "children of nodes; got 1 to 3; expected 0 to 2"),
        ({"nodes": changed(0, 1, -1)}, "children of nodes; got -1; expected at least 0, but for nodes with threshold NaN"),
        ({"nodes": changed(2, 3, 2)}, "leaves of nodes; got 0 to 2; expected 0 to 1"),
        ({"nodes": [1, 2]}, r"operand 'nodes'; got int32 of shape \(2,\); expected int32 of shape \(nodes, 4\)"),
        ({"dtype": "float64"}, "operand 'nodes'; got int32 .* expected int64"),
        ({"dtype": "int32"}, "operand 'data' has the wrong element type"),
        ({"roots": [3]}, "roots; got 3 to 3; expected 0 to 2"),
        ({"roots": [[0]]}, "operand 'roots'; got int64 of shape"),
        ({"weights": [[1, 2], [3, 4]]}, r"shape of weights; got \(2, 2\); expected \(leaves, 1\)"),
        ({"columns": 1}, "columns of data; got 1; expected at least 2"),
        ({"aggregate": "mean"}, "attribute aggregate; got 'mean'"),
        ({"aggregate": "min", "weights": [[1], [np.inf]]}, "weights; got NaN or infinity; expected finite ones for min"),
        ({"steps": -1}, "attributes; got .*steps=-1"),
        ({"weights": [1, 2], "entries": [[0, 0]]}, "operands entry_targets and offsets; got one of them"),
        ({"weights": [1, 2], "entries": [[0], [0, 1, 2]]}, "weights, entry_targets and offsets; got"),
        ({"weights": [1, 2], "entries": [[0, 1], [0, 1, 2]]}, "entry_targets; got 0 to 1; expected 0 to 0"),
        ({"weights": [1, 2], "entries": [[0, 0], [0, 1, 3]]}, "offsets; got 0 to 3; expected ascending ones from 0 to 2"),
        ({"weights": [1, 2], "entries": [[0, 0], [0, 2, 1]]}, "offsets; got 0 to 1; expected ascending ones from 0 to 2"),
    ],
)
def test_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        call(**options)


def test_refuses_tables_that_are_computed() -> None:
    builder = Builder()
    data, nodes = builder.input(TensorType((4, 2), "float32")), builder.input(TensorType((3, 4), "int32"))
    roots, weights = builder.constant(np.zeros(1, np.int64)), builder.constant(np.ones((1, 1), np.float32))
    with pytest.raises(TypeInferenceError, match="operand 'nodes'; got a computed value; expected a constant"):
        builder.call("tree_ensemble", data, nodes, roots, weights, targets=1, features=1, steps=1)
