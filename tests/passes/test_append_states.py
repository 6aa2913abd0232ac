"""States that calls lengthen are stored with that axis first, by all functions alike, and mean what they meant."""

from __future__ import annotations

import numpy as np
import pytest

from forge.driver import check_options, compile_module
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.text.parser import parse_module
from forge.ir.verifier import verify
from forge.passes import append_states
from forge.tir.library import StateMemory
from tests import guard
from tests.passes.checks import random_input, text_of

DECODE = """
def @decode(%x: Tensor[(2, 3, 1, 4), float32], state %k: Tensor[(2, 3, n, 4), float32], public=True) {
  %0 = concatenate(%k, %x, axis=2);
  %1 = nn.softmax(%0);
  (%1, %k = %0)
}
"""
PREFILL = """
def @prefill(%x: Tensor[(2, 3, m, 4), float32], public=True) {
  %0 = nn.relu(%x);
  (%0, %k = %0)
}
"""
COUNT = """
def @count(state %k: Tensor[(2, 3, n, 4), float32], public=True) {
  sum(%k)
}
"""
REORDER = """
def @reorder(%beams: Tensor[(2,), int64], state %k: Tensor[(2, 3, n, 4), float32], public=True) {
  %0 = take(%k, %beams, axis=0);
  (%k = %0)
}
"""


def stored(array: np.ndarray, graph: Graph, name: str) -> np.ndarray:
    axes = graph.states[name].axes
    return np.ascontiguousarray(array.transpose(axes)) if axes else array


def run_on(text: str, count: int) -> list[tuple[Graph, Graph]]:
    """Functions before and after the pass, which must change ``count`` states, and nothing when it runs again."""
    module = parse_module(text)
    before = [graph.copy() for graph in module.graphs.values()]
    graphs = list(module.graphs.values())
    assert append_states.run(graphs) == count
    verify(module)
    assert append_states.run(graphs) == 0
    return list(zip(before, graphs, strict=True))


@pytest.mark.parametrize("others", ["", PREFILL, COUNT, REORDER, PREFILL + COUNT + REORDER])
def test_all_functions_store_it_alike(others: str) -> None:
    for before, after in run_on(DECODE + others, 1):
        assert after.states["k"].axes == (2, 0, 1, 3)
        inputs = [random_input(v.shape, v.dtype, {"n": 5, "m": 6}, k) for k, v in enumerate(before.inputs)]
        if before.name == "reorder":
            inputs[0] = np.array([1, 1])
        wanted = run_graph(before, inputs)
        given = [stored(a, after, "k") if v.name == "k" else a for v, a in zip(before.inputs, inputs)]
        got = run_graph(after, given)
        number = after.states["k"].output
        if number is not None:
            wanted[number] = stored(wanted[number], after, "k")
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_what_is_new_is_appended() -> None:
    ((_, after),) = run_on(DECODE, 1)
    assert text_of(after) == """%0 = transpose(%x, axes=[2, 0, 1, 3]);
%1 = concatenate(%k, %0);
%2 = transpose(%1, axes=[1, 2, 0, 3]);
%3 = nn.softmax(%2);
(%3, %k = %1)"""


@pytest.mark.parametrize("text", [
    DECODE.replace("axis=2", "axis=0").replace("(2, 3, n, 4)", "(n, 3, 1, 4)"),
    DECODE.replace("(%k, %x, axis=2)", "(%x, %k, axis=2)"),
    DECODE.replace("%k = %0", "%k = %1").replace("nn.softmax(%0)", "strided_slice(%0, begin=[0, 0, 1], end=[2, 3, 9])"),
    COUNT,
])
def test_others_stay(text: str) -> None:
    run_on(text, 0)


def test_functions_that_lengthen_it_along_different_axes_leave_it() -> None:
    text = DECODE.replace("(2, 3, n, 4)", "(2, m, n, 4)").replace("(2, 3, 1, 4)", "(2, m, 1, 4)")
    other = text.replace("@decode", "@widen").replace("(2, m, 1, 4)", "(2, 1, n, 4)").replace("axis=2", "axis=1")
    run_on(text + other, 0)


def test_compiled_code_appends_in_place() -> None:
    graph = parse_module(DECODE.replace("@decode", "@main")).main
    compiled = compile_module(Module(graph.copy()), check_options(), use_cache=False)
    assert compiled.lowered is not None
    (binding,) = compiled.lowered.library.programs[0].bindings
    assert binding.memory is StateMemory.APPENDED
    assert compiled.lowered.library.states[0].axes == (2, 0, 1, 3)
    assert compiled.lowered.library.states[0].dims == (2, 3, None, 4)
    x, k = (random_input(v.shape, v.dtype, {"n": 5}, number) for number, v in enumerate(graph.inputs))
    wanted = run_graph(graph, [x, k])
    changed = graph.copy()
    append_states.run([changed])
    got = guard.run(compiled, changed, [x, stored(k, changed, "k")])
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5)
    np.testing.assert_array_equal(got[1], stored(wanted[1], changed, "k"))
