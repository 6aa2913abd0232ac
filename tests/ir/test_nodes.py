"""Graphs, nodes, values, the builder: construction, queries and low-level edits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.errors import InvalidGraphError, TypeInferenceError
from forge.ir import Builder, Graph, Module, TensorType
from forge.ir.nodes import ConstantAttrs, Node, Value
from forge.ir.op import get_op, is_operator
from forge.ir.parser import parse_module
from forge.ir.types import SequenceType
from forge.ir.verifier import verify


def example() -> Graph:
    text = (
        "def @main(%x: Tensor[(n, 4), float32]) {\n"
        '  %c1 = nn.leaky_relu(%x, alpha=0.1f) /* name="first" */;\n  %c2 = nn.leaky_relu(%c1, alpha=0.5f);\n'
        "  %s = split(%c2, indices_or_sections=2, axis=1);\n  (%s.1, add(%c1, %c2))\n}"
    )
    return parse_module(text).main


def test_find_and_select() -> None:
    graph = example()
    assert [n.op for n in graph.select("nn.*")] == ["nn.leaky_relu", "nn.leaky_relu"]
    assert graph.find("first") is graph.find("c1") is graph.select("nn.leaky_relu", alpha=0.1)[0]
    assert graph.find("nn.*", lambda n: n.attributes["alpha"] > 0.3).result.name == "c2"
    assert graph.select("split", indices_or_sections=2, axis=1) == [graph.find("split")]
    assert graph.select("split", depth=1) == []
    with pytest.raises(
        InvalidGraphError, match=r"find: no node matches 'conv', axis=\[1\]; the graph has: add, nn.leaky_relu, split"
    ):
        graph.find("conv", axis=[1])


def test_select_compares_lists_and_tuples() -> None:
    graph = parse_module("def @main(%x: Tensor[(2, 3), float32]) { transpose(%x, axes=[1, 0]) }").main
    assert len(graph.select("transpose", axes=[1, 0])) == len(graph.select(axes=(1, 0))) == 1


def test_neighbours() -> None:
    graph = example()
    c1, c2, split, add = graph.nodes
    assert c1.pred == [] and c2.pred == [c1] and add.pred == [c1, c2]
    assert c1.succ == [c2, add] and c2.succ == [split, add] and split.succ == []


def test_attributes_with_defaults() -> None:
    node = Builder().graph
    x = node.add_input(TensorType((2, 3), "float32"))
    assert Builder(node).call("nn.softmax", x).producer.attributes == {"axis": -1}  # type: ignore[union-attr]


def test_output_names_are_unique() -> None:
    graph = Graph()
    x = graph.add_input(TensorType((), "bool"), "output_1")
    y = graph.add_input(TensorType((), "bool"), "")
    z = graph.add_input(TensorType((), "bool"), "output_1_")
    graph.outputs = [x, y, x, z, y]
    assert graph.output_names == ["output_1", "output_1__", "output_2", "output_1_", "output_4"]


def test_only_result() -> None:
    with pytest.raises(InvalidGraphError, match=r"node %\d+ \(split\): has 2 results; expected one"):
        _ = example().find("split").result


def test_labels() -> None:
    graph = example()
    assert [n.label for n in graph] == ["first (nn.leaky_relu)", "c2 (nn.leaky_relu)", "%2 (split)", "%3 (add)"]


def test_only_tensors_of_known_rank_have_a_shape() -> None:
    value = Graph().add_input(SequenceType(TensorType((), "bool")), "s")
    with pytest.raises(InvalidGraphError, match=r"value %s: got Sequence\[bool\]; expected a tensor of known rank"):
        _ = value.shape


def test_insert_refuses_a_node_of_a_graph() -> None:
    graph = example()
    with pytest.raises(InvalidGraphError, match="is in a graph already"):
        Graph().insert(graph.nodes[0])


def test_remove_refuses_what_is_used() -> None:
    graph = example()
    with pytest.raises(InvalidGraphError, match=r"node first \(nn.leaky_relu\): result %c1 is still used"):
        graph.remove(graph.nodes[0])
    with pytest.raises(InvalidGraphError, match="is still used"):
        graph.remove(graph.find("split"))


def test_use_counts() -> None:
    graph = example()
    assert [graph.use_count(v) for n in graph for v in n.results] == [2, 2, 0, 1, 1]
    graph.replace_uses(graph.nodes[0].result, graph.inputs[0])
    assert graph.use_count(graph.inputs[0]) == 3
    verify(Module(graph))


def test_sort_keeps_the_order_where_it_is_free() -> None:
    graph = example()
    ops = list(graph.nodes)
    graph.nodes = [ops[2], ops[3], ops[0], ops[1]]
    graph.sort()
    assert list(graph.nodes) == ops
    verify(Module(graph))


def test_sort_of_a_long_chain_needs_no_recursion() -> None:
    graph = Graph()
    builder = Builder(graph)
    x = builder.input(TensorType((), "float32"), "x")
    for _ in range(5000):
        x = builder.call("copy", x)
    graph.outputs = [x]
    graph.nodes = reversed(graph.nodes)
    graph.sort()
    verify(Module(graph))


def test_sort_leaves_values_of_other_graphs_to_the_verifier() -> None:
    graph, other = example(), example()
    graph.find("add").set_operand(0, other.find("c1").result)
    graph.sort()
    assert len(graph.nodes) == 4


def test_walk_goes_into_regions() -> None:
    module = parse_module(
        "def @main(%c: bool, %x: float32) { %0 = if(%c, %x) { then_branch = fn (%a: float32) { exp(%a) }, "
        "else_branch = fn (%a: float32) { abs(%a) } }; nn.relu(%0) }"
    )
    assert [n.op for n in module.main.walk()] == ["if", "exp", "abs", "nn.relu"]


def test_a_copy_shares_nothing_but_arrays() -> None:
    graph = parse_module(
        "def @main(%c: bool, %x: Tensor[(3), float32]) { if(%c, add(%x, meta[relay.Constant][0])) { "
        "then_branch = fn (%a: Tensor[(3), float32]) { exp(%a) }, else_branch = fn (%a: Tensor[(3), float32]) { %a } } }",
        [np.ones(3, np.float32)],
    ).main
    clone = graph.copy()
    verify(Module(clone))
    assert not {*graph.walk()} & {*clone.walk()}
    assert clone.find("constant").attrs.value is graph.find("constant").attrs.value
    assert clone.find("if").regions[0] is not graph.find("if").regions[0]


def test_module_prints_itself() -> None:
    module = Module(example())
    assert repr(module) == str(module)
    assert str(module).startswith("def @main(%x: Tensor[(n, 4), float32]) {\n")
    typed = module.with_types()
    assert "/* ty=Tensor[(n, 4), float32] */" in str(typed)
    assert typed.graphs is module.graphs


def test_a_broken_graph_still_prints() -> None:
    graph, other = example(), example()
    graph.find("add").set_operand(0, other.find("c1").result)
    graph.find("split").operands.clear()
    assert '%"undefined c1"' in str(Module(graph))


def test_constants_are_made_native() -> None:
    builder = Builder()
    assert builder.constant(np.arange(3, dtype=">i4")).constant.dtype == np.dtype("int32")  # type: ignore[union-attr]
    assert builder.constant(np.array(["a", "bc"])).constant.dtype == object  # type: ignore[union-attr]
    assert builder.constant(1.5, "bfloat16").dtype == "bfloat16"
    weights = np.ones(4, np.float32)
    assert np.shares_memory(ConstantAttrs(weights).value, weights)


def test_absent_operands_at_the_end_are_left_out() -> None:
    builder = Builder()
    x = builder.input(TensorType((3,), "float32"))
    high = builder.constant(1.0, "float32")
    assert builder.node("clip", [x, None, None], {}).operands == [x]
    assert builder.node("clip", [x, None, high], {}).operands == [x, None, high]


@pytest.mark.parametrize(
    ("op", "count", "attributes", "message"),
    [
        ("nn.rleu", 1, {}, "unknown operator 'nn.rleu'; did you mean nn.relu"),
        ("add", 1, {}, "add: got 1 operands; expected 2"),
        ("clip", 4, {}, "clip: got 4 operands; expected 1 to 3"),
        ("if", 0, {}, "if: got 0 operands; expected at least 1"),
        ("if", 1, {}, "if: got 0 regions; expected 2"),
        ("nn.softmax", 1, {"axes": 1}, "nn.softmax: unknown attribute 'axes'; expected one of: axis"),
        ("nn.softmax", 1, {"axis": "1"}, "nn.softmax: attribute 'axis': got '1'; expected int"),
        ("nn.softmax", 1, {"axis": True}, "nn.softmax: attribute 'axis': got True; expected int"),
        ("transpose", 1, {"axes": (0, 1.0)}, r"transpose: attribute 'axes': got \(0, 1.0\); expected tuple\[int, ...\] | None"),
        ("cast", 1, {}, "cast: attribute 'dtype' is missing; expected str"),
    ],
)
def test_builder_mistakes(op: str, count: int, attributes: dict[str, object], message: str) -> None:
    builder = Builder()
    x = builder.input(TensorType((2, 3), "float32"))
    with pytest.raises(InvalidGraphError, match=message):
        builder.node(op, [x] * count, attributes)
    assert not builder.graph.nodes and not x.uses


def test_attributes_are_normalized() -> None:
    builder = Builder()
    x = builder.input(TensorType((2, 3), "float32"))
    assert builder.call("transpose", x, axes=[np.int64(1), 0]).producer.attrs == get_op("transpose").make_attrs({"axes": (1, 0)})  # type: ignore[union-attr]
    alpha = builder.call("nn.leaky_relu", x, alpha=1).producer.attributes["alpha"]  # type: ignore[union-attr]
    assert alpha == 1.0 and type(alpha) is float
    n = dims.symbol("n")
    assert builder.call("reshape", x, newshape=[n, -1]).producer.attributes["newshape"] == (n, -1)  # type: ignore[union-attr]


def test_any_failure_of_inference_is_an_error_of_the_catalogue() -> None:
    builder = Builder()
    s = builder.input(SequenceType(TensorType((), "bool")))
    with pytest.raises(InvalidGraphError):
        builder.call("nn.relu", s)
    with pytest.raises(InvalidGraphError):
        builder.call("split", builder.input(TensorType((4,), "float32")), indices_or_sections=0)


def test_types_refuse_what_is_no_size() -> None:
    for shape in ((-1,), (True,), (1.0,), ("n",), (2**62, 4)):
        with pytest.raises(TypeInferenceError):
            TensorType(shape, "float32")  # type: ignore[arg-type]
    with pytest.raises(TypeInferenceError, match="unknown dtype 'float'"):
        TensorType((), "float")
    assert TensorType((np.int64(2), 0, 2**61), "bool").shape == (2, 0, 2**61)


def test_registry() -> None:
    assert is_operator("nn.conv2d") and not is_operator("nn.conv9d")
    with pytest.raises(InvalidGraphError, match=r"unknown operator 'nn.conv9d'; did you mean nn\.conv"):
        get_op("nn.conv9d")


def test_node_repr() -> None:
    assert repr(example().nodes[0]) == "<node first: nn.leaky_relu>"
    assert repr(Node(get_op("add"), [], None, [])) == "<node: add>"


def test_nodes_and_values_without_name_are_called_as_in_the_text() -> None:
    text = "def @main(%x: Tensor[(4), float32]) { %0 = add(%x, 2f); %1 = split(%0, indices_or_sections=2); (%1.1, %0) }"
    graph = parse_module(text).main
    add, split = graph.find("add"), graph.find("split")
    assert [add.number, split.number, graph.find("constant").number] == [0, 1, None]
    assert [repr(add), repr(split)] == ["<node %0: add>", "<node %1: split>"]
    assert repr(split.results[1]) == "<value %1.1: Tensor[(2), float32]>"
    assert repr(graph.inputs[0]) == "<input %x: Tensor[(4), float32]>"
    assert add.label == "%0 (add)" and add.result.label == "result 0 of %0 (add)"
    assert Node(get_op("add"), [], None, []).label == "(add)"


def test_a_graph_prints_as_in_its_module() -> None:
    module = parse_module("def @main(%x: bool) { %0 = @f(%x); logical_not(%0) } def @f(%x: bool) { logical_not(%x) }")
    assert str(module.graphs["f"]) in str(module)
    assert str(module.graphs["f"]) == "def @f(%x: bool) {\n  logical_not(%x)\n}\n"
    assert "%0 = @f(%x)" in str(module.main)
    assert repr(module.main) == "<graph @main: 1 inputs, 2 nodes, 1 outputs>"
    assert str(Graph([Value(TensorType((), "bool"), "x")])) == "fn (%x: bool) {\n  ()\n}\n"


def test_a_graph_has_the_length_of_its_iteration_and_is_never_false() -> None:
    graph = example()
    assert len(graph) == len(list(graph)) == len(graph.nodes)
    assert len(Graph()) == 0 and Graph()


def test_inputs_answer_what_nodes_are_asked() -> None:
    graph = example()
    x = graph.inputs[0]
    assert (x.op, x.attributes, x.operands, x.results, x.pred) == ("input", {}, [], [x], [])
    assert x.succ == list(dict.fromkeys(n for n in graph if x in n.operands))
    assert x.size == x.tensor_type.size
    node = next(n for n in graph if len(n.results) == 2)
    for value in node.results:
        assert (value.op, value.attributes, value.operands, value.results, value.pred) == (
            node.op, node.attributes, node.operands, node.results, node.pred)
        assert value.succ == [n for n in graph if value in n.operands]


def chain(count: int) -> Graph:
    builder = Builder()
    x = builder.input(TensorType((4,), "float32"), "x")
    for number in range(count):
        builder.call("exp", x, name=str(number))
    return builder.graph


def names(nodes: Iterable[Node]) -> str:
    return " ".join(n.name for n in nodes)


def test_nodes_are_a_sequence() -> None:
    nodes = chain(5).nodes
    assert (len(nodes), nodes[0].name, nodes[-1].name, nodes[3].name, nodes[-5].name) == (5, "0", "4", "3", "0")
    assert names(nodes[1:4:2]) == "1 3" and names(reversed(nodes)) == "4 3 2 1 0" and nodes[2] in nodes
    assert names(nodes.before(nodes[3], 2)) == "1 2" and names(nodes.before(None, 9)) == names(nodes)
    for index in (5, -6):
        with pytest.raises(IndexError, match=f"node {index} of 5"):
            nodes[index]


def test_nodes_go_before_others() -> None:
    graph = chain(3)
    one = graph.nodes[1]
    for name in ("a", "b"):
        Builder(graph, before=one).call("abs", graph.inputs[0], name=name)
    assert names(graph.nodes) == "0 a b 1 2"
    graph.nodes = list(graph.nodes)[::-1]
    assert names(graph.nodes) == "2 1 b a 0" and all(n.graph is graph for n in graph.nodes)
    graph.nodes = [one]
    assert names(graph.nodes) == "1" and one.graph is graph


def test_a_node_is_inserted_and_removed_in_its_own_graph() -> None:
    graph, other = chain(2), chain(2)
    with pytest.raises(InvalidGraphError, match=r"node 0 \(exp\): is not among the nodes of this graph"):
        other.remove(graph.nodes[0])
    with pytest.raises(InvalidGraphError, match=r"node 0 \(exp\): is not in the graph that new \(abs\) goes into"):
        Builder(other, before=graph.nodes[0]).call("abs", other.inputs[0], name="new")
    node = graph.nodes[0]
    graph.remove(node)
    with pytest.raises(InvalidGraphError, match="is in no graph"):
        graph.nodes.remove(node)


@pytest.mark.parametrize(("edit", "forwards", "backwards"), [
    (lambda g, n: g.remove(n["2"]), "0 1 2 3 4", "4 3 2 1 0"),
    (lambda g, n: (g.remove(n["1"]), g.remove(n["2"]), g.remove(n["3"])), "0 1 2 4", "4 3 2 0"),
    (lambda g, n: (g.remove(n["2"]), g.insert(n["2"])), "0 1 2 3 4 2", "4 3 2 1 0"),
    (lambda g, n: (g.remove(n["2"]), g.insert(n["2"], n["0"])), "0 1 2 3 4", "4 3 2 1 0 2"),
    (lambda g, n: Builder(g, n["2"]).call("abs", g.inputs[0], name="new"), "0 1 2 3 4", "4 3 2 new 1 0"),
    (lambda g, n: Builder(g, n["3"]).call("abs", g.inputs[0], name="new"), "0 1 2 new 3 4", "4 3 2 1 0"),
    (lambda g, n: (g.remove(n["2"]), chain(1).insert(n["2"])), "0 1 2 3 4", "4 3 2 1 0"),
])  # fmt: skip
def test_what_a_loop_sees_of_edits_at_node_2(edit: Callable[..., Any], forwards: str, backwards: str) -> None:
    for direction, expected in ((iter, forwards), (reversed, backwards)):
        graph = chain(5)
        nodes, seen = {n.name: n for n in graph.nodes}, []
        for node in direction(graph.nodes):  # type: ignore[operator]
            if node.name == "2" and "2" not in seen:
                edit(graph, nodes)
            seen.append(node.name)
        assert " ".join(seen) == expected


def test_edits_take_constant_time() -> None:
    """No list is searched: 200,000 edits at all places of a graph, of nodes that use the same value."""
    graph = chain(100_000)
    for node in reversed(list(graph.nodes)[::2]):
        graph.remove(node)
        graph.insert(node, graph.nodes[0])
    assert len(graph.nodes) == len(graph.inputs[0].uses) == 100_000
