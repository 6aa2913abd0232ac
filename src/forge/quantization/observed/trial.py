"""Models that run on a few samples and are thrown away."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from forge import dims
from forge.driver import compile_module
from forge.driver.analysis import flops_of
from forge.ir.functions.typical import typical_sizes
from forge.ir.graph import Module
from forge.options import CompileOptions

LIGHT = 1 << 35
"""Operations, at most, that take less time in code that is hardly optimized than LLVM takes to optimize it.

Of a ResNet-50, 16 samples have four times as many, and both take the same.
"""
CALLS = 32

TrialRun = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]
"""Runs a model on arrays by name of input, of which it takes those that it has; returns its outputs."""


def trial_of(module: Module, options: CompileOptions, name: str, calls: int = CALLS) -> TrialRun:
    """Compiles ``main`` so that it has run soonest; results are those of the code that users get.

    Args:
        options: of the compilation; this machine has to run code for their target.
        calls: an estimate of the number of calls.

    Raises:
        CompileError: an operator cannot be compiled; TargetError: this machine lacks features of the target.
    """
    sizes = typical_sizes(module.main, {})
    operations = sum(dims.typical(flops_of(node), sizes) for node in module.main.walk())
    runtime = compile_module(module, options, name=name, quick=calls * operations <= LIGHT).runtime()
    names = runtime.input_names
    return lambda given: runtime.run([given[name] for name in names])
