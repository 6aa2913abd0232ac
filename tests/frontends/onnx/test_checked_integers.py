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
}  # fmt: skip
DIVISIONS: dict[str, Call] = {
    op: (f"g (int32[n] a, int32[n] b) => (int32[n] y) {{ y = {op}(a, b) }}",
         [np.array([7, -7], np.int32), np.array([2, 2], np.int32)], [np.array([7, -7], np.int32), np.array([2, 0], np.int32)])
    for op in ("Div", "Mod")
}  # fmt: skip


@pytest.mark.parametrize("name", [*CALLS, *DIVISIONS])
def test_calls_fail_where_onnxruntime_fails(name: str) -> None:
    graph, fitting, others = {**CALLS, **DIVISIONS}[name]
    proto = model(graph)
    (expected,) = onnxruntime_outputs(proto, *fitting)
    if name in CALLS:  # onnxruntime dies of an integer that is divided by 0
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            onnxruntime_outputs(proto, *others)
    compiled = forge.from_onnx(proto).get_inference_function()
    np.testing.assert_allclose(np.asarray(compiled(*fitting)), expected, rtol=1e-5)
    for call in (compiled, lambda *inputs: evaluate(import_model(proto), *inputs)):
        with pytest.raises(ExecutionError, match=r"an index is out of range; expected|an integer is divided by 0"):
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
        with pytest.raises(OpAttributeInvalid, match=r"indices: got .*; expected -3 to 2"):
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
