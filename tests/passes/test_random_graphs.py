"""Every pass, and all of them in the compiler's order, on random networks: valid graphs, equal results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.driver import GRAPH_STAGES, Compilation, CompileOptions
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.verifier import verify_graph
from forge.target import Target
from tests.passes.checks import AVX2, AVX512, random_input
from tests.passes.random_graphs import image_network, sequence_network

SEEDS = st.integers(0, 2**32)
STAGES = {stage.name: stage for stage in GRAPH_STAGES}


def check_stages(graph: Graph, names: list[str], target: Target) -> None:
    compilation = Compilation(Module(graph), CompileOptions(target=target))
    graph = compilation.graph
    symbols = {"n": 2}
    inputs = [random_input(v.shape, v.dtype, symbols, k) for k, v in enumerate(graph.inputs)]
    expected = run_graph(graph, inputs, symbols)
    output_names, types = graph.output_names, [v.type for v in graph.outputs]
    for name in names:
        if STAGES[name].is_on(compilation.options):
            STAGES[name].run(compilation)
        verify_graph(graph, name)
        assert (graph.output_names, [v.type for v in graph.outputs]) == (output_names, types), name
        for got, want in zip(run_graph(graph, inputs, symbols), expected, strict=True):
            np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want), err_msg=name)
            scale = float(np.max(np.abs(want), initial=1e-3, where=np.isfinite(want)))
            finite = np.isfinite(want)
            assert np.max(np.abs(got - want), initial=0.0, where=finite) <= 1e-4 * scale, name


@settings(max_examples=25)
@given(SEEDS)
def test_image_networks(seed: int) -> None:
    check_stages(image_network(seed), [s.name for s in GRAPH_STAGES], AVX512 if seed % 2 else AVX2)


@settings(max_examples=40)
@given(SEEDS)
def test_sequence_networks(seed: int) -> None:
    check_stages(sequence_network(seed), [s.name for s in GRAPH_STAGES], AVX512)


@pytest.mark.parametrize("name", ["canonicalize", "fuse_patterns", "fold_scale", "choose_layouts", "decompose"])
@settings(max_examples=5)
@given(SEEDS)
def test_one_pass_alone(name: str, seed: int) -> None:
    for network in (image_network, sequence_network):
        check_stages(network(seed), [name], AVX512)
