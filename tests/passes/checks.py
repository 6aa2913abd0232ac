"""Checks of passes: text before and after, and equal results on random inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import forge.ops  # noqa: F401  (registers the operators)
from forge import dims, dtypes
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.parser import parse_module
from forge.ir.verifier import verify_graph
from forge.options import CompileOptions
from forge.passes.base import GraphPass
from forge.target import Target

AVX512 = Target.parse("llvm -mcpu=x86-64-v4")
AVX2 = Target.parse("llvm -mcpu=x86-64-v3")


def parse(text: str, constants: Sequence[np.ndarray] = ()) -> Graph:
    """The graph of ``def @main``; ``meta[relay.Constant][k]`` are ``constants``."""
    return parse_module(text, list(constants)).main


def text_of(graph: Graph) -> str:
    """The body of the graph's text, one stripped line a node."""
    return "\n".join(line.strip() for line in str(Module(graph)).splitlines()[1:] if line.strip() != "}")


def rewrite(run: GraphPass, graph: Graph, target: Target = AVX512) -> int:
    """Runs the pass; the graph must stay valid, and a second run must find nothing to do."""
    count = run(graph, CompileOptions(target=target))
    verify_graph(graph)
    assert run(graph, CompileOptions(target=target)) == 0, "the pass is not idempotent"
    return count


def check(
    run: GraphPass, graph: Graph, target: Target = AVX512, symbols: Mapping[str, int] | None = None, tolerance: float = 1e-5
) -> int:
    """Rewrites ``graph`` and compares its results on random inputs; the number of changes."""
    inputs = [random_input(value.shape, value.dtype, symbols or {}, k) for k, value in enumerate(graph.inputs)]
    names = graph.output_names
    types = [v.type for v in graph.outputs]
    expected = run_graph(graph, inputs, symbols)
    count = rewrite(run, graph, target)
    assert graph.output_names == names
    assert [v.type for v in graph.outputs] == types
    for got, want in zip(run_graph(graph, inputs, symbols), expected, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if dtypes.is_float(dtypes.canonical(want.dtype)):
            scale = float(np.max(np.abs(want), initial=1e-6, where=np.isfinite(want)))
            np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=tolerance)
        else:
            np.testing.assert_array_equal(got, want)
    return count


def random_input(shape: Sequence[dims.Dim], dtype: str, symbols: Mapping[str, int], seed: int) -> np.ndarray:
    extents = tuple(dims.evaluate(d, dict(symbols)) for d in shape)
    rng = np.random.default_rng(seed)
    if dtypes.is_float(dtype):
        return rng.standard_normal(extents).astype(dtypes.numpy_dtype(dtype))
    return rng.integers(0, 2 if dtype == "bool" else 5, extents).astype(dtypes.numpy_dtype(dtype))


def weights(*shape: int, seed: int = 7) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
