"""Runs a compiled mutant in a child process, on small random inputs, with guarded memory."""

from __future__ import annotations

import os
import random
import resource
import signal
from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.backends.compiled import CompiledModel
from forge.ir.graph import Graph, Module
from forge.ir.types import TensorType
from tests import guard, guard_runtime

MAX_BYTES = 64 << 20
RUN_SECONDS = 5
_REFUSED, _GUARD = 3, 4


def feeds(module: Module, rng: random.Random) -> list[np.ndarray] | None:
    """Small inputs of main; None where some tensor of the graph is too large, or an input is not a tensor."""
    sizes: dict[str, int] = {}
    if _largest(module.main) > MAX_BYTES:
        return None
    arrays: list[np.ndarray | None] = []
    for value in module.main.inputs:
        if value.name in module.params:
            arrays.append(module.params[value.name])
        elif not isinstance(value.type, TensorType):
            return None
        else:
            for symbol in dims.symbols(*value.shape):
                sizes.setdefault(symbol, rng.choice((0, 1, 2, 3, 5)))
            arrays.append(_contents(value.type, sizes, rng))
    small = [a for a in arrays if a is not None and a.nbytes <= MAX_BYTES]
    return small if len(small) == len(arrays) else None


def _largest(graph: Graph) -> int:
    values = [v for n in graph.nodes for v in n.results] + list(graph.inputs)
    static = [v.type for v in values if isinstance(v.type, TensorType) and v.type.is_static]
    own = max((int(t.size) * dtypes.itemsize(t.dtype) for t in static), default=0)  # type: ignore[arg-type]
    return max([own, *(_largest(r) for n in graph.nodes for r in n.regions)])


def _contents(type_: TensorType, sizes: dict[str, int], rng: random.Random) -> np.ndarray | None:
    shape = [dims.evaluate(d, sizes) for d in type_.shape]
    if any(d < 0 for d in shape) or np.prod([max(1, d) for d in shape], dtype=object) > MAX_BYTES:
        return None
    generator = np.random.default_rng(rng.getrandbits(32))
    numbers = generator.integers(-2, 4, shape)
    if type_.dtype == "string":
        return numbers.astype(str).astype(object)
    return np.asarray(numbers.astype(dtypes.numpy_dtype(type_.dtype)))


def run_in_child(module: Module, compiled: CompiledModel, inputs: Sequence[np.ndarray]) -> str:
    """A note; it begins with ``finding`` where the child crashed or wrote outside of its memory.

    A model may compute for as long as it likes (a loop of 2^62 steps is valid), so that running out of time is not a finding.
    """
    child = os.fork()
    if child == 0:
        _run(module, compiled, inputs)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        expected = number in (signal.SIGALRM, signal.SIGXCPU)
        return "runs long" if expected else f"finding crash: signal {signal.Signals(number).name}"
    code = os.WEXITSTATUS(status)
    return {0: "ran", _REFUSED: "run refused"}.get(code, f"finding guard: exit status {code}")


def _run(module: Module, compiled: CompiledModel, inputs: Sequence[np.ndarray]) -> None:
    """Never returns."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(RUN_SECONDS)
    code = _GUARD
    try:
        runner: Any = guard_runtime.run if _runs_on_host(compiled) else guard.run
        runner(compiled, module.main, inputs)
        code = 0
    except (RuntimeError, MemoryError, OSError):
        code = _REFUSED
    finally:
        os._exit(code)


def _runs_on_host(compiled: CompiledModel) -> bool:
    assert compiled.lowered is not None
    return bool(compiled.lowered.functions[0].program.controls)
