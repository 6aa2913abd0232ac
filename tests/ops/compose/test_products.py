"""Products of operands of any rank, exact integer arithmetic and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import quantized
from forge.compose.products import accumulated, kron, matmul, tensordot
from forge.compose.randomness import dropout
from forge.errors import OpAttributeInvalid
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import build, run, run_compiled

rng = np.random.default_rng(41)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("a", "b"),
    [((4,), (4,)), ((4,), (4, 3)), ((3, 4), (4,)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((5, 1, 3, 4), (2, 4, 3)),
     ((4,), (2, 4, 3))],
)
def test_products_are_those_of_numpy(a: Any, b: Any, symbolic: bool) -> None:
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in (a, b))
    check(run(matmul, x, y, symbolic=symbolic)[0], np.matmul(x, y), Accuracy.ACCUMULATING)


def test_products_of_scalars_are_refused() -> None:
    with pytest.raises(OpAttributeInvalid, match="got a scalar"):
        build(matmul, [np.float32(1), np.ones(3, np.float32)])


@pytest.mark.parametrize(("a", "b"), [((2, 3), (4, 5)), ((3,), (2, 2)), ((2, 1, 3), (4,))])
def test_kronecker_products(a: Any, b: Any) -> None:
    x, y = (rng.integers(-5, 5, shape) for shape in (a, b))
    assert np.array_equal(run(kron, x, y)[0], np.kron(x, y))
    assert np.array_equal(run(kron, x > 0, y > 0)[0], np.kron(x > 0, y > 0))


def test_sums_over_pairs_of_axes() -> None:
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4), (4, 5, 2)))
    (got,) = run(lambda g, a, b: tensordot(g, a, b, (2, 0), (0, 2)), x, y)
    check(got, np.tensordot(x, y, ((2, 0), (0, 2))), Accuracy.ACCUMULATING)


def test_a_base_that_counts_0_times_is_not_read() -> None:
    x, nan = np.ones((2, 2), np.float32), np.full((2, 2), np.nan, np.float32)
    assert np.array_equal(run(lambda g, p, b: accumulated(g, p, b, alpha=3, beta=0), x, nan)[0], 3 * x)
    assert np.array_equal(run(lambda g, p, b: accumulated(g, p, b, alpha=3, beta=2), x, x)[0], 5 * x)


def test_integers_are_exact() -> None:
    a, b = rng.integers(0, 256, (3, 64)).astype(np.uint8), rng.integers(-128, 128, (64, 5)).astype(np.int8)
    rows, columns = np.array([0, 128, 255], np.uint8), np.array([-128, 0, 1, 2, 127], np.int8)

    def compose(g: Composer, a: Value, b: Value, za: Value, zb: Value) -> Value:
        return matmul(g, quantized.centred_rows(g, a, za), quantized.centred(g, b, zb))

    wanted = (a.astype(np.int32) - rows[:, None]) @ (b.astype(np.int32) - columns)
    assert np.array_equal(run_compiled(compose, a, b, rows, columns)[0], wanted)


def test_results_are_rounded_to_even_and_saturate() -> None:
    total = np.array([-1000, -3, -1, 1, 3, 5, 1000], np.int32)

    def compose(g: Composer, total: Value, s: Value, y: Value, z: Value) -> Value:
        return quantized.requantized(g, total, (s, s), y, z)

    (got,) = run(compose, total, np.float32(1), np.float32(2), np.uint8(10))
    assert got.tolist() == [0, 8, 10, 10, 12, 12, 255]


def test_parameters_of_blocks_and_axes() -> None:
    x = np.zeros((2, 5), np.float32)
    (blocks,) = run(lambda g, s, v: quantized.spread(g, s, v, 1, 2), np.arange(6.0).reshape(2, 3), x)
    assert blocks.tolist() == [[0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]
    (axis,) = run(lambda g, s, v: quantized.spread(g, s, v, 0, 0), np.array([1.0, 2.0]), x)
    assert axis.shape == (2, 1)


def test_dropout_keeps_a_share_and_scales_it() -> None:
    x = np.ones((100, 100), np.float32)
    out, mask = run_compiled(lambda g, v, r: dropout(g, v, r, seed=7), x, np.float32(0.25))
    assert abs(mask.mean() - 0.75) < 0.02
    assert np.array_equal(out, np.where(mask, np.float32(1 / 0.75), 0))


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_on_in_training_only(training: bool) -> None:
    x = rng.standard_normal((8, 8)).astype(np.float32)

    def compose(g: Composer, x: Value, r: Value, t: Value) -> Any:
        return dropout(g, x, r, seed=1, training=t)

    out, mask = run(compose, x, np.float32(0.5), np.array(training))
    assert mask.all() != training
    assert np.array_equal(out, np.where(mask, x * 2, 0) if training else x)
