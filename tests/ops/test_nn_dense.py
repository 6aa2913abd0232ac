"""Matrix products, packed forms and small neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import TypeInferenceError
from forge.ir.op import get_op
from tests.ops.nn_check import check, random, single


@pytest.mark.parametrize("shape", [(7,), (4, 7), (2, 3, 7)])
def test_dense(shape: tuple[int, ...]) -> None:
    x, w = random(*shape), random(5, 7, seed=1)
    np.testing.assert_allclose(check("nn.dense", [x, w], units=5), x @ w.T, rtol=1e-5, atol=1e-5)


def test_dense_of_symbolic_rows_and_integers() -> None:
    check("nn.dense", [random(3, 7), random(5, 7)], [("n", 7), None])
    got = check("nn.dense", [random(3, 7, dtype="uint8"), random(5, 7, dtype="int8")], out_dtype="int32")
    assert got.dtype == np.int32


@pytest.mark.parametrize(("units", "panel"), [(8, 4), (10, 4), (3, 16)])
def test_packed_dense_equals_dense(units: int, panel: int) -> None:
    x, w = random(2, 3, 7), random(units, 7, seed=1)
    padded = np.pad(w, ((0, -units % panel), (0, 0)))
    packed = np.ascontiguousarray(padded.reshape(-1, panel, 7).transpose(0, 2, 1))
    got = check("nn.contrib_dense_pack", [x, packed], units=units)
    np.testing.assert_allclose(got, x @ w.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_broadcasts_and_transposes(transpose_a: bool, transpose_b: bool) -> None:
    a, b = random(2, 1, 4, 5), random(3, 5, 6, seed=1)
    left = np.ascontiguousarray(a.swapaxes(-1, -2)) if transpose_a else a
    right = np.ascontiguousarray(b.swapaxes(-1, -2)) if transpose_b else b
    got = check("nn.matmul", [left, right], transpose_a=transpose_a, transpose_b=transpose_b)
    np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-5)


def test_batch_matmul() -> None:
    a, b = random(3, 4, 5), random(3, 6, 5, seed=1)
    got = check("nn.batch_matmul", [a, b], [("b", "m", 5), ("b", 6, 5)], transpose_b=True)
    np.testing.assert_allclose(got, a @ b.swapaxes(1, 2), rtol=1e-5, atol=1e-5)
    assert check("nn.matmul", [random(2, 3, dtype="bfloat16"), random(3, 2, dtype="bfloat16")]).dtype.name == "bfloat16"


@pytest.mark.parametrize("axis", [1, -1, 0])
def test_bias_add(axis: int) -> None:
    x = random(4, 4, 4)
    b = random(4, seed=1)
    expected = x + b.reshape([-1 if k == axis % 3 else 1 for k in range(3)])
    np.testing.assert_array_equal(check("nn.bias_add", [x, b], axis=axis), expected)


def test_batch_flatten_and_dropout() -> None:
    x = random(2, 3, 4, 5)
    np.testing.assert_array_equal(check("nn.batch_flatten", [x], [("n", 3, "h", 5)]), x.reshape(2, 60))
    assert check("nn.batch_flatten", [random(3)]).shape == (3, 1)
    np.testing.assert_array_equal(check("nn.dropout", [x], rate=0.2), x)


def test_costs() -> None:
    def cost(op: str, shapes: list[tuple[int, ...]], **attrs: Any) -> int:
        node = single(op, [random(*s) for s in shapes], **attrs).nodes[0]
        return node.op_def.flops(node.attrs, [v.type for v in node.results], *node.operands)  # type: ignore[attr-defined]

    assert cost("nn.dense", [(4, 7), (5, 7)]) == 2 * 4 * 5 * 7
    assert cost("nn.matmul", [(2, 7, 4), (7, 5)], transpose_a=True) == 2 * 2 * 4 * 5 * 7
    assert cost("nn.conv2d", [(1, 4, 8, 8), (6, 2, 3, 3)], groups=2, padding=(1, 1)) == 2 * 6 * 64 * 2 * 9
    assert cost("nn.conv2d_transpose", [(1, 4, 8, 8), (4, 3, 2, 2)], strides=(2, 2)) == 2 * 4 * 64 * 3 * 4
    assert get_op("nn.contrib_dense_pack").kernel == "dense_pack"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        ("nn.dense", [(2, 3), (4, 5)], {}, "last axis of data"),
        ("nn.dense", [(2, 3), (4, 3)], {"units": 5}, "rows of the weight"),
        ("nn.matmul", [(3,), (3, 4)], {}, "rank of a; got 1; expected at least 2"),
        ("nn.matmul", [(2, 3), (4, 5)], {}, "summed axis"),
        ("nn.matmul", [(2, 2, 3), (3, 3, 5)], {}, "broadcast"),
        ("nn.bias_add", [(2, 3), (4,)], {}, "bias against axis 1"),
        ("nn.bias_add", [(2, 3), (3,)], {"axis": 2}, "axis"),
        ("nn.contrib_dense_pack", [(2, 3), (2, 3, 4)], {"units": 9}, "panels"),
    ],
)
def test_mistakes_are_named(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        single(op, [random(*s) for s in shapes], **attrs)
