"""Compiled code against the interpreter, on random networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.driver import check_options, compile_module
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from tests.error_model import Judge
from tests.passes.checks import random_input
from tests.passes.random_graphs import image_network, sequence_network

SEEDS = st.integers(0, 2**32)


def check_compiled(graph: Graph, opt_level: int) -> None:
    symbols = {"n": 2}
    inputs = [random_input(v.shape, v.dtype, symbols, k) for k, v in enumerate(graph.inputs)]
    expected = run_graph(graph, inputs, symbols)
    results = compile_module(Module(graph), check_options(opt_level=opt_level), use_cache=False).runtime()(*inputs)
    actual = [np.asarray(r) for r in ([results] if len(expected) == 1 else list(results))]
    if not all(map(is_close, actual, expected)):  # unless what is left of sums of larger numbers decides it
        assert Judge(graph, inputs).judge(actual).problems == []


def is_close(got: np.ndarray, want: np.ndarray) -> bool:
    assert got.shape == want.shape
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(got), finite)
    scale = float(np.max(np.abs(want), initial=1e-3, where=finite))
    return bool(np.max(np.abs(got - want), initial=0.0, where=finite) <= 1e-4 * scale)


@settings(max_examples=8)
@given(SEEDS)
def test_image_networks(seed: int) -> None:
    check_compiled(image_network(seed), opt_level=3)


@settings(max_examples=8)
@given(SEEDS)
def test_sequence_networks(seed: int) -> None:
    check_compiled(sequence_network(seed), opt_level=3)


@pytest.mark.slow
@pytest.mark.parametrize("opt_level", [0, 1, 2, 3, 4])
@settings(max_examples=40)
@given(SEEDS)
def test_every_level(opt_level: int, seed: int) -> None:
    check_compiled(image_network(seed), opt_level)
    check_compiled(sequence_network(seed), opt_level)
