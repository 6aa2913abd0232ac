"""One broken module for each rule of the IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.errors import InvalidGraphError
from forge.ir import Builder, Graph, Module, TensorType, Value
from forge.ir.nodes import CONSTANT, ConstantAttrs, Node
from forge.ir.op import get_op
from forge.ir.parser import parse_module
from forge.ir.text.cursor import Cursor
from forge.ir.verifier import verify

TEXT = """
def @main(%x: Tensor[(n, 3), float32], %w: Tensor[(3), float32]) {
  %h = nn.relu(%x);
  %s = split(%h, indices_or_sections=3, axis=1);
  %b = if(True, %h) { then_branch = fn (%a: Tensor[(n, 3), float32]) { exp(%a) },
                      else_branch = fn (%c: Tensor[(n, 3), float32]) { nn.relu(%c) } };
  %f = @double(%b);
  (add(%f, %w), %s.0)
}
def @double(%v: Tensor[(k, 3), float32]) { add(%v, %v) }
"""


def example() -> Module:
    module = parse_module(TEXT)
    verify(module)
    return module


def named(module: Module, name: str) -> Node:
    return module.main.find(name)


def no_main(module: Module) -> None:
    del module.graphs["main"]


def equal_input_names(module: Module) -> None:
    module.main.inputs[1].name = "x"


def input_listed_twice(module: Module) -> None:
    module.main.inputs.append(module.main.inputs[0])
    module.main.inputs[0].name = module.main.inputs[2].name = ""


def input_with_producer(module: Module) -> None:
    module.main.inputs.append(named(module, "h").result)


def node_of_another_graph(module: Module) -> None:
    named(module, "h").graph = module.graphs["double"]


def used_before_defined(module: Module) -> None:
    h = named(module, "h")
    module.main.nodes.remove(h)
    module.main.nodes.insert(h)


def foreign_operand(module: Module) -> None:
    named(module, "h").set_operand(0, module.graphs["double"].inputs[0])


def open_region(module: Module) -> None:
    region = named(module, "b").regions[0]
    region.nodes[0].set_operand(0, module.main.inputs[0])


def node_listed_twice(module: Module) -> None:
    module.main.nodes.insert(named(module, "h"), module.main.nodes[1])


def wrong_producer(module: Module) -> None:
    named(module, "h").result.producer = None


def wrong_index(module: Module) -> None:
    named(module, "split").results.reverse()


def use_not_recorded(module: Module) -> None:
    named(module, "h").result.uses.popitem()


def stale_use(module: Module) -> None:
    module.main.inputs[0].uses[named(module, "split"), 0] = None


def missing_operand(module: Module) -> None:
    named(module, "add").set_operand(1, None)


def too_many_operands(module: Module) -> None:
    node = named(module, "h")
    node.operands.append(node.operands[0])


def missing_region(module: Module) -> None:
    named(module, "b").regions.pop()


def refused_types(module: Module) -> None:
    module.main.inputs[1].type = TensorType((3,), "int64")


def wrong_result_type(module: Module) -> None:
    named(module, "h").result.type = TensorType((dims.symbol("n"), 4), "float32")


def wrong_result_rank(module: Module) -> None:
    named(module, "h").result.type = TensorType((3,), "float32")


def wrong_result_count(module: Module) -> None:
    node = named(module, "split")
    node.results.append(Value(node.results[0].type, "", node, 3))


def wrong_constant_type(module: Module) -> None:
    module.main.find("constant").result.type = TensorType((), "int8")


def undefined_symbol_in_attribute(module: Module) -> None:
    Builder(module.main).call("reshape", module.main.inputs[0], newshape=(dims.symbol("q"), -1))


def undefined_symbol_in_type(module: Module) -> None:
    named(module, "h").result.type = TensorType((dims.symbol("q"), 3), "float32")


def undefined_output(module: Module) -> None:
    module.main.outputs.append(Value(TensorType((), "bool"), "lost"))


def output_of_another_graph(module: Module) -> None:
    module.main.outputs[0] = module.graphs["double"].outputs[0]


def broken_region(module: Module) -> None:
    region = named(module, "b").regions[1]
    Builder(region).call("abs", region.inputs[0]).type = TensorType((), "bool")


def region_with_undefined_symbol(module: Module) -> None:
    region = named(module, "b").regions[0]
    Builder(region).call("reshape", region.inputs[0], newshape=(dims.symbol("q"), -1))


def unknown_param(module: Module) -> None:
    dict.__setitem__(module.params, "v", np.zeros(3, np.float32))


def param_of_wrong_shape(module: Module) -> None:
    dict.__setitem__(module.params, "w", np.zeros(4, np.float32))


def param_of_wrong_dtype(module: Module) -> None:
    dict.__setitem__(module.params, "w", np.zeros(3))


def param_of_no_dtype(module: Module) -> None:
    dict.__setitem__(module.params, "w", np.array(["2020-01-01"] * 3, dtype="datetime64"))


def unknown_function(module: Module) -> None:
    del module.graphs["double"]


def function_of_other_parameters(module: Module) -> None:
    module.graphs["double"].inputs[0].type = TensorType((dims.symbol("k"), 4), "float32")
    for node in module.graphs["double"].nodes:
        node.result.type = TensorType((dims.symbol("k"), 4), "float32")


def function_of_other_results(module: Module) -> None:
    module.graphs["double"].outputs *= 2


def recursion(module: Module) -> None:
    graph = module.graphs["double"]
    attributes = named(module, "call").attrs
    graph.insert(Node(get_op("call"), graph.inputs, attributes, attributes.results))


RULES: list[tuple[Callable[[Module], None], str]] = [
    (no_main, "module: has no function @main, and none with the attribute public; it has: double"),
    (equal_input_names, "@main: 2 inputs are called %x"),
    (input_listed_twice, "@main: input an unnamed input is listed twice"),
    (input_with_producer, "@main: input %h has a producer"),
    (node_of_another_graph, r"@main: node h \(nn.relu\): belongs to another graph"),
    (used_before_defined, r"@main: node %\d+ \(split\): operand 0 \(%h\) is not defined before it"),
    (foreign_operand, r"@main: node h \(nn.relu\): operand 0 \(%v\) is not defined before it in its graph"),
    (open_region, r"region then_branch: node %\d+ \(exp\): operand 0 \(%x\) is not defined"),
    (node_listed_twice, r"node h \(nn.relu\): result 0 is defined twice"),
    (wrong_producer, "result 0 does not name the node as its producer"),
    (wrong_index, "result 0 does not name the node as its producer"),
    (use_not_recorded, "the use of %h as operand 1 is not recorded"),
    (stale_use, "the use of %x as operand 0 is recorded, but is none"),
    (missing_operand, r"@main: node %\d+ \(add\): add: operand 'rhs' is missing"),
    (too_many_operands, r"nn.relu: got 2 operands; expected 1"),
    (missing_region, "if: got 1 regions; expected 2"),
    (refused_types, r"@main: node %\d+ \(add\): add"),
    (wrong_result_type, r"result 0 has type Tensor\[\(n, 4\), float32\]; the operator gives Tensor\[\(n, 3\), float32\]"),
    (wrong_result_rank, r"result 0 has type Tensor\[\(3\), float32\]"),
    (wrong_result_count, "has 4 results; the operator gives 3"),
    (wrong_constant_type, "result 0 has type int8; the operator gives bool"),
    (undefined_symbol_in_attribute, "an attribute uses the symbol q, which no earlier value defines"),
    (undefined_symbol_in_type, r"result 0 has type Tensor\[\(q, 3\), float32\]; the operator gives Tensor\[\(n, 3\), float32\]"),
    (undefined_output, "@main: output %lost is not defined in the graph"),
    (output_of_another_graph, r"@main: output result 0 of %0 \(add\) is not defined in the graph"),
    (broken_region, r"region else_branch: node %\d+ \(abs\): result 0 has type bool"),
    (region_with_undefined_symbol, "region then_branch: node .*the symbol q"),
    (unknown_param, "params: 'v' names no input of @main; expected one of: x, w"),
    (param_of_wrong_shape, r"params: 'w': got float32 of shape \(4,\); expected Tensor\[\(3\), float32\]"),
    (param_of_wrong_dtype, r"params: 'w': got float64 of shape \(3,\)"),
    (param_of_no_dtype, r"params: 'w': got datetime64"),
    (unknown_function, r"@main: node f \(call\): calls @double, which does not exist; the module has: main"),
    (function_of_other_parameters, r"@double: operand %v: got Tensor\[\(n, 3\), float32\]; expected"),
    (function_of_other_results, r"@double gives \(Tensor\[\(n, 3\), float32\], Tensor\[\(n, 3\), float32\]\)"),
    (recursion, "@double: calls itself through @main -> @double; expected no recursion"),
]


@pytest.mark.parametrize(("break_", "message"), RULES, ids=[r[0].__name__ for r in RULES])
def test_rule(break_: Callable[[Module], None], message: str) -> None:
    module = example()
    break_(module)
    with pytest.raises(InvalidGraphError, match=message):
        verify(module)


@pytest.mark.parametrize(("damage", "message"), [
    (lambda m: setattr(named(m, "h"), "attrs", None), r"node h \(nn.relu\): attributes: got None; expected NoAttrs"),
    (lambda m: setattr(named(m, "split"), "attrs", replace(named(m, "split").attrs, axis="1")),
     "attribute 'axis': got '1'; expected int"),
    (lambda m: setattr(named(m, "h").result, "type", "float32"), "a result, %h, has type 'float32'; expected a type of the IR"),
    (lambda m: setattr(m.main.inputs[0], "type", None), "an input, %x, has type None; expected a type of the IR"),
    (lambda m: setattr(m.main.inputs[0], "name", 3), "@main: the name of an input is 3; expected a str"),
    (lambda m: setattr(named(m, "h"), "name", None), r"node h \(nn.relu\): the name is None; expected a str"),
    (lambda m: setattr(named(m, "h"), "location", 3), r"node h \(nn.relu\): the location is 3; expected a str"),
    (lambda m: named(m, "add").operands.__setitem__(1, np.ones(3)), r"node %\d \(add\): an operand is array.*; expected a Value"),
    (lambda m: named(m, "add").results.append(None), r"@main: node 5 \(add\): a result is None; expected a Value"),
    (lambda m: m.main.outputs.append(None), "@main: an output is None; expected a Value"),
    (lambda m: setattr(m.main, "outputs", None), "@main: the list of outputs is None; expected a list"),
    (lambda m: setattr(named(m, "h"), "op_def", None), r"@main: node \d+: its definition is None; expected .*OpDef"),
    (lambda m: named(m, "b").regions.__setitem__(0, "exp"), r"node b \(if\): a region is 'exp'; expected a Graph"),
    (lambda m: m.graphs.__setitem__("double", None), "@double: the function is None; expected a Graph"),
    (lambda m: m.graphs.__setitem__(3, Graph()), "module: a function is called 3; expected a text that is not empty"),
    (lambda m: m.main.attributes.__setitem__("level", {}), "@main: attribute level: .*no text form"),
])  # fmt: skip
def test_what_hands_leave_behind(damage: Callable[[Any], None], message: str) -> None:
    module = example()
    damage(module)
    with pytest.raises(InvalidGraphError, match=message):
        verify(module)


def test_symbols_of_a_function_are_its_own() -> None:
    module = parse_module(
        "def @main(%x: Tensor[(n), float32]) { @f(%x) } def @f(%v: Tensor[(m), float32]) { reshape(%v, newshape=[m]) }"
    )
    verify(module)
    (call,) = module.main.select("call")
    assert str(call.result.type) == "Tensor[(n), float32]"


def test_an_unnamed_input_is_fine() -> None:
    graph = Graph()
    graph.outputs = [graph.add_input(TensorType((), "bool")), graph.add_input(TensorType((), "bool"))]
    verify(Module(graph))


def test_no_outputs_are_fine() -> None:
    verify(Module(Graph()))


def test_constants_need_an_element_type() -> None:
    with pytest.raises(TypeError, match="unknown dtype"):
        ConstantAttrs(np.array(["2020-01-01"], dtype="datetime64"))
    assert CONSTANT.infer(ConstantAttrs(np.array(["a"])))[0].dtype == "string"  # type: ignore[union-attr]


@pytest.mark.parametrize(("element", "fits"), [
    ("Tensor[(n, 3), float32]", True), ("Tensor[(other, 3), float32]", True), ("Tensor[(n, 4), float32]", False),
    ("Tensor[(n, 3), float64]", False), ("Tensor[?, float32]", False), ("Sequence[Tensor[(n, 3), float32]]", False),
])
def test_sizes_of_elements_of_sequences_have_no_names(element: str, fits: bool) -> None:
    module = parse_module("def @main(%x: Tensor[(n, 3), float32], %y: Tensor[(m, 3), float32]) { sequence_construct(%x, %y) }")
    module.main.nodes[-1].result.type = Cursor(f"Sequence[{element}]").type()
    if fits:
        verify(module)
    else:
        with pytest.raises(InvalidGraphError, match="result 0 has type"):
            verify(module)
