"""Which groups share a kernel."""

from __future__ import annotations

import numpy as np

from forge import dims, ops
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Module
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
