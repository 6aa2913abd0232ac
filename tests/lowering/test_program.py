"""Which groups share a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dims, ops
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.parser import parse_module
from forge.ir.types import TensorType
from tests import guard

assert ops


def test_groups_whose_results_alone_differ_do_not_share_a_kernel() -> None:
    """The size of a range is in no operand's type."""
    n, m = dims.symbol("n"), dims.symbol("m")
    graph = Graph(name="main")
    x = graph.add_input(TensorType((n,), "float32"), "x")
    y = graph.add_input(TensorType((m,), "float32"), "y")
    builder = Builder(graph)
    zero, one, first = (builder.constant(k, "int64") for k in (0, 1, 0))
    for value in (x, builder.call("concatenate", x, y, axis=0)):
        stop = builder.call("take", builder.call("shape_of", value, dtype="int64"), first, axis=0)
        graph.outputs.append(builder.call("arange", zero, stop, one, dtype="int64"))
    compiled = compile_module(Module(graph, {}), check_options(opt_level=0), use_cache=False)
    first_range, second_range = guard.run(compiled, graph, [np.zeros(3, np.float32), np.zeros(5, np.float32)])
    assert first_range.tolist() == list(range(3))
    assert second_range.tolist() == list(range(8))


LAYERS = """def @main(%x: Tensor[(4, 8), float32]) {
  %0 = {op}(nn.softmax(sum(%x, axis=[0], keepdims=True)), {first});
  %1 = {op}(nn.softmax(%0), {second});
  max(%1, axis=[0])
}"""
"""Two layers between two other kernels, so that what they read and write is aligned alike."""


@pytest.mark.parametrize(("op", "first", "second", "kernels"), [
    ("multiply", "2f", "2f", 1), ("multiply", "2f", "3f", 1), ("add", "2f", "3f", 1),
    ("divide", "2f", "3f", 2), ("power", "2f", "3f", 2), # code that knows them is better
    ("qnn.quantize", "0.01f, 3i8", "0.01f, 4i8", 2), # what reads the first is another layer
])
def test_layers_that_differ_in_numbers_share_a_kernel(op: str, first: str, second: str, kernels: int) -> None:
    text = LAYERS.replace("{op}", op).replace("{first}", first).replace("{second}", second)
    if op == "qnn.quantize":
        text = text.replace("nn.softmax(%0)", "nn.softmax(qnn.dequantize(%0, 0.01f))")
    module = parse_module(text)
    compiled = compile_module(module, check_options(), use_cache=False)
    assert compiled.summary["kernels"] == kernels + 2
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    (got,) = guard.run(compiled, module.main, [x])
    (want,) = run_graph(module.main, [x])
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_a_number_that_one_layer_has_twice() -> None:
    """Each place is read on its own: in another layer, the two numbers are not the same."""
    text = """def @main(%x: Tensor[(4, 8), float32]) {
      %0 = add(multiply(nn.softmax(sum(%x, axis=[0], keepdims=True)), 2f), 2f);
      %1 = add(multiply(nn.softmax(%0), 3f), 4f);
      max(%1, axis=[0])
    }"""
    module = parse_module(text)
    compiled = compile_module(module, check_options(), use_cache=False)
    assert compiled.summary["kernels"] == 3
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_allclose(*guard.run(compiled, module.main, [x]), run_graph(module.main, [x])[0], rtol=1e-6)
