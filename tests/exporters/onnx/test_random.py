"""Random graphs over all operators: some runtime makes of their export what the interpreter makes of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from forge.errors import ExecutionError, OpNotImplemented
from forge.exporters.onnx import unsupported_nodes
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.op import Accuracy
from forge.ir.printer import print_module
from tests.error_model import Judge
from tests.exporters.onnx.support import NotRun, Run, as_strings, exported, forge_outputs, onnxruntime_outputs, reference_outputs
from tests.ops.compare import mismatch
from tests.ops.test_cases import CASES
from tests.random_networks import any_network

MIN_WRITTEN = 0.5
"""Share of the graphs that can be written: a fifth of the values are complex, or of blocked layouts."""


def runtimes(graph: Graph, inputs: list[np.ndarray]) -> list[Run]:
    """onnxruntime dies of scans over nothing."""
    empty = any(0 in a.shape for a in inputs) or any(0 in v.shape for n in graph.walk() for v in n.results)
    dies = empty and any(n.op in ("scan", "cummax", "cummin", "cumprod", "logcumsumexp") for n in graph.walk())
    return [reference_outputs, forge_outputs] if dies else [onnxruntime_outputs, reference_outputs, forge_outputs]


def check_graph(seed: int) -> str:
    """What became of the graph: "written", "refused", "empty", or "out of range": ONNX refuses its indices."""
    with np.errstate(all="ignore"):
        graph, inputs = any_network(seed, CASES)
        inputs = [np.asarray(a, order="C") for a in inputs]
        if not graph.outputs:
            return "empty"
        expected = run_graph(graph, inputs)
    try:
        model = exported(Module(graph))
    except OpNotImplemented:
        assert unsupported_nodes(Module(graph), 26)
        return "refused"
    judge, wrong = Judge(graph, inputs), []
    for run in runtimes(graph, inputs):
        try:
            got = run(model, inputs)
        except NotRun:
            continue
        except ExecutionError as error:
            if "an index is out of range" not in str(error):
                raise
            return "out of range"
        results = [as_strings(np.asarray(a)) for a in got]
        found = [m for a, e in zip(results, expected, strict=True) if (m := mismatch(a, e, Accuracy.ACCUMULATING)) is not None]
        if found and all(a.shape == np.shape(e) for a, e in zip(results, expected, strict=True)):  # unless a rounding decided it
            found = judge.judge(results).problems
        if not found:
            return "written"
        wrong.append(found[0])
    raise AssertionError(f"seed {seed}: {wrong}\n{print_module(Module(graph))}")


@pytest.mark.parametrize("seed", range(25))
def test_random_graph(seed: int) -> None:
    check_graph(seed)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_random_graphs() -> None:
    tally = Counter(check_graph(seed) for seed in range(100, 500))
    assert tally["written"] >= MIN_WRITTEN * sum(tally.values()), tally
