"""The cases that run on another machine: rows of operators, the ONNX backend suite, the small networks of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from forge import dtypes
from forge.driver import check_options, compile_module
from forge.errors import CompileError
from forge.ir.graph import Module
from forge.ir.interp import run_graph, run_module
from forge.target import Target
from tests.foreign.machine import Machine
from tests.ops import harness
from tests.ops.case import Case

Outcome = tuple[str, str]
"""A kind of ``tests.onnx_backend.pool.KINDS``, and why."""


@dataclass(frozen=True)
class Suite:
    """Cases by name.

    Attributes:
        names: of all cases, in order.
        listed: of those that have to pass.
        run: compiles and runs a case, and compares its results with those that it has on any machine.
    """

    names: Callable[[], list[str]]
    listed: Callable[[], set[str]]
    run: Callable[[str, Target, Machine], Outcome]


@cache
def _variants() -> dict[str, tuple[Case, bool]]:
    from tests.ops.test_compiled import VARIANTS, name
    from tests.ops.test_sweep import ROWS

    made = [(case, symbolic) for rows in ROWS.values() for case in rows for symbolic in sorted({False, case.symbolic})]
    found = {name(variant): variant for variant in [*VARIANTS, *made]}
    assert len(found) == len(VARIANTS) + len(made)
    return found


def _run_operator(name: str, target: Target, machine: Machine) -> Outcome:
    from tests.ops.test_compiled import is_native

    case, symbolic = _variants()[name]
    graph = harness.build_graph(case, symbolic)
    if not is_native(graph):
        try:
            compile_module(Module(graph), check_options(target), use_cache=False)
        except CompileError:
            return "passed", ""
        return "wrong", "compiled; expected CompileError"
    compiled = compile_module(Module(graph), check_options(target), use_cache=False)
    inputs = harness.input_arrays(case)
    results = machine.run(compiled, graph, [np.asarray(a, order="C") for a in inputs])
    try:
        for value, result, wanted in zip(graph.outputs, results, run_graph(graph, inputs), strict=True):
            assert result.dtype == dtypes.numpy_dtype(value.dtype), f"got {result.dtype}"
            harness.check_result(case, result, np.asarray(wanted))
    except AssertionError as error:
        return "wrong", str(error)
    return "passed", ""


def _onnx_names() -> list[str]:
    from tests.onnx_backend.cases import case_names

    return case_names()


def _onnx_listed() -> set[str]:
    from tests.onnx_backend.cases import pass_list

    return pass_list("compiled")


def _run_onnx(name: str, target: Target, machine: Machine) -> Outcome:
    from tests.onnx_backend.cases import collect
    from tests.onnx_backend.runtimes import Prepared, imported
    from tests.onnx_backend.worker import tried

    def prepare(model: bytes, _: Sequence[Any]) -> Prepared:
        module = imported(model)
        compiled = compile_module(module, check_options(target))
        return lambda inputs: machine.run(compiled, module.main, inputs)

    return tried(collect()[name], prepare)


def _network_names() -> list[str]:
    from tests.models.test_networks import IDS

    return IDS


def _run_network(name: str, target: Target, machine: Machine) -> Outcome:
    import forge
    from benchmarks import models
    from forge import peers
    from tests.models.test_networks import IDS, LIMIT, SMALL

    network, dynamic = SMALL[IDS.index(name)]
    module = forge.from_onnx(models.build(network, dynamic=dynamic, small=True)).mod
    feed = models.inputs(network, small=True)
    compiled = compile_module(module, check_options(target))
    results = machine.run(compiled, module.main, [feed[value.name] for value in module.main.inputs])
    found = peers.disagreement(results, run_module(module, feed))
    return ("passed", "") if found <= LIMIT else ("wrong", f"results differ by {found:.3g}; expected at most {LIMIT:g}")


SUITES = {
    "operators": Suite(lambda: list(_variants()), lambda: set(_variants()), _run_operator),
    "onnx": Suite(_onnx_names, _onnx_listed, _run_onnx),
    "networks": Suite(_network_names, lambda: set(_network_names()), _run_network),
}
