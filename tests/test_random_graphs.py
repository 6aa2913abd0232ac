"""Random graphs of all operators: compiled without and with optimisation, in guard mode, against the interpreter.

Errors cannot grow along a graph: the interpreter computes each node from what the *compiled* code stored for its operands.
Values that stay inside are recomputed, and how far rounding errors in them move a result is measured by perturbing them;
so are the operands of sums.

``FORGE_RANDOM_GRAPHS=2000`` sets how many graphs the slow test takes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from forge import dtypes
from forge.driver import compile_module
from forge.ir.builder import Builder
from forge.ir.interp import bind_symbols, evaluate, run_graph
from forge.ir.nodes import Graph, Module, Node, Value
from forge.ir.op import Accuracy, all_ops
from forge.ir.printer import print_module
from forge.ir.types import TensorType
from tests import guard
from tests.ops.compare import epsilon, mismatch, tolerance
from tests.ops.test_cases import CASES
from tests.random_graphs import UNARY, any_network, is_drawn

COUNT = int(os.environ.get("FORGE_RANDOM_GRAPHS", "200"))
PERTURBATIONS = 2
SLACK = 4
"""A result may be this many times as far off as perturbations of inner values moved it."""

WITHOUT_ROWS = {
    "linalg.eliminate", "nn.adaptive_avg_pool1d", "nn.adaptive_max_pool3d", "nn.contrib_conv2d_winograd_NCHWc",
    "nn.deformable_patches", "vision.box_suppression",
}
"""Operators that have no row yet: parts of others, packed forms, and ranks whose siblings have rows."""

RANDOM = settings(deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)


def expected_results(graph: Graph, inputs: Sequence[np.ndarray], stored: Mapping[Value, np.ndarray],
                     noise: np.random.Generator | None = None) -> dict[Value, np.ndarray]:
    """What each node gives for the ``stored`` contents of its operands; others are computed, and perturbed by ``noise``."""
    values: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    symbols: dict[str, int] = {}
    for value in graph.inputs:
        bind_symbols(value, values[value], symbols)
    computed: dict[Value, np.ndarray] = {}
    for node in graph.nodes:
        operands = [None if v is None else values[v] for v in node.operands]
        if noise is not None and node.op_def.accuracy is Accuracy.ACCUMULATING:
            operands = [x if x is None else rounded_elsewhere(x, noise) for x in operands]
        results = evaluate(node, operands, symbols, _no_regions)
        for value, result in zip(node.results, results, strict=True):
            bind_symbols(value, result, symbols)
            computed[value] = result
            kept = noise is None or node.op == "constant"
            values[value] = stored.get(value, result if kept else perturbed(result, node, noise))
    return computed


def _no_regions(region: Graph, operands: Any) -> list[Any]:
    raise NotImplementedError("random graphs have no regions")


def rounded_elsewhere(array: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    """``array`` with an error of one rounding in each element: a sum in another order is as far off (its backward error)."""
    name = dtypes.canonical(array.dtype)
    if not dtypes.is_float(name):
        return array
    wide = array.astype(np.float64)
    return (wide + noise.choice([-1.0, 1.0], wide.shape) * epsilon(name) * np.abs(wide)).astype(array.dtype)


def perturbed(array: np.ndarray, node: Node, noise: np.random.Generator) -> np.ndarray:
    """``array`` with errors as large as the operator may make."""
    accuracy = node.op_def.accuracy
    if accuracy is Accuracy.EXACT or not array.size:
        return array
    relative, to_largest = tolerance(accuracy, dtypes.canonical(array.dtype))
    wide = array.astype(np.float64)
    bound = relative * np.abs(wide) + to_largest * np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide))
    return (wide + noise.choice([-1.0, 1.0], wide.shape) * bound).astype(array.dtype)


def problems(graph: Graph, inputs: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> list[str]:
    """One line for each output that is wrong."""
    stored = dict(zip(graph.outputs, results, strict=True))
    wanted = expected_results(graph, inputs, stored)
    others = [expected_results(graph, inputs, stored, np.random.default_rng(k)) for k in range(PERTURBATIONS)]
    found = []
    for value, result in stored.items():
        node = value.producer
        assert node is not None
        accuracy = node.op_def.accuracy
        nearer = _towards(result, wanted[value], [other[value] for other in others])
        wrong = mismatch(nearer, wanted[value], accuracy)
        if wrong is not None:
            types = ", ".join("-" if v is None else str(v.type) for v in node.operands)
            found.append(f"%{value.name} = {node.op}({types}) {node.attrs}: {wrong}")
    return found


def _towards(actual: np.ndarray, expected: np.ndarray, moved: Sequence[np.ndarray]) -> np.ndarray:
    """``actual`` without the part of its error that perturbations explain."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype or not dtypes.is_float(dtypes.canonical(actual.dtype)):
        return actual
    wide = expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        slack = np.max([np.abs(m.astype(np.float64) - wide) for m in moved], axis=0, initial=0.0) * SLACK
        error = actual.astype(np.float64) - wide
        known = np.isfinite(slack) & np.isfinite(error) & (slack > 0)
        nearer = wide + np.sign(error) * np.maximum(np.abs(error) - slack, 0)
    return np.where(known, nearer, actual.astype(np.float64)).astype(actual.dtype)


def check_network(seed: int) -> None:
    graph, inputs = any_network(seed, CASES)
    if not graph.outputs:
        return
    for opt_level in (0, 3):
        compiled = compile_module(Module(graph), opt_level=opt_level, use_cache=False)
        try:
            results = guard.run(compiled, graph, [np.asarray(a, order="C") for a in inputs])
        except RuntimeError as error:
            assert "is empty; mode" in str(error)  # a pad that repeats what is not there is refused at run time
            return
        found = problems(graph, inputs, results)
        assert not found, "\n".join([f"seed {seed}, opt level {opt_level}", *found, print_module(Module(graph))])


@settings(RANDOM, max_examples=40, derandomize=True)
@given(st.integers(0, 2**32))
def test_random_graphs(seed: int) -> None:
    check_network(seed)


@pytest.mark.slow
@pytest.mark.timeout(0)
@settings(RANDOM, max_examples=COUNT, derandomize="FORGE_RANDOM_GRAPHS" not in os.environ)
@given(st.integers(0, 2**32))
def test_many_random_graphs(seed: int) -> None:
    check_network(seed)


def test_every_operator_is_drawn() -> None:
    """Each has a row, or stands in the table of elementwise steps; or what contains it has."""
    reachable = {c.op for c in CASES} | set(UNARY)
    assert {op.name for op in all_ops() if is_drawn(op) and op.name not in reachable} <= WITHOUT_ROWS


@pytest.mark.parametrize("hidden", [False, True])
def test_a_wrong_result_is_found(hidden: bool) -> None:
    builder = Builder()
    powers = builder.call("exp", builder.input(TensorType((3, 5), "float32"), "x"))
    total = builder.call("sum", powers, axis=(1,))
    graph = builder.output(*([] if hidden else [powers]), total)
    inputs = [np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5)]
    results = run_graph(graph, inputs)
    assert problems(graph, inputs, results) == []
    for k, result in enumerate(results):
        wrong = np.array(result)
        wrong.flat[-1] *= 1 + 1e-4
        assert len(problems(graph, inputs, [*results[:k], wrong, *results[k + 1 :]])) >= 1
