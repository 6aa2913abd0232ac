"""Random ONNX graphs: onnxruntime, the interpreter and compiled code agree within what rounding explains.

``FORGE_RANDOM_ONNX=2000`` sets how many graphs the slow test takes, ``FORGE_RANDOM_ONNX_FIRST`` the seed of the first;
``python -m tests.test_random_onnx SEED`` runs one.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from forge.errors import CompileError, ImportModelError
from forge.frontends.onnx import import_model
from tests.error_model import Judge
from tests.random_checks import compiled_results, failures_of, with_own_constants
from tests.random_onnx import Network, Unfit, random_model, run_onnxruntime
from tests.random_onnx_steps import narrow_sizes

pytest.importorskip("onnxruntime")
COUNT = int(os.environ.get("FORGE_RANDOM_ONNX", "60"))
FIRST = int(os.environ.get("FORGE_RANDOM_ONNX_FIRST", "100"))
MIN_INFORMATIVE = 0.9
MAX_UNPROVEN = 0.04
"""Share of graphs that are refused: two sizes, one of them symbolic, are equal at run time only (the error names both), or a
data-dependent operator has no native code for large slices."""

_SYMBOL = r"[^;]*\b(?!u?int\d|b?float\d)[a-z]+_?\d+\b"
UNPROVEN = re.compile(f"got {_SYMBOL}|expected {_SYMBOL}")
TALLY = Counter[str]()


def check(seed: int, levels: tuple[int, ...] = (0, 3), steps: Sequence[Callable[[Network], None]] = ()) -> list[str]:
    """What is wrong with a graph; the operators that were judged are counted."""
    try:
        drawn = random_model(seed, steps)
        theirs = run_onnxruntime(drawn.model, drawn.inputs)
        module = import_model(drawn.model)
    except Unfit:
        return []
    except ImportModelError as error:
        if not UNPROVEN.search(str(error)):
            raise
        TALLY["unproven"] += 1
        return []
    inputs = [np.asarray(drawn.inputs[v.name], order="C") for v in module.main.inputs]
    judge = Judge(module.main, inputs)
    problems, informative = [], True
    with np.errstate(all="ignore"):
        try:
            compiled = compiled_results(module, inputs, levels)
        except CompileError as error:
            if "which has no native code for this operator yet" not in str(error):
                raise
            TALLY["refused"] += 1
            compiled = []
        for name, results in [("onnxruntime", with_own_constants(module, theirs)), *compiled]:
            try:
                verdict = judge.judge(results)
            except (ValueError, IndexError):  # with other roundings, data-dependent sizes do not fit any more
                informative = False
                break
            informative &= verdict.informative
            problems.extend(f"seed {seed}, opset {drawn.model.opset_import[0].version}, {name}: {p}" for p in verdict.problems)
    TALLY["graphs"] += 1
    TALLY["informative"] += informative
    TALLY.update(node.op_type for node in drawn.model.graph.node)
    return problems


@pytest.mark.parametrize("seed", range(8))
def test_random_models(seed: int) -> None:
    assert not check(seed)


@pytest.mark.parametrize("seed", [12, 18, 22, 46])
def test_random_arithmetic_on_sizes(seed: int) -> None:
    assert not check(seed, (3,), [narrow_sizes])


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_models() -> None:
    TALLY.clear()
    failures = failures_of(check, range(FIRST, FIRST + COUNT))
    logging.getLogger(__name__).info("%s, %d failures", dict(TALLY), len(failures))
    assert not failures, "\n".join(failures)
    assert TALLY["unproven"] + TALLY["refused"] <= MAX_UNPROVEN * COUNT
    assert TALLY["informative"] >= MIN_INFORMATIVE * TALLY["graphs"]


if __name__ == "__main__":
    for text in sys.argv[1:]:
        sys.stdout.write("\n".join([*check(int(text)), f"seed {text} is done", ""]))
