"""Loops and branches whose values change size, length or rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import forge
from tests.frontends.onnx.support import assert_same, example, model, onnxruntime_outputs


def check(proto: onnx.ModelProto, *inputs: Any) -> list[np.ndarray]:
    """What onnxruntime gives, which Forge gives too: interpreted and compiled."""
    expected = onnxruntime_outputs(proto, *inputs)
    module = forge.from_onnx(proto)
    for target in ("reference", "llvm"):
        got = module.get_inference_function(target)(*inputs)
        assert_same(got if isinstance(got, list) else [got], expected)
    return expected


def test_a_loop_collects_parts_of_different_sizes() -> None:
    proto = model("""g (float[N, W] x, int64 n) => (float[N, V] y, float[N, L] last) {
        empty = SequenceEmpty()
        parts = Loop(n, , empty) <body = b (int64 i, bool c, seq(float[P, Q]) s) => (bool d, seq(float[P, Q]) t) {
            d = Identity(c)
            begin = Unsqueeze(i, zero)
            double = Add(begin, begin)
            end = Add(double, one)
            part = Slice(x, begin, end, one)
            t = SequenceInsert(s, part)
        }>
        y = ConcatFromSequence<axis=1>(parts)
        place = Constant<value_int=-1>()
        last = SequenceAt(parts, place)
    }""", zero=[0], one=[1])
    y, last = check(proto, example(0, 2, 9), np.array(3))
    assert y.shape == (2, 6) and last.shape == (2, 3)


@pytest.mark.parametrize(("position", "rows"), [(0, 1), (1, 2), (-1, 4), (7, 4)])
def test_a_slice_with_bounds_of_unknown_number(position: int, rows: int) -> None:
    """Bounds that are slices themselves, as torch exports EmbeddingBag: one of each, or none, which cuts nothing."""
    proto = model("""g (float[N, M] x, int64[1] i) => (float[P, Q] y) {
        next = Add(i, one)
        begin = Slice(begins, i, next)
        end = Slice(ends, i, next)
        y = Slice(x, begin, end)
    }""", begins=[1, 2], ends=[2, 9], one=[1])
    (y,) = check(proto, example(0, 4, 3), np.array([position]))
    assert y.shape == (rows, 3)


def test_a_slice_with_axes_has_as_many_bounds() -> None:
    proto = model("""g (float[N, M] x, int64[1] i) => (float[N, Q] y) {
        next = Add(i, one)
        begin = Slice(begins, i, next)
        y = Slice(x, begin, nine, axes)
    }""", begins=[1, 2], nine=[9], one=[1], axes=[1])
    (y,) = check(proto, example(0, 4, 3), np.array([1]))
    assert y.shape == (4, 1)
