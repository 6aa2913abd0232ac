"""Conditions on sizes that types leave open are checked when the model runs."""

from __future__ import annotations

import numpy as np
import pytest

from forge.driver import compile_module
from forge.ir.parser import parse_module
from forge_runtime import ExecutionError


def runtime(text: str):  # type: ignore[no-untyped-def]
    return compile_module(parse_module(text)).runtime()


def test_broadcasting_of_unrelated_symbols() -> None:
    run = runtime("""def @main(%x: Tensor[(n), float32], %y: Tensor[(m), float32]) {
      %0 = broadcast_to(%x, shape=[m]);
      add(%0, %y)
    }""")
    x, y = np.arange(3, dtype="float32"), np.ones(3, "float32")
    np.testing.assert_array_equal(run(x, y), x + y)
    np.testing.assert_array_equal(run(x[:1], y), x[:1] + y)
    with pytest.raises(ExecutionError, match="does not broadcast"):
        run(x[:2], y)


def test_a_view_must_keep_the_number_of_elements() -> None:
    run = runtime("""def @main(%x: Tensor[(n), float32], %y: Tensor[(m, 2), float32]) {
      %0 = reshape(%x, newshape=[m, 2]);
      add(%0, %y)
    }""")
    x, y = np.arange(6, dtype="float32"), np.ones((3, 2), "float32")
    np.testing.assert_array_equal(run(x, y), x.reshape(3, 2) + y)
    with pytest.raises(ExecutionError, match=r"2\*m elements differ from the n of its operand"):
        run(x[:4], y)


def test_top_k_needs_k_elements() -> None:
    run = runtime("def @main(%x: Tensor[(n), float32]) { topk(%x, k=3, ret_type=\"values\") }")
    np.testing.assert_array_equal(run(np.arange(5, dtype="float32")), [4, 3, 2])
    with pytest.raises(ExecutionError, match="at most"):
        run(np.arange(2, dtype="float32"))


def test_element_indices_stay_inside() -> None:
    run = runtime("def @main(%x: Tensor[(n, 4), float32], %i: Tensor[(m, 4), int64]) { gather(%x, %i, axis=1) }")
    x = np.arange(8, dtype="float32").reshape(2, 4)
    np.testing.assert_array_equal(run(x, np.zeros((1, 4), "int64")), [[0, 0, 0, 0]])
    with pytest.raises(ExecutionError, match="expected at most"):
        run(x, np.zeros((3, 4), "int64"))


def test_empty_parts_of_a_concatenation() -> None:
    run = runtime("def @main(%x: Tensor[(n, 2), float32], %y: Tensor[(m, 2), float32]) { concatenate(%x, %y) }")
    x, nothing = np.ones((3, 2), "float32"), np.empty((0, 2), "float32")
    np.testing.assert_array_equal(run(x, nothing), x)
    np.testing.assert_array_equal(run(nothing, x), x)
    assert run(nothing, nothing).shape == (0, 2)


def test_wide_empty_parts_in_the_middle() -> None:
    run = runtime("""def @main(%x: Tensor[(n, m, 5000), float32], %y: Tensor[(n, k, 5000), float32]) {
      %0 = exp(%x);
      concatenate(%0, %y, axis=1)
    }""")
    x, nothing = np.zeros((2, 3, 5000), "float32"), np.empty((2, 0, 5000), "float32")
    np.testing.assert_array_equal(run(nothing, x), x)
    np.testing.assert_array_equal(run(x, nothing), x + 1)


def test_an_empty_axis_has_no_edge_to_repeat() -> None:
    run = runtime("def @main(%x: Tensor[(n), float32]) { nn.pad(%x, pad_width=[[1, 1]], pad_mode=\"edge\") }")
    np.testing.assert_array_equal(run(np.arange(2, dtype="float32")), [0, 0, 1, 1])
    with pytest.raises(ExecutionError, match="empty"):
        run(np.empty(0, "float32"))
