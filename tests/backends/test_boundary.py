"""A backend needs nothing but its record: toys that interpret compile and run models, and passes ask them for layouts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import forge
from forge import backend
from forge.backends import CPU
from forge.driver import GRAPH_STAGES, check_options, compile_module
from forge.driver.pipeline import LINK, STAGES, stages_of
from forge.errors import TargetError
from forge.ir.graph import Module
from forge.ir.interp import run_graph
from forge.target import Target
from tests.backends.toy import BLOCK, BLOCKED, TOY, ToyModel, registered
from tests.passes.checks import random_input
from tests.passes.random_graphs import image_network

BLOCKED_CONVOLUTION = "nn.contrib_conv2d_NCHWc"


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    with registered(TOY, BLOCKED):
        yield


def _compiled(seed: int, target: str) -> ToyModel:
    compiled = compile_module(Module(image_network(seed)), check_options(target))
    assert isinstance(compiled, ToyModel)
    return compiled


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", ["toy", "toy-blocked"])
def test_a_toy_compiles_and_runs(target: str, seed: int) -> None:
    graph = image_network(seed)
    inputs = [random_input(v.shape, v.dtype, {"n": 2}, k) for k, v in enumerate(graph.inputs)]
    results = _compiled(seed, target).runtime()(*inputs)
    for got, want in zip(results if isinstance(results, list) else [results], run_graph(graph, inputs, {"n": 2}), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * float(np.max(np.abs(want), initial=1.0)))


def test_passes_ask_the_backend_for_layouts() -> None:
    blocks, plain = set(), set()
    for seed in range(12):
        for found, target in ((blocks, "toy-blocked"), (plain, "toy")):
            nodes = _compiled(seed, target).module.main.nodes
            found.update(node.operands[0].shape[-1] for node in nodes if node.op == BLOCKED_CONVOLUTION and node.operands[0])
    assert blocks == {BLOCK} and not plain


def test_stages_are_the_shared_ones_and_the_backends() -> None:
    assert stages_of(TOY) == (*GRAPH_STAGES, *TOY.stages)
    assert stages_of(CPU) == STAGES == (*GRAPH_STAGES, *CPU.stages, LINK)
    on = {stage.name for stage in GRAPH_STAGES if stage.is_on(check_options("toy"))}
    assert {stage.name for stage in GRAPH_STAGES if stage.is_on(check_options("llvm"))} - on == {
        stage.name for stage in GRAPH_STAGES if stage.asks_layouts}


def test_what_a_backend_has_not_is_refused_by_name(tmp_path: Path) -> None:
    ir = forge.IRModule(Module(image_network(0)))
    with pytest.raises(TargetError, match="backend toy writes no libraries"):
        ir.compile("toy", output_path=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    target = Target.parse("toy")
    with pytest.raises(TargetError, match="backend toy has no layouts"):
        backend.layouts(target)
    with pytest.raises(TargetError, match="backend toy has no kernels"):
        backend.families(target)


def test_a_kind_has_one_backend() -> None:
    with pytest.raises(ValueError, match="kind 'toy' is that of toy already"):
        backend.register(TOY)
    assert backend.of(Target.parse("llvm")) is CPU
    with pytest.raises(TargetError, match="kind 'cuda' is not supported; expected 'llvm' or 'toy' or 'toy-blocked'"):
        Target.parse("cuda")
