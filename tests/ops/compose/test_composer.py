"""The composer: what it folds, broadcasts and knows."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dims
from forge.dims import symbol
from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.ir.builder import Builder
from forge.ir.interp import run_graph
from forge.ir.types import TensorType
from forge.ops.core.composer import Composer, trimmed
from forge.ops.core.term import Term


@pytest.fixture
def g() -> Composer:
    return Composer(Builder())


def test_small_constants_are_computed_at_once(g: Composer) -> None:
    total = g.call("add", g.constant([1, 2]), g.constant([3, 4]))
    assert total.constant is not None
    assert total.constant.tolist() == [4, 6]
    assert all(node.op == "constant" for node in g.builder.graph.nodes)


def test_constants_are_computed_before_a_node_too() -> None:
    builder = Builder()
    x = builder.input(TensorType((2,), "float32"))
    node = builder.node("negative", [x], {})
    g = Composer(Builder(builder.graph, before=node))
    assert g.call("add", g.constant(1), g.constant(2)).constant == 3
    assert builder.graph.nodes[-1] is node


def test_shapes_are_known_values(g: Composer) -> None:
    x = g.builder.input(TensorType((symbol("n"), 3), "float32"))
    assert g.dims(g.call("shape_of", x)) == (symbol("n"), 3)
    assert g.ints(g.call("shape_of", x)) is None
    assert g.ints(g.extent(x, 1)) == (3,)
    assert g.dims(g.extent(x, 0)) == (symbol("n"),)
    with pytest.raises(OpAttributeUnimplemented, match="size is computed at run time"):
        g.required_ints(g.extent(x, 0), "size")


def test_symbols_broadcast_when_the_run_says_so(g: Composer) -> None:
    a, b = (g.builder.input(TensorType((symbol(n), 2), "float32")) for n in "ab")
    graph = g.builder.output(g.call("add", a, b))
    one, three = np.ones((1, 2), np.float32), np.ones((3, 2), np.float32)
    assert run_graph(graph, [one, three])[0].tolist() == [[2, 2]] * 3


def test_counting_has_the_size_that_is_known(g: Composer) -> None:
    x = g.builder.input(TensorType((symbol("n"),), "float32"))
    numbers = g.count(g.extent(x, 0), x.shape[0])
    assert dims.equal(numbers.shape[0], symbol("n"))
    assert run_graph(g.builder.output(numbers), [np.zeros(3, np.float32)])[0].tolist() == [0, 1, 2]


def test_axes_count_from_the_end(g: Composer) -> None:
    assert g.axis(-1, 3) == 2
    with pytest.raises(OpAttributeInvalid, match="got 3; expected -3 to 2"):
        g.axis(3, 3)


def test_nothing_to_do_adds_no_node(g: Composer) -> None:
    x = g.builder.input(TensorType((2, 3), "float32"))
    assert g.cast(x, "float32") is x
    assert g.reshape(x, (2, 3)) is x
    assert trimmed([x, None, x, None, None]) == [x, None, x]


def test_formulas_read_as_formulas(g: Composer) -> None:
    x = Term(g, g.builder.input(TensorType((3,), "float32")))
    formula = (x < 0).both(x > -2).where(1 - x * 2, abs(x) / 4 + x.maximum(0))
    (got,) = run_graph(g.builder.output(formula.value), [np.array([-1.0, -4.0, 2.0], np.float32)])
    assert got.tolist() == [3, 1, 2.5]


def test_sizes_are_numbers_unless_an_importer_knows_better(g: Composer) -> None:
    assert g.ints(g.vector([2, 3])) == (2, 3)
    with pytest.raises(OpAttributeUnimplemented, match="symbolic size n"):
        g.vector([2, symbol("n")])
