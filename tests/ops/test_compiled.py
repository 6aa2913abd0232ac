"""Every row of ``tests/ops/cases`` compiled, in guard mode, against the reference: static and symbolic, on three CPUs."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dtypes
from forge.driver import check_options, compile_module
from forge.errors import CompileError
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.op import get_op
from forge.ir.types import TensorType
from forge.target import Target
from tests import guard
from tests.ops import harness
from tests.ops.case import Case
from tests.ops.test_cases import CASES

TARGETS = {"host": "llvm", "avx2": "llvm -mcpu=x86-64-v3", "baseline": "llvm -mcpu=x86-64"}
UNCOMPILED = [c for c in CASES if getattr(get_op(c.op), "lowering_missing", False)]
COMPILED = [c for c in CASES if c not in UNCOMPILED]
VARIANTS = [(c, symbolic) for c in COMPILED for symbolic in ((False, True) if c.symbolic else (False,))]


def is_native(graph: Graph) -> bool:
    values = [*graph.inputs, *graph.outputs]
    return all(isinstance(v.type, TensorType) and v.rank <= guard.MAX_RANK for v in values)


def check_compiled(case: Case, symbolic: bool, target: str) -> None:
    graph = harness.build_graph(case, symbolic)
    if not is_native(graph):
        with pytest.raises(CompileError):
            compile_module(Module(graph), check_options(target), use_cache=False)
        return
    inputs = harness.input_arrays(case)
    expected = run_graph(graph, inputs)
    compiled = compile_module(Module(graph), check_options(target), use_cache=False)
    results = guard.run(compiled, graph, [np.asarray(a, order="C") for a in inputs])
    for value, result, wanted in zip(graph.outputs, results, expected, strict=True):
        assert result.dtype == dtypes.numpy_dtype(value.dtype)
        harness.check_result(case, result, np.asarray(wanted))


def name(variant: tuple[Case, bool]) -> str:
    return f"{variant[0].id}{'-symbolic' if variant[1] else ''}"


@pytest.mark.sampled(9, by_name=True)
@pytest.mark.parametrize("variant", VARIANTS, ids=[name(v) for v in VARIANTS])
def test_on_this_machine(variant: tuple[Case, bool]) -> None:
    check_compiled(*variant, TARGETS["host"])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["avx2", "baseline"])
@pytest.mark.parametrize("variant", VARIANTS, ids=[name(v) for v in VARIANTS])
def test_on_lesser_machines(variant: tuple[Case, bool], target: str) -> None:
    if Target.parse(TARGETS[target]).missing_on_host():
        pytest.skip(f"this machine is below {target}")
    check_compiled(*variant, TARGETS[target])
