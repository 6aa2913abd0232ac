"""Modules as scenes: scopes of names, ports at borders, functions, regions, large groups."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import forge
from forge.ir import Builder, Module, TensorType
from forge.view import facts, names, scene
from forge.view.names import NameGroup, grouped, scope_of
from forge.view.scene import Box, Scene
from tests.view import models


def labelled(made: Scene, label: str) -> Box:
    return next(b for b in made.boxes if b.label == label)


def labels(made: Scene, number: int) -> list[str]:
    return [made.boxes[b].label for b in made.scopes[number].boxes]


def test_scopes_of_names_become_groups() -> None:
    made = scene.build(models.nested())
    root = made.graphs["main"]
    assert labels(made, root) == ["x", "net", "output_0"]
    net = labelled(made, "net").inside
    assert net is not None
    assert labels(made, net) == ["block_a", "block_b"]
    block = labelled(made, "block_a")
    assert block.inside is not None
    assert labels(made, block.inside) == ["first", "second", "add"]
    assert len(block.members) == 5


def test_edges_are_cut_at_borders() -> None:
    made = scene.build(models.nested())
    block_a, block_b = labelled(made, "block_a"), labelled(made, "block_b")
    assert block_a.inside is not None
    inside = made.scopes[block_a.inside]
    assert len(inside.ins) == 1
    assert len(inside.outs) == 1
    (readers,) = inside.ins.values()
    assert {made.boxes[b].label for b in readers} == {"first", "add"}
    around = made.scopes[block_a.scope]
    ((pair, values),) = [(p, v) for p, v in around.edges.items()]
    assert [made.boxes[b].label for b in pair] == ["block_a", "block_b"]
    assert block_b.scope == block_a.scope
    assert [made.values[v].producer for v in values] == [made.boxes[next(iter(inside.outs.values()))].node]


def test_every_edge_joins_two_boxes_of_its_scope() -> None:
    for module in (models.nested(), models.control(), models.flat(900)):
        made = scene.build(module)
        for scope in made.scopes:
            boxes = set(scope.boxes)
            assert all({a, b} <= boxes for a, b in scope.edges)
            assert set(scope.outs.values()) <= boxes
            assert boxes.issuperset(b for readers in scope.ins.values() for b in readers)
            assert all(made.boxes[b].scope == scope.number for b in boxes)


def test_functions_and_regions_open() -> None:
    made = scene.build(models.control())
    calls = [b for b in made.boxes if b.label == "@double"]
    assert [c.inside for c in calls] == [made.graphs["double"]] * 2
    choice = labelled(made, "if")
    assert choice.inside is not None
    assert labels(made, choice.inside) == ["then_branch", "else_branch"]
    then = labelled(made, "then_branch")
    assert then.inside is not None
    assert labels(made, then.inside) == ["a", "abs", "sqrt", "output_0"]


def test_a_function_costs_what_its_nodes_cost() -> None:
    made = scene.build(models.control())
    calls = [b.node for b in made.boxes if b.label == "@double"]
    body = [made.cost(n) for n in models.control().graphs["double"].nodes]
    assert made.costs["double"] == facts.total(body)
    assert all(node is not None and made.cost(node) == facts.total(body) for node in calls)
    assert len(calls) == 2


def test_what_opens_first_keeps_to_the_number_of_boxes() -> None:
    made = scene.build(models.nested())
    root = made.graphs["main"]
    assert made.opened(root, 3) == []
    assert [made.boxes[p[-1]].label for p in made.opened(root, 5)] == ["net"]
    assert len(made.opened(root, 100)) == 7


def test_large_groups_are_cut() -> None:
    entries = grouped(models.flat(10_000).main.nodes)
    assert len(entries) == 100
    assert all(isinstance(e, NameGroup) and len(e.entries) == 100 for e in entries)
    assert len(grouped(models.flat(40_000).main.nodes)) <= names.LARGEST


def test_dotted_names_and_depth() -> None:
    build = Builder()
    value = build.input(TensorType((1,), "float32"), "x")
    for name in ("encoder.layer.0.act", "plain", "3.5", "/".join("abcdefghijklmnopqrstuvw")):
        value = build.call("nn.relu", value, name=name)
    assert [len(scope_of(n)) for n in Module(build.output(value)).main.nodes] == [3, 0, 0, names.DEEPEST]


def chain(*own: str) -> list[tuple[str, ...]]:
    """The scopes of a chain of nodes in these places."""
    build = Builder()
    value = build.input(TensorType((1,), "float32"), "x")
    for place in own:
        value = build.call("nn.relu", value, name=f"{place}/relu" if place else "relu")
    return names.scopes(Module(build.output(value)).main.nodes)


def test_a_node_between_nodes_of_a_scope_is_in_it() -> None:
    inner, block = ("net", "block"), "net/block"
    assert chain(block, "", "", block) == [inner] * 4
    assert chain(block, "net", block) == [inner] * 3
    assert chain("net/a", "", "net/b") == [("net", "a"), ("net",), ("net", "b")]
    assert chain(block, "other", block) == [inner, ("other",), inner]


def test_a_node_at_the_border_of_a_graph_stays_where_it_is() -> None:
    assert chain("", "net/block", "") == [(), ("net", "block"), ()]


def test_torch_modules_are_groups() -> None:
    note = ": net.Net/block.0: net.Block/block.0.act: torch.nn.ReLU/relu: aten.relu.default"
    nodes = [helper.make_node("Relu", ["x"], ["y"], "relu_1"), helper.make_node("Exp", ["y"], ["z"], "exp_1")]
    for node in nodes:
        node.metadata_props.append(onnx.StringStringEntryProto(key="namespace", value=note))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "z")]
    graph = helper.make_graph(nodes, "g", [ends[0]], [ends[1]])
    ir = forge.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    assert [scope_of(n) for n in ir] == [("block.0", "act")] * 2
    assert labels(scene.build(ir.mod), 0) == ["x", "block.0/act", "z"]


@pytest.mark.parametrize(("operator", "category"), [
    ("nn.dense", "contraction"), ("nn.relu", "activation"), ("add", "arithmetic"), ("if", "control"), ("call", "control"),
    ("sqrt", "arithmetic"),
])
def test_categories(operator: str, category: str) -> None:
    nodes = [*models.nested().main.walk(), *models.control().main.walk()]
    assert next(n for n in nodes if n.op == operator).op_def.category.value == category


def test_costs_count_weights_and_traffic() -> None:
    cost = facts.cost_of(models.nested().main.find("nn.dense"))
    assert (cost.flops, cost.traffic, cost.parameters, cost.parameter_bytes) == (256, 2 * 64 + 256, 64, 256)


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (999, "999"), (1000, "1k"), (11_699_112, "11.7M"), (5 << 40, "5.5T")])
def test_short_numbers(value: int, text: str) -> None:
    assert facts.short_number(value) == text


def test_groups_tell_nodes_and_weights() -> None:
    made = scene.build(models.nested())
    assert labelled(made, "block_a").lines == ["5 nodes · 128 weights"]
    assert labelled(made, "first").lines == ["2 nodes · 64 weights"]


def test_weights_that_are_no_constants_are_lines_too() -> None:
    build = Builder()
    x, weight = build.input(TensorType((2, 8), "float32"), "x"), build.input(TensorType((4, 8), "float32"), "weight")
    module = Module(build.output(build.call("nn.dense", x, weight, units=4)), {"weight": np.ones((4, 8), "float32")})
    made = scene.build(module)
    assert labels(made, 0) == ["x", "dense", "output_0"]
    assert labelled(made, "dense").lines == ["weight 4×8 f32", "→ 2×4 f32"]
    assert made.costs["main"].parameter_bytes == 128


def test_boxes_beside_each_other_open_together() -> None:
    made = scene.build(models.nested())
    root = made.graphs["main"]
    for most, expected in ((9, {"net"}), (10, {"net"}), (11, {"net", "block_a", "block_b"})):
        assert {made.boxes[p[-1]].label for p in made.opened(root, most)} == expected


def test_long_texts_lose_their_middle() -> None:
    assert facts.clipped("abcdefghij", 7) == "abcd…ij"
    assert facts.clipped("abc", 3) == "abc"
