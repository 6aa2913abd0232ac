"""Windows: padding, pools and folds against torch and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import windows
from forge.dims import symbol
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import run, run_compiled

rng = np.random.default_rng(17)


def draw(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("sizes", "kernel", "strides", "dilations", "upper", "wanted"),
    [
        ((5,), (3,), (1,), (1,), True, (1, 1)),
        ((5,), (2,), (1,), (1,), True, (0, 1)),
        ((5,), (2,), (1,), (1,), False, (1, 0)),
        ((7, 8), (3, 4), (2, 3), (1, 1), True, (1, 1, 1, 1)),
        ((7,), (3,), (1,), (2,), True, (2, 2)),
        ((4,), (1,), (2,), (1,), True, (0, 0)),
    ],
)
def test_same_padding(sizes: Any, kernel: Any, strides: Any, dilations: Any, upper: bool, wanted: Any) -> None:
    assert windows.same_padding(sizes, kernel, strides, dilations, upper) == wanted


def test_same_padding_of_a_symbol_by_one_does_not_depend_on_it() -> None:
    assert windows.same_padding([symbol("n")], [3], [1], [1]) == (1, 1)


def test_transposed_padding_reaches_the_wanted_size() -> None:
    assert windows.transposed_padding([4], [3], [2], [1], [0], [8], True) == ((0, 1), (0,))
    assert windows.transposed_padding([4], [3], [2], [1], [0], [10], True) == ((0, 0), (1,))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pools(p: int) -> None:
    torch = pytest.importorskip("torch")
    x = draw(2, 3, 6, 5)
    wanted = torch.nn.functional.lp_pool2d(torch.from_numpy(np.abs(x)), p, (2, 3), 1).numpy()
    (got,) = run(lambda g, v: windows.lp_pool(g, v, p, pool_size=(2, 3), strides=(1, 1)), x)
    check(got, wanted, Accuracy.ACCUMULATING)
    (total,) = run(lambda g, v: windows.global_lp_pool(g, v, p), x, symbolic=True)
    check(total, (np.abs(x) ** p).sum((2, 3), keepdims=True) ** np.float32(1 / p), Accuracy.ACCUMULATING)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 4, 2)])
def test_global_pools(shape: tuple[int, ...]) -> None:
    x = draw(*shape)
    axes = tuple(range(2, x.ndim))
    check(run(lambda g, v: windows.global_pool(g, v, "avg"), x)[0], x.mean(axes, keepdims=True), Accuracy.ACCUMULATING)
    check(run(lambda g, v: windows.global_pool(g, v, "max"), x)[0], x.max(axes, keepdims=True), Accuracy.EXACT)


def test_unpooled_elements_are_where_they_were() -> None:
    torch = pytest.importorskip("torch")
    x = draw(1, 1, 4, 6)
    pooled, indices = torch.nn.functional.max_pool2d(torch.from_numpy(x), 2, return_indices=True)
    wanted = torch.nn.functional.max_unpool2d(pooled, indices, 2).numpy()
    (got,) = run_compiled(lambda g, v, i: windows.max_unpool(g, v, i, x.shape), pooled.numpy(), indices.numpy())
    assert np.array_equal(got, wanted)

    def larger(g: Composer, v: Value, i: Value, sizes: Value) -> Value:
        return windows.max_unpool(g, v, i, x.shape, sizes, moves=True)

    (grown,) = run(larger, pooled.numpy(), indices.numpy(), np.array([1, 1, 5, 8]))
    assert np.array_equal(grown[:, :, :4, :6], wanted)
    assert not grown[:, :, 4:].any()


@pytest.mark.parametrize(
    ("image", "block", "stride", "pad", "dilation"),
    [((5, 6), (2, 3), 1, 0, 1), ((5, 6), (2, 3), 2, 1, 1), ((7, 7), (3, 2), 1, 2, 2)],
)
def test_folds_whose_window_arrives_at_run_time(image: Any, block: Any, stride: int, pad: int, dilation: int) -> None:
    torch = pytest.importorskip("torch")
    options = {"stride": stride, "padding": pad, "dilation": dilation}
    columns = torch.nn.functional.unfold(torch.from_numpy(draw(2, 3, *image)), block, **options)
    wanted = torch.nn.functional.fold(columns, image, block, **options).numpy()

    def compose(g: Composer, x: Value, sizes: Value, taps: Value) -> Value:
        return windows.fold(g, x, sizes, taps, strides=[stride] * 2, padding=[pad] * 4, dilations=[dilation] * 2)

    operands = (columns.numpy(), np.array(image), np.array(block))
    check(run(compose, *operands)[0], wanted, Accuracy.ACCUMULATING)
    check(run_compiled(compose, *operands)[0], wanted, Accuracy.ACCUMULATING)
