"""A step of a decoder writes its new keys and values and its results: nothing grows with the length of the cache."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dims
from forge.compose.caching import cache_update
from forge.dims import Dim
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.functions.states import State
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.core.composer import Composer
from forge.tir.library import StateMemory
from tests.lowering import entry
from tests.passes.checks import random_input

HEADS, SHARED, DEPTH, WIDTH = 4, 2, 8, 16


def appending(shared: int) -> Graph:
    """One token of a decoder layer; keys and values of ``shared`` heads are repeated as exporters do."""
    builder, past = Builder(), dims.symbol("past")
    x = builder.input(TensorType((1, 1, WIDTH), "float32"), "x")
    mask = builder.input(TensorType((1, 1, 1, past + 1), "float32"), "mask")
    caches = [builder.input(TensorType((1, shared, past, DEPTH), "float32"), name) for name in ("key", "value")]
    query, *new = (_projected(builder, x, heads, k) for k, heads in enumerate((HEADS, shared, shared)))
    key, value = (builder.call("concatenate", old, added, axis=2) for old, added in zip(caches, new))
    graph = builder.output(_attention(builder, query, key, value, mask, past + 1), key, value)
    graph.states = {"key": State(1), "value": State(2)}
    return graph


def _weight(*shape: int) -> np.ndarray:
    return random_input(shape, "float32", {}, sum(shape))


def _projected(builder: Builder, x: Value, heads: int, seed: int) -> Value:
    y = builder.call("nn.matmul", x, builder.constant(_weight(WIDTH, heads * DEPTH) * (seed + 1)))
    return builder.call("transpose", builder.call("reshape", y, newshape=(1, 1, heads, DEPTH)), axes=(0, 2, 1, 3))


def _attention(builder: Builder, query: Value, key: Value, value: Value, mask: Value, length: Dim) -> Value:
    key, value = (_repeated(builder, v, length) for v in (key, value))
    scores = builder.call("nn.matmul", query, builder.call("transpose", key, axes=(0, 1, 3, 2)))
    shares = builder.call("nn.softmax", builder.call("add", scores, mask), axis=-1)
    return builder.call("transpose", builder.call("nn.matmul", shares, value), axes=(0, 2, 1, 3))


def _repeated(builder: Builder, value: Value, length: Dim) -> Value:
    heads = value.shape[1]
    if heads == HEADS:
        return value
    wide = builder.call("expand_dims", value, axis=2)
    wide = builder.call("broadcast_to", wide, shape=(1, heads, dims.floordiv(HEADS, heads), length, DEPTH))
    return builder.call("reshape", wide, newshape=(1, HEADS, length, DEPTH))


@pytest.mark.parametrize("shared", [HEADS, SHARED])
def test_what_a_step_writes_does_not_depend_on_past_and_capacity(shared: int) -> None:
    graph = appending(shared)
    compiled = compile_module(Module(graph.copy()), check_options("llvm"), use_cache=False)
    assert compiled.lowered is not None
    assert [b.memory for b in compiled.lowered.library.programs[0].bindings] == [StateMemory.APPENDED] * 2
    written = []
    for past, room in ((1, 0), (1, 4096), (9, 64), (40, 0)):
        inputs = [random_input(v.shape, v.dtype, {"past": past}, k) for k, v in enumerate(graph.inputs)]
        stored = [np.ascontiguousarray(a.transpose(2, 0, 1, 3)) if a.ndim == 4 and k > 1 else a for k, a in enumerate(inputs)]
        results, counts = entry.run(compiled, stored, {"past": past}, room)
        wanted = run_graph(graph, inputs)
        np.testing.assert_allclose(results[0], wanted[0], rtol=1e-4, atol=1e-4)
        for got, want in zip(results[1:], wanted[1:], strict=True):
            np.testing.assert_allclose(got, want.transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-5)
        written.append(counts)
    assert all(counts == written[0] for counts in written)
    assert written[0]["input"] == 2 * shared * DEPTH * 4


@pytest.mark.parametrize("op", ["dynamic_update_slice", "scatter_nd"])
@pytest.mark.parametrize("capacity", [4, 32, 500])
def test_an_update_of_a_cache_of_fixed_size_writes_one_row(op: str, capacity: int) -> None:
    builder = Builder()
    cache = builder.input(TensorType((capacity, 6), "float32"), "cache")
    row = builder.input(TensorType((1, 6), "float32"), "row")
    if op == "scatter_nd":
        update = builder.call(op, cache, builder.input(TensorType((1, 1), "int64"), "at"), row)
        place = np.array([[3]])
    else:
        update = builder.call(op, cache, row, builder.input(TensorType((2,), "int64"), "at"))
        place = np.array([3, 0])
    graph = builder.output(update, builder.call("sum", update, axis=(0,)))
    graph.states["cache"] = State(0)
    compiled = compile_module(Module(graph.copy()), check_options("llvm"), use_cache=False)
    inputs = [random_input((capacity, 6), "float32", {}, 0), random_input((1, 6), "float32", {}, 1), place]
    results, counts = entry.run(compiled, inputs, {})
    for got, want in zip(results, run_graph(graph, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert counts == {"input": 24, "output": 24, "arena": 0}


@pytest.mark.parametrize("circular", [False, True])
def test_a_cache_that_samples_fill_from_their_own_positions(circular: bool) -> None:
    written = []
    for capacity in (4, 100):
        builder = Builder()
        past = builder.input(TensorType((2, 3, capacity, 4), "float32"), "past")
        new = builder.input(TensorType((2, 3, 1, 4), "float32"), "new")
        positions = builder.input(TensorType((2,), "int64"), "positions")
        graph = builder.output(cache_update(Composer(builder), past, new, positions, circular=circular))
        graph.states["past"] = State(0)
        compiled = compile_module(Module(graph.copy()), check_options("llvm"), use_cache=False)
        inputs = [random_input(v.shape, v.dtype, {}, k) for k, v in enumerate(graph.inputs[:2])]
        inputs.append(np.array([capacity - 1, 2]))
        results, counts = entry.run(compiled, inputs, {})
        np.testing.assert_array_equal(results[0], run_graph(graph, inputs)[0])
        written.append(counts)
    assert written[0] == written[1]
    assert written[0]["input"] == 2 * 3 * 4 * 4
