"""Conditions on sizes that types leave open are checked when the model runs."""

from __future__ import annotations

import numpy as np
import pytest

from forge.driver import check_options, compile_module
from forge.errors import ParseError, TypeInferenceError
from forge.ir.interp import run_module
from forge.ir.parser import parse_module
from forge.lowering.groups import Group
from forge.lowering.late import Definition
from forge.lowering.program import Lowering
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


def test_bounds_of_a_dimension() -> None:
    run = runtime("""def @main(%x: Tensor[(n, 2), float32]) {
      %0 = check_size(%x, axis=0, least=3, most=5, label="rows");
      reshape(%0, newshape=[-1])
    }""")
    for n in (3, 5):
        np.testing.assert_array_equal(run(np.ones((n, 2), "float32")), np.ones(2 * n))
    for n in (2, 6):
        with pytest.raises(ExecutionError, match="dimension rows is out of bounds; expected 3 to 5"):
            run(np.ones((n, 2), "float32"))
    with pytest.raises(ParseError, match="dimension rows; got 2; expected 3 to 5"):
        parse_module("def @main(%x: Tensor[(2), int8]) { check_size(%x, axis=0, least=3, most=5, label=\"rows\") }")


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


WINDOWS = {
    "conv": "nn.conv2d(%x, %k)",
    "strided conv": "nn.conv2d(%x, %k, strides=[3, 3])",
    "max pool": "nn.max_pool2d(%x, pool_size=[5, 5], strides=[3, 3])",
    "average pool": "nn.avg_pool2d(%x, pool_size=[5, 5], strides=[3, 3])",
}


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("case", WINDOWS)
def test_a_window_fits_into_its_data(case: str, opt_level: int) -> None:
    """Also where nothing but the node shows that it does not; the interpreter refuses the same data."""
    module = parse_module(f"""def @main(%x: Tensor[(1, 8, h, w), float32], %k: Tensor[(16, 8, 5, 5), float32]) {{
      %0 = {WINDOWS[case]};
      %1 = sum(%0, axis=[1, 2, 3]);
      (%1, sum(%k))
    }}""")
    module.main.params["k"] = np.ones((16, 8, 5, 5), "float32")
    run = compile_module(module.copy(), check_options(None, opt_level=opt_level)).runtime()
    for height in range(1, 7):
        x = np.ones((1, 8, height, 9), "float32")
        if height >= 5:
            np.testing.assert_allclose(run(x)[0], run_module(module, {"x": x})[0])
            continue
        with pytest.raises(ExecutionError, match=r"node nn\.\w+ .*: window over .* extent .* below 1; expected a window"):
            run(x)
        with pytest.raises(TypeInferenceError, match=r"got output extent -?[0-9]+; expected a window that fits"):
            run_module(module, {"x": x})


def test_a_condition_of_many_nodes_is_checked_once() -> None:
    text = "\n".join(f"%{k + 1} = nn.max_pool2d(%{k or 'x'}, pool_size=[3, 3], padding=[1, 1]);" for k in range(4))
    module = parse_module(f"def @main(%x: Tensor[(1, 2, h, w), float32]) {{ {text} nn.relu(%4) }}")
    lowered = compile_module(module).lowered
    assert lowered is not None
    conditions = [why for item in lowered.functions[0].items if isinstance(item, Definition) for _, why in item.conditions]
    assert len(conditions) == 2, conditions


def test_a_slice_lies_inside_of_its_data() -> None:
    module = parse_module("""def @main(%x: Tensor[(n, 3), float32], %u: Tensor[(1, 3), float32], %s: Tensor[(2), int64]) {
      dynamic_update_slice(%x, %u, %s)
    }""")
    inputs = {"x": np.ones((0, 3), "float32"), "u": np.ones((1, 3), "float32"), "s": np.zeros(2, "int64")}
    with pytest.raises(ExecutionError, match="the slice has 1 elements; expected at most n"):
        compile_module(module.copy()).runtime()(**inputs)
    with pytest.raises(TypeInferenceError, match="size of the slice in dimension 0; got 1; expected 0 to 0"):
        run_module(module, inputs)


@pytest.mark.parametrize(("text", "data"), [
    ("def @main(%x: Tensor[(n), float32]) { %0 = nn.relu(%x); reshape(%0, newshape=[2, (n // 2)]) }", np.ones(7, "float32")),
    ("def @main(%x: Tensor[(1), int64]) { %0 = full(1f, %x); reshape(%0, newshape=[2, -1]) }", np.array([7])),
], ids=["of inputs", "of contents"])  # fmt: skip
def test_sizes_are_checked_before_a_memory_that_may_be_too_small_is_written(text: str, data: np.ndarray) -> None:
    """The result of the first operator is made where the output lies, which has fewer elements where their number is odd."""
    module = parse_module(text)
    run = compile_module(module).runtime()
    items = Lowering(check_options().target, fuse=True).group(module.main).items
    (check,) = [k for k, item in enumerate(items) if isinstance(item, Definition) and not item.symbols]
    assert check < min(k for k, item in enumerate(items) if isinstance(item, Group))
    with pytest.raises(ExecutionError, match=r"elements differ from the .* of its operand"):
        run(data)
