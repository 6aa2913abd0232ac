"""Models that run on a few samples and are thrown away."""

from __future__ import annotations

from forge import dims
from forge.driver import check_options, compile_module
from forge.driver.analysis import flops_of
from forge.ir.functions.typical import typical_sizes
from forge.ir.graph import Module
from forge_runtime import Runtime

LIGHT = 1 << 35
"""Operations, at most, that take less time in code that is hardly optimized than LLVM takes to optimize it.

Of a ResNet-50, 16 samples have four times as many, and both take the same.
"""
CALLS = 32


def trial_runtime(module: Module, name: str, calls: int = CALLS) -> Runtime:
    """``main``, compiled so that it has run soonest; results are those of the code that users get.

    Args:
        calls: how many there will be, about.

    Raises:
        CompileError: an operator cannot be compiled.
    """
    sizes = typical_sizes(module.main, {})
    operations = sum(dims.typical(flops_of(node), sizes) for node in module.main.walk())
    return compile_module(module, check_options(), name=name, quick=calls * operations <= LIGHT).runtime()
