"""Constants of strings: packed into the weights, found again at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.driver import compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.interp import run_graph
from forge.ir.types import TensorType
from forge.ops.core.strings import unpack_string_constants
from tests import guard


def text(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


def test_a_constant_becomes_bytes_and_an_unpack() -> None:
    builder = Builder()
    graph = builder.output(builder.constant(text(["ab", ""], ["é", "c"])))
    unpack_string_constants(graph)
    packed, unpack = graph.nodes
    assert packed.results[0].constant is not None
    assert packed.results[0].constant.tobytes() == np.array([2, 2, 4, 5]).tobytes() + "abéc".encode()
    assert unpack.op == "string.unpack" and unpack.attrs.shape == (2, 2)
    assert run_graph(graph, [])[0].tolist() == [["ab", ""], ["é", "c"]]


@pytest.mark.parametrize(
    "values", [text("a", "é\0", ""), np.empty((0,), object), np.empty((2, 0), object), np.array("x", object)]
)
def test_a_constant_as_output(values: np.ndarray) -> None:
    builder = Builder()
    constant = builder.constant(values)
    graph = builder.output(constant, constant)
    compiled = compile_module(Module(graph), use_cache=False)
    for found in (*guard.run(compiled, graph, []), *compiled.runtime().run([])):
        assert found.shape == values.shape and found.tolist() == values.tolist()


def test_equal_constants_take_one_place() -> None:
    builder = Builder()
    x = builder.input(TensorType((2,), "string"), "x")
    first, second = (builder.constant(text("same", "words")) for _ in range(2))
    graph = builder.output(builder.call("string.concat", x, first), builder.call("string.concat", second, x))
    compiled = compile_module(Module(graph), use_cache=False)
    assert [v.tolist() for v in compiled.runtime().run([text("a", "b")])] == [["asame", "bwords"], ["samea", "wordsb"]]
    assert compiled.weights.size == 2 * 8 + len("samewords")
