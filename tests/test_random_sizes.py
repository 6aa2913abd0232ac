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
from functools import cached_property

import numpy as np
import pytest

from forge import dims
from forge.backends.compiled import CompiledModel
from forge.driver import check_options, compile_module
from forge.errors import ForgeError
from forge.frontends.onnx import import_model
from forge.ir.graph import Module
from forge.ir.interp import bind_symbols
from forge.target import Target
from tests import guard
from tests.error_model import MAX_EXCLUDED, Contents, Judge, Noise, interpret, noises, widened
from tests.random_checks import failures_of, with_own_constants
from tests.random_sizes import SIZES, Unfit, random_sized_network, run_onnxruntime

pytest.importorskip("onnxruntime")
COUNT = int(os.environ.get("FORGE_RANDOM_SIZES", "60"))
FIRST = int(os.environ.get("FORGE_RANDOM_SIZES_FIRST", "100"))
MIN_INFORMATIVE = 0.9
MAX_REFUSED = 0.02
"""Share of the graphs that onnxruntime refuses as a whole."""

TARGETS = ("llvm", "llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64")
"""One after the other, by the seed."""

WINOGRAD_ERROR = 1e-4
"""Of a convolution 1e-5 of the largest result, and more after some of them."""

MANY_RUNS = 40
TALLY = Counter[str]()


def check(seed: int) -> list[str]:
    """What is wrong with a graph at one of its sizes; the operators that were judged are counted.

    Without Winograd's algorithm, results are judged; with it, where it is used, they are compared with those.
    """
    net, model = random_sized_network(seed)
    module = import_model(model)
    target = Target.parse(TARGETS[seed % len(TARGETS)])
    compiled, usual = (
        compile_module(module, check_options(target, winograd=winograd), use_cache=False) for winograd in (False, True)
    )
    with_winograd = usual if uses_winograd(usual) else None
    TALLY["with Winograd"] += with_winograd is not None
    problems = []
    for name, feed in net.feeds().items():
        inputs = ordered(module, feed)
        results = guard.run(compiled, module.main, inputs)
        everyones: dict[str, Sequence[np.ndarray]] = {"compiled": results}
        try:
            everyones["onnxruntime"] = with_own_constants(module, run_onnxruntime(model, feed))
        except Unfit:  # of a graph whose nodes it took one by one
            TALLY["refused by onnxruntime"] += 1
        found = judged(module, inputs, everyones)
        if with_winograd is not None:
            found += far_off(guard.run(with_winograd, module.main, inputs), results)
        problems += [f"seed {seed}, {name}: {p}" for p in found]
    for name, feed in net.other_feeds().items():
        problems += [f"seed {seed}, {name}: {p}" for p in judged_if_valid(module, compiled, ordered(module, feed))]
    TALLY["graphs"] += 1
    TALLY.update(node.op_type for node in model.graph.node)
    return problems


def uses_winograd(compiled: CompiledModel) -> bool:
    assert compiled.lowered is not None
    return any("winograd" in function.name for function in compiled.lowered.library.functions)


def far_off(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> list[str]:
    """Outputs of which too many elements differ; discontinuous operators may decide otherwise in few."""
    problems = []
    for number, (one, other) in enumerate(zip(results, expected, strict=True)):
        wide, right = widened(one), widened(other)
        largest = np.abs(right[np.isfinite(right)]).max(initial=0.0)
        wrong = ~np.isclose(wide, right, rtol=0.0, atol=WINOGRAD_ERROR * largest, equal_nan=True)
        if one.shape != other.shape or wrong.mean() > MAX_EXCLUDED:
            problems.append(f"with Winograd: output {number}: {wrong.sum()} of {wrong.size} elements differ")
    return problems


def ordered(module: Module, feed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Inputs in the order of the graph's."""
    return [np.asarray(feed[v.name], order="C") for v in module.main.inputs]


def judged(module: Module, inputs: list[np.ndarray], results: Mapping[str, Sequence[np.ndarray]]) -> list[str]:
    """What is wrong with results, by who made them.

    Of errors far inside a graph few may reach an element: what is wrong by those of the usual runs is judged by many more.
    """
    judges = Judge(module.main, inputs), PatientJudge(module.main, inputs)
    problems = []
    with np.errstate(all="ignore"):
        for name, found in results.items():
            verdict = judges[0].judge(found)
            verdict = judges[1].judge(found) if verdict.problems else verdict
            TALLY["informative"] += verdict.informative
            TALLY["judged"] += 1
            problems += [f"{name}: {p}" for p in verdict.problems]
    return problems


class PatientJudge(Judge):
    """Judges by more samples of errors."""

    @cached_property
    def runs(self) -> list[Contents]:
        more = [Noise(np.random.default_rng(k)) for k in range(MANY_RUNS)]
        return [interpret(self.graph, self.inputs, noise) for noise in (None, *noises(), *more)]


def judged_if_valid(module: Module, compiled: CompiledModel, inputs: list[np.ndarray]) -> list[str]:
    """What is wrong at sizes that the graph may be invalid at: the code may refuse them, but leaves other memory alone.

    Where outputs would have negative sizes, a runtime refuses the call before the code runs.
    """
    if any(size < 0 for size in known_sizes(module, inputs)):
        TALLY["refused"] += 1
        return []
    try:
        results = guard.run(compiled, module.main, inputs)
    except RuntimeError:
        TALLY["refused"] += 1
        return []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of means of nothing
        try:
            interpret(module.main, inputs)
        except (ForgeError, ValueError, IndexError):
            TALLY["invalid"] += 1
            return []
        return judged(module, inputs, {"compiled": results})


def known_sizes(module: Module, inputs: Sequence[np.ndarray]) -> list[int]:
    """The extents of outputs that those of the inputs determine."""
    symbols: dict[str, int] = {}
    for value, array in zip(module.main.inputs, inputs, strict=True):
        bind_symbols(value, array, symbols)
    extents = [d for value in module.main.outputs for d in value.shape if set(dims.symbols(d)) <= symbols.keys()]
    return [dims.evaluate(d, symbols) for d in extents]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(8))
def test_random_networks_at_any_size(seed: int) -> None:
    assert not check(seed)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_networks_at_any_size() -> None:
    TALLY.clear()
    failures = failures_of(check, range(FIRST, FIRST + COUNT))
    logging.getLogger(__name__).info("%s, %d failures", dict(TALLY), len(failures))
    assert not failures, "\n".join(failures)
    assert TALLY["informative"] >= MIN_INFORMATIVE * TALLY["judged"]
    assert TALLY["refused by onnxruntime"] <= MAX_REFUSED * COUNT * len(SIZES)


if __name__ == "__main__":
    for text in sys.argv[1:]:
        sys.stdout.write("\n".join([*check(int(text)), f"seed {text} is done", ""]))
