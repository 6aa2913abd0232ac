"""Random quantized graphs: each layer of compiled code gives onnxruntime's integers for what it has read, within one step.

Where the last layers alone are outputs, and more is fused, code gives the same integers again. ``FORGE_RANDOM_QUANTIZED=100``
sets how many cases of the slow test there are, of ``PART`` graphs each; ``python -m tests.test_random_quantized SEED ...`` runs
some.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest

from forge.driver import Compilation, check_options, compile_module, run_stages
from forge.errors import ForgeError
from forge.frontends.onnx import import_model
from tests import guard
from tests.random_onnx import run_onnxruntime
from tests.random_quantized import Drawn, random_quantized_model, steps_off
from tests.saturation import skip_where_sums_saturate

pytest.importorskip("onnxruntime")
COUNT = int(os.environ.get("FORGE_RANDOM_QUANTIZED", "40"))
FIRST = 100
PART = 10
MIN_EQUAL = 0.99
"""Share of elements that are the same as onnxruntime's; rounding points moved for the others."""

TALLY = Counter[str]()
"""Elements of 8 and 16 bits, those of them that are one step off, and how often each operator was judged."""


def check(seed: int) -> list[str]:
    """What is wrong with a graph."""
    drawn = random_quantized_model(seed)
    found = compiled(drawn, drawn.layers)
    problems = judged(drawn, found)
    whole = compiled(drawn, drawn.last)
    if different(whole, found):
        problems += alone(drawn)
    TALLY.update(node.op_type for node in drawn.net.nodes)
    TALLY["graphs"] += 1
    return [f"seed {seed}: {p}" for p in problems]


def alone(drawn: Drawn) -> list[str]:
    """What is wrong where the last layers alone are outputs, and those that round results of floating-point arithmetic.

    These may be rounded in another way for each way of fusing; integers that are computed from the same ones may not.
    """
    real = rounded(drawn)
    found = compiled(drawn, [*dict.fromkeys([*drawn.last, *real])])
    expected = compiled(drawn, drawn.layers, real, found)
    return different({n: a for n, a in found.items() if n not in real}, expected)


def rounded(drawn: Drawn) -> list[str]:
    """The quantized tensors that are rounded after floating-point arithmetic, of which integers are left nothing."""
    compilation = Compilation(import_model(drawn.model(drawn.layers)), check_options())
    run_stages(compilation, stop_after="to_integers")
    graph = compilation.functions[0].graph
    found = []
    for name, value in zip(drawn.layers, graph.outputs, strict=True):
        pending, others = [value], set(graph.outputs) - {value}
        while pending:
            reached = pending.pop()
            if reached.producer is not None and reached not in others:
                pending.extend(v for v in reached.producer.operands if v is not None)
                if reached.producer.op == "qnn.quantize" and name not in found:
                    found.append(name)
    return found


def different(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> list[str]:
    return [f"{name}, an output alone: {describe(array, expected[name])}" for name, array in got.items()
            if steps_off(array, expected[name]).any()]


def compiled(drawn: Drawn, shown: Iterable[str], cut: Sequence[str] = (), given: Mapping[str, np.ndarray] | None = None
             ) -> dict[str, np.ndarray]:
    """Results ``shown`` of compiled code, with contents ``given`` where the graph is ``cut``."""
    module = import_model(drawn.model(shown, cut))
    feeds = drawn.feeds(given or {}, cut)
    inputs = [feeds[v.name] for v in module.main.inputs]
    results = guard.run(compile_module(module, check_options(), use_cache=False), module.main, inputs)
    return dict(zip(shown, results, strict=True))


def judged(drawn: Drawn, found: dict[str, np.ndarray]) -> list[str]:
    """What is wrong with the layers; sums of integers are exact."""
    problems = []
    wanted = run_onnxruntime(drawn.model(found, drawn.codes), drawn.feeds(found, drawn.codes))
    for (name, got), expected in zip(found.items(), wanted, strict=True):
        if got.shape != expected.shape or got.dtype != expected.dtype:
            problems.append(f"{name}: {got.dtype}{got.shape}; expected {expected.dtype}{expected.shape}")
            continue
        off = steps_off(got, expected)
        if off.max(initial=0) > (got.dtype.itemsize <= 2):
            problems.append(f"{name}, of {drawn.layers[name]}: {describe(got, expected)}")
        TALLY["elements"] += off.size
        TALLY["one step off"] += int(np.count_nonzero(off))
    return problems


def describe(got: np.ndarray, expected: np.ndarray) -> str:
    off = steps_off(got, expected)
    place = np.unravel_index(int(off.argmax()), off.shape)
    return f"{np.count_nonzero(off)} of {off.size} elements differ; at {place}: {got[place]}; expected {expected[place]}"


def check_all(seeds: range) -> None:
    """All of them run, whichever fail."""
    skip_where_sums_saturate()
    TALLY.clear()
    failures = []
    for seed in seeds:
        try:
            failures.extend(check(seed))
        except (ForgeError, RuntimeError) as error:
            failures.append(f"seed {seed}: {type(error).__name__}: {error}")
    share = 1 - TALLY["one step off"] / max(TALLY["elements"], 1)
    logging.getLogger(__name__).info("%.4f %% of elements are equal; %s, %d failures", 100 * share, dict(TALLY), len(failures))
    assert not failures, "\n".join(failures)
    assert share >= MIN_EQUAL


def test_random_models() -> None:
    check_all(range(16))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(COUNT))
def test_many_random_models(part: int) -> None:
    check_all(range(FIRST + PART * part, FIRST + PART * (part + 1)))


if __name__ == "__main__":
    for text in sys.argv[1:]:
        sys.stdout.write("\n".join([*check(int(text)), f"seed {text} is done", ""]))
