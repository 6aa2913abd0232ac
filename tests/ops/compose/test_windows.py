"""Windows: padding and folds against torch and loops."""

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
