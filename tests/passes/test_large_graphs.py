"""Passes take time in proportion to the graph: counted in calls and searches, not by the clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import forge
from forge.driver.compiler import check_options, optimized_graph
from forge.frontends.prune import prune
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.types import TensorType
from forge.lowering.program import LoweredProgram, lower_graph
from forge.passes import canonicalize, decompose, eliminate_common_subexpr, fold_constants, fold_scale
from tests.passes.checks import rewrite

CALLS_OF_IMPORT, CALLS_OF_COMPILATION = 280, 450
"""Of Python functions, for one node more: what a model of 100,000 nodes takes follows from these."""


def additions(count: int, constant: bool) -> Graph:
    """``count`` additions of the input, or of constants, one after the other."""
    builder = Builder()
    x = builder.input(TensorType((4,), "float32"), "x")
    value = builder.call("nn.relu", x)
    for k in range(count):
        other = builder.constant(np.full(4, k, np.float32)) if constant else x
        value = builder.call("add", value, other)
    return builder.output(value)


def calls(run: Callable[[], Any]) -> int:
    """Calls of Python functions, those of generators that go on included."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(previous)
    return count


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("module", [canonicalize, decompose, eliminate_common_subexpr, fold_constants, fold_scale])
def test_twice_the_nodes_take_twice_the_work(module: Any, constant: bool) -> None:
    small, large = (calls(lambda n=n: rewrite(module.run, additions(n, constant))) for n in (150, 300))  # type: ignore[misc]
    assert large < 2.3 * small


def onnx_chain(count: int) -> onnx.ModelProto:
    """Relu, Add and Mul in turn, ``count`` in all, on a small tensor."""
    kinds = [("Relu", []), ("Add", ["shift"]), ("Mul", ["factor"])]
    names = ["x", *(f"v{k}" for k in range(count))]
    nodes = []
    for k in range(count):
        op, others = kinds[k % len(kinds)]
        nodes.append(helper.make_node(op, [names[k], *others], [names[k + 1]]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in (names[0], names[-1]))
    contents = {"shift": np.full(4, 1e-3, np.float32), "factor": np.full(4, 1.0001, np.float32)}
    weights = [numpy_helper.from_array(array, name) for name, array in contents.items()]
    return helper.make_model(helper.make_graph(nodes, "chain", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)])


def imported(model: onnx.ModelProto) -> Module:
    return forge.from_onnx(model).mod


def lowered(module: Module) -> LoweredProgram:
    options = check_options("llvm")
    return lower_graph(optimized_graph(module, options), "main", options.target)


def test_import_of_a_long_chain_does_little_for_each_node() -> None:
    models = [onnx_chain(n) for n in (9, 150, 450)]
    _, small, large = (calls(lambda model=model: imported(model)) for model in models)  # type: ignore[misc]
    assert large - small < 300 * CALLS_OF_IMPORT


def test_compilation_of_a_long_chain_does_little_for_each_node() -> None:
    modules = [imported(onnx_chain(n)) for n in (9, 150, 450)]
    _, small, large = (calls(lambda module=module: lowered(module)) for module in modules)  # type: ignore[misc]
    assert large - small < 300 * CALLS_OF_COMPILATION


def test_equal_groups_of_a_long_chain_share_a_kernel() -> None:
    program = lowered(imported(onnx_chain(480)))
    assert len(program.groups) == 10 and len(program.program.functions) <= 3


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_chain_of_20_000_nodes() -> None:
    count = 20_000
    run = forge.from_onnx(onnx_chain(count)).get_inference_function()
    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    expected = x
    for k in range(count):
        expected = (np.maximum(expected, 0), expected + np.float32(1e-3), expected * np.float32(1.0001))[k % 3]
    np.testing.assert_allclose(np.asarray(run(x)), expected, rtol=1e-3)


def replaced_by_others(op: str) -> Callable[[int], Graph]:
    """A chain of nodes, each of which a pass replaces: what they read next to the chain is equal for all."""

    def chain(count: int) -> Graph:
        builder = Builder()
        value = builder.input(TensorType((4, 4), "float32"), "x")
        for _ in range(count):
            value = builder.call(op, value, *([builder.constant(np.float32(2))] if op == "divide" else []))
        return builder.output(value)

    return chain


REPLACED = [(canonicalize, "divide"), (eliminate_common_subexpr, "divide"), (decompose, "linalg.inverse")]


@pytest.mark.parametrize(("module", "op"), REPLACED)
def test_nodes_that_are_replaced_are_not_searched_for(module: Any, op: str) -> None:
    small, large = (calls(lambda n=n: rewrite(module.run, replaced_by_others(op)(n))) for n in (150, 300))  # type: ignore[misc]
    assert large < 2.3 * small


def test_unused_nodes_of_an_imported_graph_go_in_one_sweep() -> None:
    def pruned(count: int) -> int:
        graph = additions(count, constant=False)
        graph.outputs = []
        made = calls(lambda: prune(graph))
        assert not graph.nodes and not graph.inputs[0].uses
        return made

    assert pruned(200) < 2.1 * pruned(100)
