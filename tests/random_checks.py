"""What checks of random models of several formats share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from forge.driver import check_options, compile_module
from forge.errors import ForgeError
from forge.ir.graph import Module
from forge.ir.op import Accuracy
from tests import guard, guard_runtime
from tests.ops.compare import mismatch
from tests.random_control import has_regions


def with_own_constants(module: Module, results: list[np.ndarray]) -> list[np.ndarray]:
    """``results`` with what the importer has computed already, which the judge takes for exact, in the place of the same."""
    found = []
    for value, theirs in zip(module.main.outputs, results, strict=True):
        producer = value.producer
        copied = producer.operands[0] if producer is not None and producer.op == "copy" else None
        ours = (copied or value).constant
        if ours is not None:
            problem = mismatch(theirs, ours, Accuracy.ACCUMULATING)
            assert problem is None, f"constant {value.name}: {problem}"
        found.append(theirs if ours is None else ours)
    return found


def compiled_results(
    module: Module, inputs: list[np.ndarray], levels: tuple[int, ...]
) -> list[tuple[str, list[np.ndarray]]]:
    """Outputs of compiled code, guarded."""
    found = []
    for level in levels:
        compiled = compile_module(module, check_options(opt_level=level), use_cache=False)
        runner = guard_runtime.run if has_regions(module.main) else guard.run
        found.append((f"compiled at level {level}", runner(compiled, module.main, inputs)))
    return found


def failures_of(check: Callable[[int], Sequence[str]], seeds: Sequence[int]) -> list[str]:
    """What ``check`` says of all seeds, whichever fail."""
    failures: list[str] = []
    for seed in seeds:
        try:
            failures.extend(check(seed))
        except (ForgeError, RuntimeError, AssertionError) as error:
            failures.append(f"seed {seed}: {type(error).__name__}: {error}")
    return failures
