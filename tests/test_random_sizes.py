"""Random networks with symbolic sizes: onnxruntime, the interpreter and compiled code agree at several sizes, of 0 too.

``FORGE_RANDOM_SIZES=500`` sets how many graphs the slow test takes, ``FORGE_RANDOM_SIZES_FIRST`` the seed of the first;
``python -m tests.test_random_sizes SEED ...`` runs some.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from forge.driver import check_options, compile_module
from forge.driver.compiled import CompiledModel
from forge.errors import ForgeError
from forge.frontends.onnx import import_model
from forge.ir.nodes import Module
from forge.target import Target
from tests import guard
from tests.error_model import Judge
from tests.random_sizes import random_sized_network, run_onnxruntime

pytest.importorskip("onnxruntime")
COUNT = int(os.environ.get("FORGE_RANDOM_SIZES", "60"))
FIRST = int(os.environ.get("FORGE_RANDOM_SIZES_FIRST", "100"))
LEAST_INFORMATIVE = 0.9
TARGETS = ("llvm", "llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64")
"""One after the other, by the seed."""

TALLY = Counter[str]()


def check(seed: int) -> list[str]:
    """What is wrong with a graph at one of its sizes; the operators that were judged are counted."""
    net, model = random_sized_network(seed)
    module = import_model(model)
    options = check_options(Target.parse(TARGETS[seed % len(TARGETS)]))
    compiled = compile_module(module, options, use_cache=False)
    problems = []
    for name, feed in net.feeds().items():
        inputs = ordered(module, feed)
        results = {"compiled": guard.run(compiled, module.main, inputs), "onnxruntime": run_onnxruntime(model, feed)}
        problems += [f"seed {seed}, {name}: {p}" for p in judged(Judge(module.main, inputs), results)]
    for name, feed in net.other_feeds().items():
        problems += [f"seed {seed}, {name}: {p}" for p in judged_if_valid(module, compiled, ordered(module, feed))]
    TALLY["graphs"] += 1
    TALLY.update(node.op_type for node in model.graph.node)
    return problems


def ordered(module: Module, feed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Inputs in the order of the graph's."""
    return [np.asarray(feed[v.name], order="C") for v in module.main.inputs]


def judged(judge: Judge, results: Mapping[str, Sequence[np.ndarray]]) -> list[str]:
    """What is wrong with results, by who made them."""
    problems = []
    with np.errstate(all="ignore"):
        for name, found in results.items():
            verdict = judge.judge(found)
            TALLY["informative"] += verdict.informative
            TALLY["judged"] += 1
            problems += [f"{name}: {p}" for p in verdict.problems]
    return problems


def judged_if_valid(module: Module, compiled: CompiledModel, inputs: list[np.ndarray]) -> list[str]:
    """What is wrong at sizes that the graph may be invalid at: the code may refuse them, but leaves other memory alone."""
    try:
        results = guard.run(compiled, module.main, inputs)
    except RuntimeError:
        TALLY["refused"] += 1
        return []
    judge = Judge(module.main, inputs)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of means of nothing
        try:
            judge.runs  # noqa: B018 - this runs the interpreter
        except (ForgeError, ValueError, IndexError):
            TALLY["invalid"] += 1
            return []
        return judged(judge, {"compiled": results})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(8))
def test_random_networks_at_any_size(seed: int) -> None:
    assert not check(seed)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_networks_at_any_size() -> None:
    """All of them run, whichever fail."""
    failures: list[str] = []
    TALLY.clear()
    for seed in range(FIRST, FIRST + COUNT):
        try:
            failures.extend(check(seed))
        except (ForgeError, RuntimeError, AssertionError) as error:
            failures.append(f"seed {seed}: {type(error).__name__}: {error}")
    logging.getLogger(__name__).info("%s, %d failures", dict(TALLY), len(failures))
    assert not failures, "\n".join(failures)
    assert TALLY["informative"] >= LEAST_INFORMATIVE * TALLY["judged"]


if __name__ == "__main__":
    for text in sys.argv[1:]:
        sys.stdout.write("\n".join([*check(int(text)), f"seed {text} is done", ""]))
