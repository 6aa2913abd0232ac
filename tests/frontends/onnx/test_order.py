"""Nodes that are not in topological order are sorted, with a warning; cycles are refused."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import onnx
import pytest

from forge.errors import ImportModelError
from forge.frontends.onnx import import_model
from forge.frontends.order import OrderedNode, topological
from tests.frontends.onnx.support import evaluate, example, model, ops

CHAIN = "g (float[2] x) => (float[2] y) { a = Relu(x)  b = Exp(a)  c = Neg(b)  y = Tanh(c) }"
BRANCHES = """
g (bool c, float[2] x) => (float[2] y) {
    late = Exp(x)
    y = If (c) <
        then_branch = then () => (float[2] t) { [first] u = Neg(late)  [second] t = Relu(u) },
        else_branch = otherwise () => (float[2] e) { e = Identity(x) }
    >
}"""


def reordered(text: str, *order: int) -> onnx.ModelProto:
    proto = model(text)
    nodes = [proto.graph.node[k] for k in order]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return proto


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (3, 2, 1, 0), (0, 2, 1, 3), (3, 0, 1, 2)])
def test_nodes_out_of_order_are_sorted(order: tuple[int, ...]) -> None:
    proto = reordered(CHAIN, *order)
    with pytest.warns(UserWarning, match="the nodes are sorted; expected topological order"):
        module = import_model(proto)
    assert ops(module) == ["nn.relu", "exp", "negative", "tanh"]
    x = example(0, 2)
    np.testing.assert_array_equal(evaluate(module, x)[0], evaluate(import_model(model(CHAIN)), x)[0])


def test_the_warning_names_the_first_node_out_of_place() -> None:
    message = "node 'Neg_1' (Neg) uses value 'b', which node 'Exp_2' gives after it; the nodes are sorted"
    with pytest.warns(UserWarning, match=re.escape(message)):
        import_model(reordered(CHAIN, 0, 2, 1, 3))


@pytest.mark.filterwarnings("error")
def test_nodes_in_order_give_no_warning() -> None:
    import_model(model(BRANCHES))


def test_what_sub_graphs_use_comes_before_their_node() -> None:
    proto = reordered(BRANCHES, 1, 0)
    with pytest.warns(UserWarning, match=r"node 'If_0' \(If\) uses value 'late', which node 'Exp_1' gives after it"):
        module = import_model(proto)
    np.testing.assert_allclose(evaluate(module, True, np.ones(2, np.float32))[0], [0, 0])


def test_nodes_of_sub_graphs_are_sorted_as_well() -> None:
    proto = model(BRANCHES)
    branch = proto.graph.node[1].attribute[0].g
    assert branch.name == "then"
    branch.node.reverse()
    with pytest.warns(UserWarning, match=r"node 'second' \(Relu\) uses value 'u', which node 'first' gives after it"):
        module = import_model(proto)
    np.testing.assert_allclose(evaluate(module, True, -np.ones(2, np.float32))[0], [0, 0])


def test_a_name_of_the_graph_around_does_not_wait_for_one_that_hides_it() -> None:
    steps = [OrderedNode("1", "Neg", ["a"], ["b"]), OrderedNode("2", "Exp", ["b"], ["a"])]
    assert list(topological(steps, {"a"}.__contains__)) == [0, 1]


@pytest.mark.parametrize(
    ("nodes", "cycle"),
    [
        ("a = Add(x, c)  b = Exp(a)  c = Neg(b)  y = Relu(c)", "'Add_0' -> 'Neg_2' -> 'Exp_1' -> 'Add_0'"),
        ("a = Relu(x)  y = Add(a, y)", "'Add_1' -> 'Add_1'"),
    ],
)
def test_cycles_are_refused(nodes: str, cycle: str) -> None:
    proto = model(f"g (float[2] x) => (float[2] y) {{ {nodes} }}")
    with pytest.raises(ImportModelError, match=f"nodes need each other's results: {cycle}; expected no cycle"):
        import_model(proto)


def test_a_long_chain_that_is_reversed() -> None:
    names = [f"v{k}" for k in range(5001)]
    steps = [OrderedNode(b, "Relu", [a], [b]) for a, b in pairwise(names)][::-1]
    with pytest.warns(UserWarning, match="uses value 'v4999'"):
        order = topological(steps, {"v0"}.__contains__)
    assert [steps[k].name for k in order] == names[1:]
