"""Compiles tensor expressions through the generic schedules and runs them on guarded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np

from forge import dtypes, schedule, te
from forge.loops.contract import KernelCall
from forge.target import Target
from forge.te import Tensor
from forge.tir.evaluate import evaluate
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.stmt import Function
from tests.codegen.compiled import build
from tests.kernels.case import reader, writer
from tests.kernels.support import EVERY_TARGET, guarded

__all__ = ["TARGETS", "call_for", "compile_tensors", "function_for", "guarded", "run", "truth"]


TARGETS = EVERY_TARGET


def call_for(operands: Sequence[Tensor], results: Sequence[Tensor], target: str, symbols: Sequence[Var] = ()) -> KernelCall:
    """A kernel call on plain buffers; parameters are the operands, then the results."""
    inputs = [Buffer(f"in{k}", t.dtype, t.shape, writable=False) for k, t in enumerate(operands)]
    outputs = [Buffer(f"out{k}", t.dtype, t.shape) for k, t in enumerate(results)]
    return KernelCall(
        "kernel",
        "test",
        SimpleNamespace(),
        tuple(reader(b) for b in inputs),
        tuple(writer(b) for b in outputs),
        (*inputs, *outputs),
        tuple(symbols),
        Target.parse(target),
    )


def function_for(operands: Sequence[Tensor], results: Sequence[Tensor], target: str, symbols: Sequence[Var] = ()) -> Function:
    """The scheduled loop function of ``results``."""
    return schedule.build(call_for(operands, results, target, symbols), results, operands)


def compile_tensors(operands: Sequence[Tensor], results: Sequence[Tensor], target: str, symbols: Sequence[Var] = ()):  # type: ignore[no-untyped-def]
    return build(function_for(operands, results, target, symbols), target)


def run(
    results: Sequence[Tensor], inputs: Mapping[Tensor, np.ndarray], target: str = "llvm", symbols: Mapping[str, int] | None = None
) -> list[np.ndarray]:
    """Contents of ``results``, computed by compiled code; every buffer ends at an inaccessible page."""
    sizes = symbols or {}
    kernel = compile_tensors(list(inputs), results, target, [te.symbol_var(name) for name in sizes])
    outputs = [guarded(_filled(t, sizes), t.dtype) for t in results]
    kernel(*(guarded(a, t.dtype) for t, a in inputs.items()), *outputs, *sizes.values())
    return outputs


def truth(
    results: Sequence[Tensor], inputs: Mapping[Tensor, np.ndarray], symbols: Mapping[str, int] | None = None
) -> list[np.ndarray]:
    """Contents of ``results`` by NumPy."""
    return [evaluate(t, inputs, symbols) for t in results]


def _filled(tensor: Tensor, sizes: Mapping[str, int]) -> np.ndarray:
    shape = tuple(_extent(e, sizes) for e in tensor.shape)
    return np.full(shape, 1, dtypes.numpy_dtype(tensor.dtype))


def _extent(extent: Expr, sizes: Mapping[str, int]) -> int:
    return int(evaluate(te.compute((), lambda: extent, "extent"), {}, sizes))
