"""Edits happen wholly or not at all; rules rewrite until nothing matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge import dims
from forge.errors import ForgeError, InvalidGraphError
from forge.ir import Builder, Graph, Module, TensorType, Value
from forge.ir.edits.edit import Editor, edit
from forge.ir.edits.extract import extract
from forge.ir.edits.journal import recorded
from forge.ir.edits.rewrite import Declined, Pattern, Rule, RuleBuilder, anything, apply, call, constant, rewrite, rule
from forge.ir.interp import run_graph, run_module
from forge.ir.nodes import Node
from forge.ir.op import OpDef, Trait
from forge.ir.parser import parse_module
from forge.ir.printer import print_module
from forge.ir.types import Type
from forge.ir.verifier import verify, verify_graph
from forge.ops.shape.transpose import Transpose
from tests.ir.random_modules import inputs_for, modules, same

few = settings(max_examples=80)


def graph_of(lines: str, parameters: str = "%x: Tensor[(n, 4), float32], %y: Tensor[(n, 4), float32]") -> Graph:
    module = parse_module(f"def @main({parameters}) {{ {lines} }}", [np.arange(4, dtype=np.float32)])
    verify(module)
    return module.main


def text(graph: Graph) -> list[str]:
    """Lines of the body."""
    return [line.strip() for line in print_module(Module(graph)).splitlines()[1:-1]]


def state(graph: Graph) -> Any:
    """All that an edit could change, with identities."""
    values = [*graph.inputs, *(v for n in graph.nodes for v in n.results)]
    return (
        [(id(n), n.op, n.attrs, n.name, n.graph is graph, [id(v) for v in n.operands],
         [id(r) for r in n.regions]) for n in graph.nodes],
        [(id(v), v.type, v.name, [(id(n), k) for n, k in v.uses]) for v in values],
        [id(v) for v in graph.outputs], dict(graph.attributes), print_module(Module(graph), types=True, names=True),
    )  # fmt: skip


LINES = "%a = nn.relu(%x); %b = add(%a, %y); %c = split(%b, indices_or_sections=2, axis=1); (%c.0, %c.1, %a)"


def test_insert_before() -> None:
    graph = graph_of("%a = nn.relu(%x); add(%a, %y)")
    with edit(graph) as e:
        node = graph.find("add")
        e.rewire(node, 1, e.insert_before(node, "abs", graph.inputs[1], name="new"))
    assert text(graph) == ["%0 = nn.relu(%x);", "%1 = abs(%y);", "add(%0, %1)"]
    assert graph.find("new").op == "abs"


def test_insert_after_takes_over_all_uses() -> None:
    graph = graph_of("%a = nn.relu(%x); (add(%a, %a), %a)")
    with edit(graph) as e:
        e.insert_after(graph.find("a").result, "nn.leaky_relu", alpha=0.5)
    assert text(graph) == ["%0 = nn.relu(%x);", "%1 = nn.leaky_relu(%0, alpha=0.5f);", "%2 = add(%1, %1);", "(%2, %1)"]


def test_insertions_take_a_node_or_its_value() -> None:
    shown = []
    for is_node in (False, True):
        graph = graph_of(LINES)
        a = graph.find("a")
        with edit(graph) as e:
            e.insert_after(a if is_node else a.result, "nn.relu")
            e.rewire(a, 0, e.insert_before(a if is_node else a.result, "abs", graph.inputs[0]))
        shown.append(text(graph))
    assert shown[0] == shown[1]
    with edit(graph) as e:
        with pytest.raises(InvalidGraphError, match=r"insert_before: got <input .*; expected a node, or a value that a node"):
            e.insert_before(graph.inputs[0], "abs", graph.inputs[0])
        with pytest.raises(InvalidGraphError, match="insert_after: got 'a'; expected a value, or a node with one result"):
            e.insert_after("a", "abs")  # type: ignore[arg-type]


def test_insert_after_an_input() -> None:
    graph = graph_of("add(%x, %y)")
    with edit(graph) as e:
        e.insert_after(graph.inputs[0], "add", graph.inputs[1])
    assert text(graph) == ["%0 = add(%x, %y);", "add(%0, %y)"]


def test_replace() -> None:
    graph = graph_of(LINES)
    with edit(graph) as e:
        e.replace(graph.find("a"), e.insert_before(graph.find("a"), "abs", graph.inputs[0]))
    assert text(graph)[0] == "%0 = abs(%x);"
    assert not graph.select("nn.relu")
    assert graph.find("abs").result.name == "a"


def test_replace_of_several_results() -> None:
    graph = graph_of(LINES)
    with edit(graph) as e:
        old = graph.find("split")
        new = Builder(graph, before=old).call_multi("split", graph.find("b").result, indices_or_sections=(2,), axis=-1)
        e.replace(old, *reversed(new))
    assert text(graph)[2:] == ["%2 = split(%1, indices_or_sections=[2], axis=-1);", "(%2.1, %2.0, %0)"]


def test_replace_by_something_computed_from_it() -> None:
    graph = graph_of("%a = nn.relu(%x); add(%a, %y)")
    with edit(graph) as e:
        a = graph.find("a")
        doubled = Builder(graph).call("add", a.result, a.result)
        e.replace(a, Builder(graph).call("abs", doubled))
    assert text(graph) == ["%0 = nn.relu(%x);", "%1 = add(%0, %0);", "%2 = abs(%1);", "add(%2, %y)"]


def test_remove() -> None:
    graph = graph_of("%a = nn.relu(%x); %b = abs(%a); add(%b, %y)")
    with edit(graph) as e:
        e.remove(graph.find("b"))
        e.remove(graph.find("a"))
    assert text(graph) == ["add(%x, %y)"]


def test_types_follow_the_edit() -> None:
    graph = graph_of("%a = nn.relu(%x); %b = abs(%a); transpose(%b)")
    with edit(graph) as e:
        e.insert_after(graph.find("a").result, "expand_dims", axis=0)
        e.set_attributes(graph.find("transpose"), axes=[2, 0, 1])
    assert str(graph.outputs[0].type) == "Tensor[(4, 1, n), float32]"


def test_a_changed_input_type_is_carried_through_even_where_equality_is_unknown() -> None:
    graph = graph_of("%a = nn.relu(%x); abs(%a)")
    with edit(graph):
        graph.inputs[0].type = TensorType((dims.symbol("n") // 2, 4), "float32")
    assert str(graph.outputs[0].type) == "Tensor[((n // 2), 4), float32]"


def test_symbols_of_data_dependent_results_keep_their_names() -> None:
    graph = graph_of("%a = argwhere(%x) /* ty=Tensor[(found, 2), int64] */; %b = abs(%a); reshape(%b, newshape=[found, 2, 1])")
    with edit(graph) as e:
        e.insert_after(graph.inputs[0], "nn.relu")
    assert str(graph.outputs[0].type) == "Tensor[(found, 2, 1), int64]"


def test_set_attributes_and_data_and_names() -> None:
    graph = graph_of("nn.leaky_relu(add(%x, meta[relay.Constant][0]), alpha=0.1f)")
    with edit(graph) as e:
        e.set_attributes(graph.find("nn.leaky_relu"), alpha=2)
        e.set_data(graph.find("constant"), np.zeros((1, 4), np.float32))
        e.rename(graph.inputs[0], "data")
        e.rename(graph.find("add"), "sum")
    assert text(graph)[1:] == ["nn.leaky_relu(%0, alpha=2f)"]
    assert graph.find("constant").result.shape == (1, 4)
    assert graph.find("sum").operands[0].name == "data"  # type: ignore[union-attr]


def test_set_outputs() -> None:
    graph = graph_of("nn.relu(%x)")
    with edit(graph) as e:
        e.set_outputs(graph.inputs[1], graph.find("nn.relu").result)
    assert text(graph) == ["%0 = nn.relu(%x);", "(%y, %0)"]


def test_order_is_restored() -> None:
    graph = graph_of("%a = nn.relu(%x); %b = abs(%y); (%a, %b)")
    with edit(graph) as e:
        e.rewire(graph.find("a"), 0, graph.find("b").result)
    assert text(graph) == ["%0 = abs(%y);", "%1 = nn.relu(%0);", "(%1, %0)"]


def test_calls_follow_with_their_module() -> None:
    module = parse_module(
        "def @main(%x: Tensor[(n, 4), float32]) { %a = nn.relu(%x); %b = @f(%a); abs(%b) } "
        "def @f(%v: Tensor[(j, k), float32]) { exp(%v) }"
    )
    message = r"edit: node b \(call\): types of its operands changed; expected edit\(graph, module\)"
    with pytest.raises(InvalidGraphError, match=message), edit(module.main) as e:
        e.insert_after(module.main.find("a").result, "transpose")
    with edit(module.main, module) as e:
        e.insert_after(module.main.find("a").result, "transpose")
    verify(module)
    assert str(module.main.outputs[0].type) == "Tensor[(4, n), float32]"
    with edit(module.main) as e:
        e.insert_after(module.main.find("a").result, "exp")
    verify(module)


def test_an_edit_inside_a_region() -> None:
    graph = graph_of(
        "if(True, %x) { then_branch = fn (%a: Tensor[(n, 4), float32]) { exp(%a) }, "
        "else_branch = fn (%a: Tensor[(n, 4), float32]) { abs(%a) } }"
    )
    region = graph.find("if").regions[0]
    with edit(region) as e:
        e.insert_after(region.find("exp").result, "nn.relu")
    verify_graph(graph)
    assert [n.op for n in region] == ["exp", "nn.relu"]


def cycle(graph: Graph, e: Editor) -> None:
    e.rewire(graph.find("a"), 0, graph.find("b").result)


def bad_type(graph: Graph, e: Editor) -> None:
    e.set_attributes(graph.find("split"), indices_or_sections=3)


def bad_type_of_new_node(graph: Graph, e: Editor) -> None:
    e.insert_after(graph.find("a").result, "add", e.insert_before(graph.nodes[0], "cast", graph.inputs[0], dtype="int8"))


def foreign_value(graph: Graph, e: Editor) -> None:
    e.rewire(graph.find("b"), 1, FOREIGN.inputs[0])


def foreign_value_in_a_new_node(graph: Graph, e: Editor) -> None:
    e.insert_before(graph.find("b"), "exp", FOREIGN.inputs[0])


def foreign_node(graph: Graph, e: Editor) -> None:
    e.remove(FOREIGN.nodes[0])


def used_node(graph: Graph, e: Editor) -> None:
    graph.remove(graph.find("a"))


def several_used_results(graph: Graph, e: Editor) -> None:
    e.remove(graph.find("split"))


def operand_less(graph: Graph, e: Editor) -> None:
    e.rewire(graph.find("b"), 1, Builder(graph).constant(1.0, "float32"))
    e.remove(graph.find("constant"))


def wrong_count(graph: Graph, e: Editor) -> None:
    e.replace(graph.find("split"), graph.inputs[0])


def wrong_position(graph: Graph, e: Editor) -> None:
    e.rewire(graph.find("b"), 2, graph.inputs[0])


def absent_operand(graph: Graph, e: Editor) -> None:
    e.rewire(graph.find("b"), 1, None)


def unknown_attribute(graph: Graph, e: Editor) -> None:
    e.set_attributes(graph.find("split"), sections=2)


def no_constant(graph: Graph, e: Editor) -> None:
    e.set_data(graph.find("a"), np.zeros(3))


def same_input_names(graph: Graph, e: Editor) -> None:
    e.rename(graph.inputs[0], "y")


def lost_output(graph: Graph, e: Editor) -> None:
    e.set_outputs(FOREIGN.inputs[0])


def own_error(graph: Graph, e: Editor) -> None:
    e.remove(graph.find("a"))
    graph.attributes["k"] = 1
    graph.inputs.reverse()
    graph.add_input(TensorType((), "bool"), "z")
    raise KeyError("mine")


def interrupt(graph: Graph, e: Editor) -> None:
    e.remove(graph.find("a"))
    raise KeyboardInterrupt


FOREIGN = graph_of("exp(%x)")
BROKEN: list[tuple[Callable[[Graph, Editor], None], type[BaseException], str]] = [
    (cycle, InvalidGraphError, "is part of a cycle"),
    (bad_type, InvalidGraphError, r"node %\d+ \(split\): split"),
    (bad_type_of_new_node, InvalidGraphError, "add"),
    (foreign_value, InvalidGraphError, r"node b \(add\): operand 1 \(%x\) is not defined"),
    (foreign_value_in_a_new_node, InvalidGraphError, r"node %\d+ \(exp\): operand 0 \(%x\) is not defined"),
    (foreign_node, InvalidGraphError, "remove: node .*: is not in the graph that is edited"),
    (used_node, InvalidGraphError, r"node a \(nn.relu\): result %a is still used"),
    (several_used_results, InvalidGraphError, r"remove: node %\d+ \(split\): 2 results are used; nothing can stand for them"),
    (operand_less, InvalidGraphError, r"remove: node \(constant\): 1 results are used; nothing can stand for them"),
    (wrong_count, InvalidGraphError, r"replace: node %\d+ \(split\): got 1 values; expected 2"),
    (wrong_position, InvalidGraphError, r"rewire: node b \(add\): got position 2; it has 2 operands"),
    (absent_operand, InvalidGraphError, "operand 'rhs' is missing"),
    (unknown_attribute, InvalidGraphError, "unknown attribute 'sections'"),
    (no_constant, InvalidGraphError, r"set_data: node a \(nn.relu\) is not a constant"),
    (same_input_names, InvalidGraphError, "2 inputs are called %y"),
    (lost_output, InvalidGraphError, "output %x is not defined in the graph"),
    (own_error, KeyError, "mine"),
    (interrupt, KeyboardInterrupt, "^$"),
]


@pytest.mark.parametrize(("change", "error", "message"), BROKEN, ids=[b[0].__name__ for b in BROKEN])
def test_a_broken_edit_is_undone(change: Callable[[Graph, Editor], None], error: type[BaseException], message: str) -> None:
    graph = graph_of(LINES)
    before, foreign = state(graph), state(FOREIGN)
    with pytest.raises(error, match=message), edit(graph) as e:
        e.insert_after(graph.find("a").result, "exp", name="other edit of the block")
        change(graph, e)
    assert state(graph) == before
    assert state(FOREIGN) == foreign
    verify_graph(graph)


Command = tuple[str, float, float, float]
commands = st.lists(
    st.tuples(
        st.sampled_from(["insert_before", "insert_after", "replace", "remove", "rewire", "rename", "constant", "outputs"]),
        *[st.floats(0, 1, exclude_max=True)] * 3,
    ),
    min_size=1, max_size=6,
)  # fmt: skip


def perform(graph: Graph, e: Editor, command: Command) -> None:
    kind, *numbers = command
    values = [*graph.inputs, *(v for n in graph.nodes for v in n.results)]
    value, other = (values[int(k * len(values))] for k in numbers[:2])
    node: Node | None = graph.nodes[int(numbers[2] * len(graph.nodes))] if graph.nodes else None
    op = ("copy", "add", "transpose", "nn.relu", "argwhere", "equal")[int(numbers[0] * 1e6) % 6]
    operands = (value, other) if op in ("add", "equal") else (value,)
    if kind == "insert_after":
        e.insert_after(value, op, *operands[1:])
    elif kind == "rename":
        e.rename(value, "renamed")
    elif kind == "outputs":
        e.set_outputs(value, other)
    elif kind == "constant":
        Builder(graph).constant(numbers)
    elif node is None:
        return
    elif kind == "insert_before":
        e.insert_before(node, op, *operands)
    elif kind == "replace":
        e.replace(node, *[value, other][: len(node.results)])
    elif kind == "remove":
        e.remove(node)
    else:
        e.rewire(node, int(numbers[0] * 3), value)


@few
@given(modules(), st.lists(commands, min_size=1, max_size=3))
def test_random_edits_keep_the_rules_or_change_nothing(module: Module, blocks: list[list[Command]]) -> None:
    for block in blocks:
        before = state(module.main)
        try:
            with edit(module.main, module) as e:
                for command in block:
                    perform(module.main, e, command)
        except ForgeError:
            assert state(module.main) == before
        verify(module)
        printed = print_module(module, metadata=True)
        assert print_module(parse_module(printed), metadata=True) == printed


ADD_ZERO = Rule("add_zero", call("add", anything("x"), constant("c")), lambda b, v: v["x"], lambda v: _nonzero(v["c"]))
DOUBLE_NEGATIVE = Rule("double_negative", call("negative", call("negative", anything("x"))), lambda b, v: b.call("copy", v["x"]))
SQUARE = Rule(
    "square", call("multiply", anything("x"), anything("x")), lambda b, v: b.call("power", v["x"], b.constant(2.0, "float32"))
)


def _nonzero(value: Value) -> str | None:
    array = value.constant
    return "the constant is not 0" if array is None or array.shape != () or float(array) != 0.0 else None


def test_rule_with_check() -> None:
    graph = graph_of("%a = add(%x, 0f); %b = add(0f, %a); %c = add(%b, 1f); abs(%c)")
    assert apply(graph, [ADD_ZERO]) == 2
    assert text(graph) == ["%0 = add(%x, 1f);", "abs(%0)"]
    assert len(graph.select("constant")) == 1


def test_what_a_rewrite_inserts_is_visited_in_the_next_round() -> None:
    graph = graph_of("negative(negative(negative(negative(negative(%x)))))")
    copies = Rule("copy", call("copy", anything("x")), lambda b, v: v["x"])
    assert apply(graph, [DOUBLE_NEGATIVE, copies]) == 4
    assert text(graph) == ["negative(%x)"]


def test_a_name_matches_one_value() -> None:
    graph = graph_of("(multiply(%x, %x), multiply(%x, %y))")
    assert apply(graph, [SQUARE]) == 1
    assert text(graph) == ["%0 = power(%x, 2f);", "%1 = multiply(%x, %y);", "(%0, %1)"]


def test_rewriting_keeps_names_of_outputs() -> None:
    graph = graph_of("%probabilities = multiply(%x, %x); %probabilities")
    assert graph.output_names == ["probabilities"]
    apply(graph, [SQUARE])
    assert graph.output_names == ["probabilities"]


def test_shared_parts_of_a_match_stay() -> None:
    graph = graph_of("%a = negative(%x); %b = negative(%a); (%a, %b)")
    assert apply(graph, [DOUBLE_NEGATIVE]) == 1
    assert text(graph) == ["%0 = negative(%x);", "%1 = copy(%x);", "(%0, %1)"]


def test_a_chain_longer_than_the_rounds() -> None:
    """A rule that moves one step in each round."""
    swap = Rule("swap", call("abs", call("nn.relu", anything("x"))), lambda b, v: b.call("nn.relu", b.call("abs", v["x"])))
    graph = graph_of("".join(f"%{k} = nn.relu({f'%{k - 1}' if k else '%x'}); " for k in range(120)) + "abs(%119)")
    assert apply(graph, [swap]) == 120
    assert text(graph)[0] == "%0 = abs(%x);"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule("grow", call("add", anything("x"), anything("y")), lambda b, v: b.call("add", v["y"], v["x"])),
         "rules double_negative, grow still match"),
        (Rule("typed", call("add", anything("x"), anything("y")), lambda b, v: b.call("cast", v["x"], dtype="int8")),
         r"rewrite typed: node %\d+ \(add\): got Tensor\[\(n, 4\), int8\]; expected Tensor\[\(n, 4\), float32\]"),
        (Rule("same", call("add", anything("x"), anything("y"), name="r"), lambda b, v: v["r"]),
         "replacement is the root itself"),
    ],
)  # fmt: skip
def test_a_wrong_rule_changes_nothing(rule: Rule, message: str) -> None:
    graph = graph_of("%a = negative(%x); %b = negative(%a); add(%b, %y)")
    before = state(graph)
    with pytest.raises(InvalidGraphError, match=message):
        apply(graph, [DOUBLE_NEGATIVE, rule])
    assert state(graph) == before


def test_nodes_carry_the_rules_that_led_to_them_and_a_journal_the_reasons() -> None:
    graph = graph_of("%a = add(%x, 1f); %b = multiply(%a, %a); negative(%b)")
    grow = Rule("grow", ("power",), lambda b, node: b.call("exp", node.operands[0]))
    with recorded() as kept:
        assert apply(graph, [ADD_ZERO, SQUARE, grow]) == 2
    assert graph.copy().find("exp").origin == ("square", "grow") and graph.find("add").origin == ()
    assert "square" not in print_module(Module(graph))
    assert [(rule, count) for _, rule, count, _ in kept.fired()] == [("square", 1), ("grow", 1)]
    assert [(a.rule, a.node.op, a.reason) for a in kept.declined()] == [("add_zero", "add", "the constant is not 0")]


def test_what_a_rule_built_and_did_not_use_goes() -> None:
    graph = graph_of("add(%x, %y)")

    @rule("add")
    def hesitant(builder: RuleBuilder, node: Node) -> Declined:
        builder.call("abs", builder.call("negative", node.operands[0]))
        return Declined("not now")

    assert rewrite(graph, [hesitant]) == 0 and text(graph) == ["add(%x, %y)"]


def test_an_output_that_would_lose_its_name_stays() -> None:
    graph = graph_of("%out = copy(%x); %out")
    with recorded() as kept:
        assert rewrite(graph, [Rule("identity", ("copy",), lambda b, node: node.operands[0])]) == 0
    assert [a.reason for a in kept.declined()] == ["an output of the graph would lose its name"]


def test_verification_names_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_VERIFY", "1")

    def break_it(builder: RuleBuilder, node: Node) -> Value:
        graph.inputs[1].name = graph.inputs[0].name
        return builder.call("subtract", *node.operands)

    graph = graph_of("add(%x, %y)")
    with pytest.raises(InvalidGraphError, match="rewrite broken"):
        rewrite(graph, [Rule("broken", ("add",), break_it)])


def root(lines: str) -> Value:
    return graph_of(lines).outputs[0]


@pytest.mark.parametrize(
    ("pattern", "lines", "names"),
    [
        (call("add", anything("a"), anything("b")), "add(%x, %y)", {"a": "x", "b": "y"}),
        (call("add", call("abs", anything("a")), anything("b")), "add(%x, abs(%y))", {"a": "y", "b": "x"}),
        (call("subtract", call("abs", anything("a")), anything("b")), "subtract(%x, abs(%y))", None),
        (call("add", call("multiply", anything("a"), anything("b")), anything("a")), "add(multiply(%x, %y), %y)",
         {"a": "y", "b": "x"}),
        (call("add", call("multiply", anything("a"), anything("b")), anything("a")), "add(%y, multiply(%x, %y))",
         {"a": "y", "b": "x"}),
        (call("add", call("multiply", anything("a"), anything("b")), call("multiply", anything("b"), anything("b"))),
         "add(multiply(%x, %x), multiply(%x, %y))", {"a": "y", "b": "x"}),
        (call("nn.leaky_relu", anything("a"), alpha=0.5), "nn.leaky_relu(%x, alpha=0.5f)", {"a": "x"}),
        (call("nn.leaky_relu", anything("a"), alpha=0.5), "nn.leaky_relu(%x, alpha=0.4f)", None),
        (call("transpose", anything("a"), axes=[1, 0]), "transpose(%x, axes=[1, 0])", {"a": "x"}),
        (call("transpose", anything("a"), missing=None), "transpose(%x, axes=[1, 0])", None),
        (call("concatenate", anything("a"), anything("b")), "concatenate(%x, %y)", {"a": "x", "b": "y"}),
        (call("concatenate", anything("a"), anything("b")), "concatenate(%x, %y, %y)", None),
        (call("concatenate"), "concatenate(%x, %y, %y)", {}),
        (call("clip", anything("a"), anything("b")), "clip(%x, 1f)", {"a": "x", "b": ""}),
        (call("clip", anything("a"), anything("b")), "clip(%x, 1f, 2f)", None),
        (call("clip", anything("a"), anything("b"), anything("c")), "clip(%x, 1f)", None),
        (call("add", anything(), constant("c"), name="sum"), "%s = add(%x, meta[relay.Constant][0]); %s", {"c": "", "sum": "s"}),
        (call("add", anything(), constant("c")), "add(%x, %y)", None),
        (anything("v"), "%x", {"v": "x"}),
        (call("add", anything(), anything()), "%x", None),
    ],
)  # fmt: skip
def test_patterns(pattern: Pattern, lines: str, names: dict[str, str] | None) -> None:
    found = pattern.match(root(lines))
    assert (None if found is None else {k: v.name for k, v in found.items()}) == names


class Counter(OpDef[Any]):
    name = "test.counter"
    traits = Trait.STATEFUL

    def infer(self, attrs: Any, *operands: Value | None) -> list[Type]:
        return [TensorType((), "float32")]


def test_what_keeps_state_is_not_swept() -> None:
    graph = graph_of("%x")
    builder = Builder(graph)
    state_ = builder.node(Counter(), [], {}).result
    graph.outputs = [builder.call("negative", builder.call("negative", state_))]
    drop = Rule("drop", call("negative", call("negative", anything())), lambda b, v: b.constant(0.0, "float32"))
    assert apply(graph, [drop]) == 1
    assert [n.op for n in graph] == ["test.counter", "constant"]


def test_a_rule_for_a_class_gets_the_bound_operator() -> None:
    @rule(Transpose)
    def twice(builder: RuleBuilder, outer: Transpose) -> Value | None:
        inner = Transpose.of(outer.data.producer)
        return None if inner is None else inner.data

    graph = graph_of("%a = transpose(%x, axes=[1, 0]); %b = transpose(%a, axes=[1, 0]); add(%b, %y)")
    assert apply(graph, [twice]) == 1
    assert text(graph)[-1] == "add(%x, %y)"


def test_extract() -> None:
    graph = graph_of("%a = nn.relu(%x); %b = add(%a, %y); %c = multiply(%b, 2f); (%c, %a)")
    part = extract(graph, [graph.find("c").result], [graph.find("b").result])
    assert print_module(Module(part)).splitlines()[0] == "def @main(%b: Tensor[(n, 4), float32]) {"
    assert text(part) == ["multiply(%b, 2f)"]
    whole = extract(graph, graph.outputs)
    assert text(whole) == text(graph)
    assert len(graph.nodes) == 4


def test_extract_adds_inputs_that_are_still_needed() -> None:
    graph = graph_of("%a = nn.relu(%x); %y_ = add(%a, %y); multiply(%y_, %y)")
    graph.find("a").result.name = "y"
    part = extract(graph, graph.outputs, [graph.find("nn.relu").result])
    assert [v.name for v in part.inputs] == ["y", "y_1"]
    x, y = np.full((3, 4), 2, np.float32), np.full((3, 4), 5, np.float32)
    assert run_graph(part, [x, y])[0].tolist() == ((x + y) * y).tolist()


def test_extract_cuts_one_of_several_results() -> None:
    graph = graph_of("%s = split(%x, indices_or_sections=2, axis=1); add(%s.0, %s.1)")
    part = extract(graph, graph.outputs, [graph.find("split").results[0]])
    assert text(part) == ["%0 = split(%x, indices_or_sections=2, axis=1);", "add(%input_0, %0.1)"]


def test_extract_refuses_values_of_other_graphs() -> None:
    with pytest.raises(InvalidGraphError, match="extract: %x is not a value of the graph"):
        extract(graph_of("%x"), [FOREIGN.inputs[0]])


@few
@given(modules(), st.floats(0, 1, exclude_max=True))
def test_extracting_and_running_in_two_parts_is_running_the_whole(module: Module, where: float) -> None:
    module.graphs = {"main": module.main}
    nodes = [n for n in module.main.nodes if n.op not in ("constant", "call")]
    if not nodes or module.main.select("call"):
        return
    inputs = inputs_for(module)
    cut = nodes[int(where * len(nodes))].results
    first = extract(module.main, cut)
    second = extract(module.main, module.main.outputs, [*module.main.inputs, *cut])
    given_first = [inputs[v.name] for v in first.inputs]
    middle = run_graph(first, given_first, {"n": 3, "m": 2})
    results = run_graph(second, [*inputs.values(), *middle], {"n": 3, "m": 2})
    assert all(same(a, b) for a, b in zip(results, run_module(module, inputs), strict=True))
