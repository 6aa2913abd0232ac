"""Blocks of which the last is not whole."""

from __future__ import annotations

import numpy as np
import pytest

from forge import te
from forge.schedule.blocks import linear
from forge.tir import expr as E
from forge.tir.visit import nodes, roots
from tests.schedule.support import TARGETS, function_for, run, truth


def blocked(channels: int, block: int, rows: int) -> tuple[te.Tensor, te.Tensor]:
    """``[channels, rows]`` in blocks of channels, with zeros after the last, and one more everywhere."""
    data = te.placeholder((te.const(channels), te.const(rows)), "float32", "data")

    def body(outer: te.Expr, row: te.Expr, inner: te.Expr) -> te.Expr:
        channel = outer * block + inner
        inside = channel < channels
        return te.select(inside, data[te.clamp(channel, te.const(channels)), row], te.const(0, "float32")) + 1.0

    count = -(-channels // block)
    return data, te.compute((te.const(count), te.const(rows), te.const(block)), body, name="blocked")


@TARGETS
@pytest.mark.parametrize(
    ("channels", "block", "rows"), [(61, 16, 40), (3, 16, 7), (17, 16, 5), (15, 4, 33), (32, 16, 3), (9, 2, 4)])
def test_results(target: str, channels: int, block: int, rows: int) -> None:
    data, result = blocked(channels, block, rows)
    x = np.random.default_rng(0).standard_normal((channels, rows)).astype(np.float32)
    (got,) = run([result], {data: x}, target)
    np.testing.assert_array_equal(got, truth([result], {data: x})[0])


@pytest.mark.parametrize("channels", [61, 3, 17])
def test_no_condition_is_left(channels: int) -> None:
    data, result = blocked(channels, 16, 40)
    body = function_for([data], [result], "llvm -mcpu=x86-64-v3").body
    assert not [x for root in roots(body) for x in nodes(root) if isinstance(x, E.Select)]


def test_linear_sums() -> None:
    a, b = E.var("a"), E.var("b")
    assert linear(a * 3 - (b - 2) * 4) == {a: 3, b: -4, None: 8}
    assert linear(E.cast(a, "int32") * -1) == {a: -1}
    assert linear(a * b) is None and linear(a // 2) is None
