"""Random graphs of all operators: compiled without and with optimization, in guard mode, against the interpreter.

``tests/error_model.py`` says how far results may be off, and which of their elements say nothing.

``FORGE_RANDOM_GRAPHS=2000`` sets how many graphs the slow test takes, and makes them new ones.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from forge.driver import check_options, compile_module
from forge.errors import ForgeError
from forge.ir.graph import Graph, Module
from forge.ir.op import all_ops
from forge.ir.printer import print_module
from tests import guard, guard_runtime
from tests.error_model import Judge
from tests.ops.test_cases import CASES
from tests.random_control import has_regions
from tests.random_graphs import UNARY, is_drawn
from tests.random_networks import any_network

COUNT = int(os.environ.get("FORGE_RANDOM_GRAPHS", "200"))

RANDOM = settings(phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)


TALLY = Counter[str]()
MIN_INFORMATIVE = 0.9
"""Share of graphs of which at most a few elements hang on rounding errors."""


def compiled_results(graph: Graph, inputs: Sequence[np.ndarray], opt_level: int) -> list[np.ndarray] | None:
    """Outputs of the compiled graph; None where it reports an error that data may cause."""
    compiled = compile_module(Module(graph), check_options(opt_level=opt_level), use_cache=False)
    try:
        return guard_runtime.run(compiled, graph, inputs) if has_regions(graph) else guard.run(compiled, graph, inputs)
    except RuntimeError as error:
        assert "is empty; mode" in str(error)  # a pad that repeats what is not there is refused at run time
        return None


def check_network(seed: int) -> None:
    graph, inputs = any_network(seed, CASES)
    inputs = [np.asarray(a, order="C") for a in inputs]
    if not graph.outputs:
        return
    judge = Judge(graph, inputs)
    verdicts = []
    for opt_level in (0, 3):
        results = compiled_results(graph, inputs, opt_level)
        if results is None:
            return
        verdict = judge.judge(results)
        where = f"seed {seed}, opt level {opt_level}"
        assert not verdict.problems, "\n".join([where, *verdict.problems, print_module(Module(graph))])
        verdicts.append(verdict)
    TALLY["graphs"] += 1
    TALLY["informative"] += all(v.informative for v in verdicts)
    TALLY["with control flow"] += has_regions(graph)


@settings(RANDOM, max_examples=15, derandomize=True)
@given(st.integers(0, 2**32))
def test_random_graphs(seed: int) -> None:
    check_network(seed)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_graphs(request: pytest.FixtureRequest) -> None:
    """All of them run, with ``--sweeps`` the first quarter, whichever fail; most of them say something."""
    failures: list[str] = []
    count = COUNT // 4 if request.config.getoption("--sweeps") else COUNT
    TALLY.clear()

    @settings(RANDOM, max_examples=count, derandomize="FORGE_RANDOM_GRAPHS" not in os.environ)
    @given(st.integers(0, 2**32))
    def check_one(seed: int) -> None:
        try:
            check_network(seed)
        except (AssertionError, ForgeError) as error:
            failures.append(f"seed {seed}: {error}")

    check_one()
    logging.getLogger(__name__).info("%s, %d failures", dict(TALLY), len(failures))
    assert not failures, "\n\n".join(failures)
    assert TALLY["informative"] >= MIN_INFORMATIVE * TALLY["graphs"]


def test_every_operator_is_drawn() -> None:
    """Each has a row, or stands in the table of elementwise steps; or what contains it has."""
    reachable = {c.op for c in CASES} | set(UNARY)
    assert not {op.name for op in all_ops() if is_drawn(op) and op.name not in reachable}
