"""Indices out of range and integers divided by 0: calls fail as in onnxruntime, unless ``check_indices`` is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import ExecutionError, OpAttributeInvalid
from forge.frontends.onnx import import_model
from tests.frontends.onnx.support import evaluate, example, model, onnxruntime_outputs, ops

DATA = example(0, 5, 4)
UPDATES = example(1, 2, 4)
Call = tuple[str, list[Any], list[Any]]
CALLS: dict[str, Call] = {  # graph, inputs that fit, inputs that do not
    "Gather": ("g (float[5, 4] x, int64[n] i) => (float[n, 4] y) { y = Gather(x, i) }",
               [DATA, np.array([4, -5, 0])], [DATA, np.array([4, 5, 0])]),
    "Gather before the start": ("g (float[5, 4] x, int32[n] i) => (float[5, n] y) { y = Gather<axis = 1>(x, i) }",
                                [DATA, np.array([3, -4], np.int32)], [DATA, np.array([3, -5], np.int32)]),
    "Gather of an unknown size": ("g (float[m, 4] x, int64 i) => (float[4] y) { y = Gather(x, i) }",
                                  [DATA, np.array(4)], [DATA, np.array(5)]),
    "GatherElements": ("g (float[5, 4] x, int64[2, 4] i) => (float[2, 4] y) { y = GatherElements(x, i) }",
                       [DATA, np.full((2, 4), 4)], [DATA, np.full((2, 4), -6)]),
    "GatherND": ("g (float[5, 4] x, int64[n, 2] i) => (float[n] y) { y = GatherND(x, i) }",
                 [DATA, np.array([[4, 3], [0, -4]])], [DATA, np.array([[4, 3], [0, 4]])]),
    "ScatterElements": (
        "g (float[5, 4] x, int64[2, 4] i, float[2, 4] u) => (float[5, 4] y) { y = ScatterElements(x, i, u) }",
        [DATA, np.array([[4, 3, 2, 1], [0, 1, -1, 4]]), UPDATES], [DATA, np.array([[4, 3, 2, 1], [0, 1, -1, 5]]), UPDATES]),
    "ScatterND": ("g (float[5, 4] x, int64[2, 1] i, float[2, 4] u) => (float[5, 4] y) { y = ScatterND(x, i, u) }",
                  [DATA, np.array([[4], [0]]), UPDATES], [DATA, np.array([[4], [-6]]), UPDATES]),
    "targets": (
        "g (float[2, 4] x, int64[2] t) => (float y) { y = SoftmaxCrossEntropyLoss<ignore_index = -100>(x, t) }",
        [UPDATES, np.array([3, -100])], [UPDATES, np.array([4, 0])]),
    "CumSum": ("g (float[5, 4] x, int64 a) => (float[5, 4] y) { y = CumSum(x, a) }",
               [DATA, np.array(-2)], [DATA, np.array(2)]),
    "axes of Slice": ("g (float[5, 4] x, int64[1] b, int64[1] e, int64[1] a) => (float[n, m] y) { y = Slice(x, b, e, a) }",
                      [DATA, *map(np.array, ([1], [3], [-1]))], [DATA, *map(np.array, ([1], [3], [2]))]),
    "lengths of ReverseSequence": ("g (float[5, 4] x, int64[4] n) => (float[5, 4] y) { y = ReverseSequence(x, n) }",
                                   [DATA, np.array([5, 1, 2, 3])], [DATA, np.array([6, 1, 2, 3])]),
    "lengths of a GRU": (
        "g (float[t, 2, 4] x, float[1, 6, 4] w, float[1, 6, 2] r, int32[2] n) => (float[t, 1, 2, 2] y)"
        " { y = GRU<hidden_size = 2>(x, w, r, , n) }",
        [example(2, 3, 2, 4), example(3, 1, 6, 4), example(4, 1, 6, 2), np.array([3, 0], np.int32)],
        [example(2, 3, 2, 4), example(3, 1, 6, 4), example(4, 1, 6, 2), np.array([4, 0], np.int32)]),
    "images of RoiAlign": (
        "g (float[m, 1, 2, 2] x, float[1, 4] r, int64[1] i) => (float[1, 1, 1, 1] y) { y = RoiAlign(x, r, i) }",
        [example(5, 2, 1, 2, 2), np.array([[0, 0, 1, 1]], np.float32), np.array([1])],
        [example(5, 2, 1, 2, 2), np.array([[0, 0, 1, 1]], np.float32), np.array([2])]),
    "images of MaxRoiPool": (
        "g (float[m, 1, 2, 2] x, float[1, 5] r) => (float[1, 1, 1, 1] y) { y = MaxRoiPool<pooled_shape = [1, 1]>(x, r) }",
        [example(5, 2, 1, 2, 2), np.array([[1, 0, 0, 1, 1]], np.float32)],
        [example(5, 2, 1, 2, 2), np.array([[2, 0, 0, 1, 1]], np.float32)]),
    "MaxUnpool": (
        "g (float[1, 1, 2] x, int64[1, 1, 2] i) => (float[1, 1, 4] y)"
        " { y = MaxUnpool<kernel_shape = [2], strides = [2]>(x, i) }",
        [example(6, 1, 1, 2), np.array([[[0, 3]]])], [example(6, 1, 1, 2), np.array([[[0, 4]]])]),
    "positions of RotaryEmbedding": (
        "g (float[1, 1, 2, 4] x, float[5, 2] c, float[5, 2] s, int64[1, 2] p) => (float[1, 1, 2, 4] y)"
        " { y = RotaryEmbedding(x, c, s, p) }",
        [example(7, 1, 1, 2, 4), DATA[:, :2], DATA[:, 2:], np.array([[4, 0]])],
        [example(7, 1, 1, 2, 4), DATA[:, :2], DATA[:, 2:], np.array([[5, 0]])]),
    "TensorScatter": (
        "g (float[1, 4, 2] x, float[1, 2, 2] u, int64[1] i) => (float[1, 4, 2] y) { y = TensorScatter(x, u, i) }",
        [example(8, 1, 4, 2), example(9, 1, 2, 2), np.array([2])], [example(8, 1, 4, 2), example(9, 1, 2, 2), np.array([3])]),
}  # fmt: skip
OPSETS = {"positions of RotaryEmbedding": 23, "TensorScatter": 24}
DIVISIONS: dict[str, Call] = {
    op: (f"g (int32[n] a, int32[n] b) => (int32[n] y) {{ y = {op}(a, b) }}",
         [np.array([7, -7], np.int32), np.array([2, 2], np.int32)], [np.array([7, -7], np.int32), np.array([2, 0], np.int32)])
    for op in ("Div", "Mod")
}  # fmt: skip


@pytest.mark.parametrize("name", [*CALLS, *DIVISIONS])
def test_calls_fail_where_onnxruntime_fails(name: str) -> None:
    graph, fitting, others = {**CALLS, **DIVISIONS}[name]
    proto = model(graph, opset=OPSETS.get(name, 21))
    (expected,) = onnxruntime_outputs(proto, *fitting)
    if name in CALLS:  # onnxruntime dies of an integer that is divided by 0
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            onnxruntime_outputs(proto, *others)
    compiled = forge.from_onnx(proto).get_inference_function()
    np.testing.assert_allclose(np.asarray(compiled(*fitting)), expected, rtol=1e-5)
    for call in (compiled, lambda *inputs: evaluate(import_model(proto), *inputs)):
        with pytest.raises(ExecutionError, match=r"an? [a-z]+ is out of range; expected|an integer is divided by 0"):
            call(*others)


def test_the_message_names_the_node() -> None:
    proto = model(CALLS["Gather"][0])
    proto.graph.node[0].name = "words"
    with pytest.raises(ExecutionError, match="node 'words': an index is out of range; expected -5 to 4"):
        forge.from_onnx(proto).get_inference_function()(*CALLS["Gather"][2])


def test_the_option_leaves_checks_out(tmp_path: Path) -> None:
    ir = forge.from_onnx(model(CALLS["Gather"][0]))
    ir.compile(output_path=tmp_path / "unchecked", check_indices=False)
    np.testing.assert_array_equal(forge.Runtime(tmp_path / "unchecked")(*CALLS["Gather"][2]), DATA[[4, 4, 0]])


SIZES: dict[str, tuple[str, list[Any], list[Any], str]] = {  # graph, inputs that fit, inputs that do not, the message
    "Expand": ("g (float[5, 4] x, int64[2] s) => (float[n, m] y) { y = Expand(x, s) }",
               [DATA, np.array([1, 4])], [DATA, np.array([2, 4])], "does not broadcast"),
    "Expand of one column": ("g (float[5, 1] x, int64[2] s) => (float[n, m] y) { y = Expand(x, s) }",
                             [DATA[:, :1], np.array([5, 3])], [DATA[:, :1], np.array([6, 3])], "does not broadcast"),
    "Split": ("g (float[5, 4] x, int64[2] s) => (float[n, 4] a, float[m, 4] b) { a, b = Split(x, s) }",
              [DATA, np.array([2, 3])], [DATA, np.array([2, 2])], "sizes of parts do not add up to 5"),
    "DepthToSpace": ("g (float[1, n, 2, 2] x) => (float[1, m, 4, 4] y) { y = DepthToSpace<blocksize = 2>(x) }",
                     [example(0, 1, 8, 2, 2)], [example(0, 1, 9, 2, 2)], "is not a multiple of 4"),
    "steps of Slice": (
        "g (float[5, 4] x, int64[1] b, int64[1] e, int64[1] a, int64[1] s) => (float[n, m] y) { y = Slice(x, b, e, a, s) }",
        [DATA, *map(np.array, ([0], [5], [0], [2]))], [DATA, *map(np.array, ([0], [5], [0], [0]))], "a step is 0"),
    "Range": ("g (int64 b, int64 e, int64 d) => (int64[n] y) { y = Range(b, e, d) }",
              [*map(np.array, (0, 5, 2))], [*map(np.array, (0, 5, 0))], "delta is 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_do_not_fit_fail_where_onnxruntime_fails(name: str) -> None:
    graph, fitting, others, message = SIZES[name]
    proto = model(graph, opset=21)
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        onnxruntime_outputs(proto, *others)
    compiled = forge.from_onnx(proto).get_inference_function()
    results = compiled(*fitting)
    for got, expected in zip(results if isinstance(results, list) else [results], onnxruntime_outputs(proto, *fitting)):
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(ExecutionError, match=message):
        compiled(*others)


def test_a_condition_longer_than_the_axis_is_read_as_far_as_the_axis() -> None:
    proto = model("g (float[n, m] x, bool[k] c) => (float[p, m] y) { y = Compress<axis = 0>(x, c) }")
    run = forge.from_onnx(proto).get_inference_function()
    for condition in ([1, 0, 1, 0, 1, 1, 1], [0, 1], [1, 1, 1, 1, 1]):
        inputs = [DATA, np.array(condition, bool)]
        np.testing.assert_array_equal(run(*inputs), *onnxruntime_outputs(proto, *inputs))


INDICES = {
    "constant": "i = Constant<value_ints = [4, -5]>()",
    "largest elements": "v, i = TopK<axis = 0>(x, k)",
    "largest element": "i = ArgMax<axis = 0, keepdims = 0>(x)",
    "moved and repeated": "v, j = TopK<axis = 0>(x, k)  m = Transpose(j)  r = Unsqueeze(m, k)  i = Cast<to = 6>(r)",
    "clipped": "j = Cast<to = 7>(x)  i = Clip(j, low, high)",
    "counted": "i = Range(zero, high, one)",
    "one of two": "v, j = TopK<axis = 0>(x, k)  c = Greater(v, v)  i = Where(c, j, zero)",
}


@pytest.mark.parametrize("name", INDICES)
def test_nothing_is_checked_that_is_known_to_fit(name: str) -> None:
    numbers = {"low": -5, "high": 4, "zero": 0, "one": 1}
    weights: dict[str, Any] = {"k": np.array([1]), **{name: np.array(number) for name, number in numbers.items()}}
    proto = model(f"g (float[5, 4] x) => (float[a] y) {{ {INDICES[name]}  y = Gather(x, i) }}", **weights)
    assert "check_index" not in ops(import_model(proto))
    wider = model(f"g (float[5, 4] x, float[3, 4] z) => (float[a] y) {{ {INDICES[name]}  y = Gather(z, i) }}", **weights)
    if name in ("constant", "counted"):
        with pytest.raises(OpAttributeInvalid, match=r"an index is out of range: got .*; expected -3 to 2"):
            import_model(wider)
    else:
        assert "check_index" in ops(import_model(wider))


def test_a_constant_that_does_not_fit_fails_when_its_branch_runs() -> None:
    proto = model(
        "g (bool c, float[3, 4] x) => (float[n, 4] y) { y = If(c)"
        " <then_branch = t () => (float[1, 4] a) { i = Constant<value_ints = [7]>()  a = Gather(x, i) },"
        "  else_branch = e () => (float[3, 4] b) { b = Identity(x) }> }"
    )
    call = forge.from_onnx(proto).get_inference_function()
    assert np.asarray(call(np.array(False), DATA[:3])).shape == (3, 4)
    with pytest.raises(ExecutionError, match="an index is out of range; expected -3 to 2"):
        call(np.array(True), DATA[:3])
