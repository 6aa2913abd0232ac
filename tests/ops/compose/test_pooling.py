"""Pools against torch and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from forge.compose import pooling
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import run, run_compiled

rng = np.random.default_rng(17)


def draw(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pools(p: int) -> None:
    torch = pytest.importorskip("torch")
    x = draw(2, 3, 6, 5)
    wanted = torch.nn.functional.lp_pool2d(torch.from_numpy(np.abs(x)), p, (2, 3), 1).numpy()
    (got,) = run(lambda g, v: pooling.lp_pool(g, v, p, pool_size=(2, 3), strides=(1, 1)), x)
    check(got, wanted, Accuracy.ACCUMULATING)
    (total,) = run(lambda g, v: pooling.global_lp_pool(g, v, p), x, symbolic=True)
    check(total, (np.abs(x) ** p).sum((2, 3), keepdims=True) ** np.float32(1 / p), Accuracy.ACCUMULATING)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 4, 2)])
def test_global_pools(shape: tuple[int, ...]) -> None:
    x = draw(*shape)
    axes = tuple(range(2, x.ndim))
    check(run(lambda g, v: pooling.global_pool(g, v, "avg"), x)[0], x.mean(axes, keepdims=True), Accuracy.ACCUMULATING)
    check(run(lambda g, v: pooling.global_pool(g, v, "max"), x)[0], x.max(axes, keepdims=True), Accuracy.EXACT)


def test_unpooled_elements_are_where_they_were() -> None:
    torch = pytest.importorskip("torch")
    x = draw(1, 1, 4, 6)
    pooled, indices = torch.nn.functional.max_pool2d(torch.from_numpy(x), 2, return_indices=True)
    wanted = torch.nn.functional.max_unpool2d(pooled, indices, 2).numpy()
    (got,) = run_compiled(lambda g, v, i: pooling.max_unpool(g, v, i, x.shape), pooled.numpy(), indices.numpy())
    assert np.array_equal(got, wanted)

    def larger(g: Composer, v: Value, i: Value, sizes: Value) -> Value:
        return pooling.max_unpool(g, v, i, x.shape, sizes, moves=True)

    (grown,) = run(larger, pooled.numpy(), indices.numpy(), np.array([1, 1, 5, 8]))
    assert np.array_equal(grown[:, :, :4, :6], wanted)
    assert not grown[:, :, 4:].any()


def test_means_of_integers_are_rounded_towards_0() -> None:
    x = rng.integers(-9, 9, (2, 3, 5, 5))
    window = {"pool_size": (2, 2), "strides": (2, 2), "padding": (0, 0), "dilation": (1, 1), "ceil_mode": True}
    (got,) = run(lambda g, v: pooling.avg_pool(g, v, window, (3, 3), count_include_pad=False), x)
    blocks = [[x[:, :, a : a + 2, b : b + 2] for b in (0, 2, 4)] for a in (0, 2, 4)]
    wanted = np.stack([np.stack([np.trunc(block.mean((2, 3))) for block in row], -1) for row in blocks], -2)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("counts", [(2, 3), (3, 4)])
def test_largest_of_cells_and_their_places(counts: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    x = draw(2, 3, 6, 9)
    wanted = torch.nn.functional.adaptive_max_pool2d(torch.from_numpy(x), counts, return_indices=True)
    for got, expected in zip(run(lambda g, v: pooling.adaptive_max_pool_with_indices(g, v, counts), x), wanted, strict=True):
        assert np.array_equal(got, expected.numpy())
