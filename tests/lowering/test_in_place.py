"""Updates in place: where results lie, what is read before it is overwritten, and that callers' arrays stay as they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.functions.states import State
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.text.parser import parse_module
from forge.ir.types import TensorType
from forge.lowering.memory import MemoryPlan, storage_of
from forge.lowering.program import GroupedGraph, LoweredProgram, Lowering
from forge.lowering.texts import groups_text
from forge.tir.library import StateMemory
from tests import guard


def lowered(text: str) -> tuple[GroupedGraph, MemoryPlan, LoweredProgram]:
    lowering = Lowering(check_options().target, fuse=True)
    grouped = lowering.group(parse_module(text).main)
    plan = lowering.plan(grouped)
    return grouped, plan, lowering.lower(grouped, plan, "main")


def in_place(text: str) -> list[str]:
    """Operators of groups that write only what differs."""
    return [group.anchor.op for group in lowered(text)[0].groups if group.updated is not None]


def memory_of(text: str) -> list[StateMemory]:
    return [b.memory for b in lowered(text)[2].program.bindings]


def check(graph: Graph, inputs: list[np.ndarray], levels: tuple[int, ...] = (0, 3)) -> None:
    """Compiled code, with guarded buffers, does what the interpreter does, and writes no input that it may not."""
    expected = run_graph(graph, inputs)
    for level in levels:
        compiled = compile_module(Module(graph.copy()), check_options(opt_level=level), use_cache=False)
        for got, wanted in zip(guard.run(compiled, graph, inputs), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, strict=True)


def check_text(text: str, levels: tuple[int, ...] = (0, 3)) -> None:
    graph = parse_module(text).main
    generator = np.random.default_rng(0)
    check(graph, [_contents(generator, v) for v in graph.inputs], levels)


def _contents(generator: np.random.Generator, value: Value) -> np.ndarray:
    shape = [d if isinstance(d, int) else 5 for d in value.shape]
    return generator.integers(0, 4, shape).astype(value.dtype)


WRITTEN = {
    "dynamic_update_slice": """
def @main(state %x: Tensor[(6, 4), float32], %u: Tensor[(2, 3), float32], %at: Tensor[(2,), int64]) {
  %0 = dynamic_update_slice(%x, %u, %at);
  (%x = %0)
}""",
    "strided_set": """
def @main(donated %x: Tensor[(6, 4), float32], %u: Tensor[(2, 4), float32]) {
  %0 = strided_set(%x, %u, begin=[4], end=[0], strides=[-2]);
  (%x = %0)
}""",
    "scatter_nd": """
def @main(donated %x: Tensor[(6, 4), float32], %i: Tensor[(1, 3), int64], %u: Tensor[(3, 4), float32]) {
  %0 = scatter_nd(%x, %i, %u, mode="add");
  (%x = %0)
}""",
    "scatter_elements": """
def @main(state %x: Tensor[(6, 4), complex64], %i: Tensor[(2, 4), int64], %u: Tensor[(2, 4), complex64]) {
  %0 = scatter_elements(%x, %i, %u, axis=0);
  (%x = %0)
}""",
    "concatenate": """
def @main(state %x: Tensor[(n, 4), float32], %u: Tensor[(2, 4), float32]) {
  %0 = concatenate(%x, %u, axis=0);
  (%x = %0)
}""",
}


@pytest.mark.parametrize("op", WRITTEN)
def test_only_the_update_is_written(op: str) -> None:
    assert in_place(WRITTEN[op]) == [op]
    check_text(WRITTEN[op])


def test_appending_says_so() -> None:
    assert memory_of(WRITTEN["concatenate"]) == [StateMemory.APPENDED]
    assert memory_of(WRITTEN["dynamic_update_slice"]) == [StateMemory.IN_PLACE]


def test_appending_along_another_axis_takes_new_memory() -> None:
    text = WRITTEN["concatenate"].replace("(n, 4)", "(4, n)").replace("(2, 4)", "(4, 2)").replace("axis=0", "axis=1")
    assert in_place(text) == []
    assert memory_of(text) == [StateMemory.REPLACED]
    check_text(text, levels=(0,))  # higher ones store it with that axis first


def test_the_text_of_groups_says_where_a_result_lies() -> None:
    grouped, _, _ = lowered(WRITTEN["concatenate"])
    assert groups_text(grouped) == "0: concatenate(%u) in %x -> %2: Tensor[(n + 2, 4), float32]\n"


@pytest.mark.parametrize("role", ["state", "donated"])
def test_old_values_are_read_before_they_are_overwritten(role: str) -> None:
    """The reader stands after the update, on which it does not depend: it runs before it."""
    text = f"""
def @main({role} %x: Tensor[(6, 4), float32], %u: Tensor[(2, 3), float32], %at: Tensor[(2,), int64]) {{
  %0 = dynamic_update_slice(%x, %u, %at);
  %1 = nn.softmax(%0);
  %2 = cumsum(%x, axis=0);
  (%x = %0, %2, %x, %1)
}}"""
    assert in_place(text) == ["dynamic_update_slice"]
    check_text(text)


@pytest.mark.parametrize(("role", "memory"), [("state", [StateMemory.REPLACED]), ("donated", [])])
def test_an_old_value_that_is_needed_later_is_kept(role: str, memory: list[StateMemory]) -> None:
    text = f"""
def @main({role} %x: Tensor[(4, 4), float32], %u: Tensor[(2, 3), float32], %at: Tensor[(2,), int64]) {{
  %0 = dynamic_update_slice(%x, %u, %at);
  %1 = nn.matmul(%0, %x);
  (%x = %0, %1)
}}"""
    assert in_place(text) == []
    assert memory_of(text) == memory
    check_text(text)


def test_an_update_that_reads_what_it_changes_elsewhere_is_computed_first() -> None:
    """The new rows are the old ones upside down."""
    text = """
def @main(donated %x: Tensor[(6, 4), float32], %at: Tensor[(2,), int64]) {
  %0 = reverse(%x, axis=0);
  %1 = strided_slice(%0, begin=[0], end=[5]);
  %2 = dynamic_update_slice(%x, %1, %at);
  (%x = %2)
}"""
    check_text(text)


def test_an_update_that_reads_what_it_changes_through_a_view_is_computed_first() -> None:
    text = """
def @main(donated %x: Tensor[(6, 4), float32], %at: Tensor[(2,), int64]) {
  %0 = reshape(%x, newshape=[4, 6]);
  %1 = strided_slice(%0, begin=[0, 0], end=[4, 4]);
  %2 = dynamic_update_slice(%x, %1, %at);
  (%x = %2)
}"""
    assert in_place(text) == []
    check_text(text)


@pytest.mark.parametrize("role", ["state", "donated"])
def test_an_update_that_is_another_output_too_is_kept(role: str) -> None:
    text = f"""
def @main({role} %x: Tensor[(6, 4), float32], %u: Tensor[(2, 3), float32], %at: Tensor[(2,), int64]) {{
  %0 = dynamic_update_slice(%x, %u, %at);
  %1 = strided_set(%0, %u, begin=[0, 0], end=[2, 3]);
  (%x = %1, %0)
}}"""
    assert in_place(text) == []
    check_text(text)


@pytest.mark.parametrize("role", ["state", "donated"])
def test_values_change_places(role: str) -> None:
    check_text(f"""
def @main({role} %a: Tensor[(300,), float32], {role} %b: Tensor[(300,), float32], {role} %c: Tensor[(300,), float32]) {{
  (%a = %b, %b = %c, %c = %a)
}}""")


def test_what_stays_costs_nothing() -> None:
    text = "def @main(state %a: Tensor[(3,), float32], %x: Tensor[(3,), float32]) { %0 = add(%a, %x); (%a = %a, %0) }"
    grouped, plan, program = lowered(text)
    assert len(grouped.groups) == 1
    assert storage_of(plan.followed, grouped.graph.outputs[0]) is grouped.graph.inputs[0]
    assert [b.memory for b in program.program.bindings] == [StateMemory.IN_PLACE]
    check_text(text)


STEP = """
def @main(donated %w: Tensor[(7, 33), float32], %x: Tensor[(4, 7), float32], %g: Tensor[(4, 33), float32],
          state %count: int64) {
  %0 = transpose(%x, axes=[1, 0]);
  %1 = nn.matmul(%0, %g);
  %2 = multiply(%1, 0.5f);
  %3 = subtract(%w, %2);
  %4 = add(%count, 1i64);
  (%w = %3, %count = %4)
}"""


def test_elements_are_overwritten_where_they_are_read() -> None:
    """A step of training takes no memory: weights are changed as the product is written."""
    grouped, plan, program = lowered(STEP)
    assert [len(group.overwritten) for group in grouped.groups] == [1, 1]
    assert plan.arena_size == 0
    assert [len(f.aliases) for f in program.program.functions] == [0, 0] or all(f.aliases for f in program.program.functions)
    check_text(STEP)


@pytest.mark.parametrize("body", [
    "%0 = reverse(%x, axis=0); (%x = %0)",
    "%0 = transpose(%x, axes=[1, 0]); (%x = %0)",
    "%0 = nn.softmax(%x); (%x = %0)",
    "%0 = max(%x, axis=[0], keepdims=True); %1 = subtract(%x, %0); (%x = %1)",
    "%0 = nn.matmul(%x, %x); (%x = %0)",
    "%0 = strided_slice(%x, begin=[0], end=[1]); %1 = add(%x, %0); (%x = %1)",
    "%0 = reshape(%x, newshape=[3, 48]); %1 = exp(%0); %2 = reshape(%1, newshape=[12, 12]); (%x = %2)",
])
@pytest.mark.parametrize("role", ["state", "donated"])
def test_replaced_as_a_whole(body: str, role: str) -> None:
    check_text(f"def @main({role} %x: Tensor[(12, 12), float32]) {{ {body} }}")


def test_intermediate_results_are_updated() -> None:
    text = """
def @main(%x: Tensor[(40, 8), float32], %i: Tensor[(1, 3), int64], %u: Tensor[(3, 8), float32]) {
  %0 = nn.softmax(%x);
  %1 = scatter_nd(%0, %i, %u);
  %2 = scatter_nd(%1, %i, %u, mode="add");
  (%2)
}"""
    grouped, plan, _ = lowered(text)
    assert [g.updated is not None for g in grouped.groups] == [False, True, True]
    assert plan.arena_size == 0, "all of them are the output"
    check_text(text)


def test_inputs_constants_and_other_outputs_are_not_written() -> None:
    text = """
def @main(%x: Tensor[(6, 4), float32], %i: Tensor[(1, 3), int64], %u: Tensor[(3, 4), float32]) {
  %0 = scatter_nd(%x, %i, %u);
  %1 = cumsum(%x, axis=0);
  %2 = scatter_nd(%1, %i, %u);
  %3 = zeros(shape=[6, 4], dtype="float32");
  %4 = scatter_nd(%3, %i, %u);
  (%0, %1, %2, %4)
}"""
    check_text(text)


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    """Updates, reads and views of donated inputs and states, in any order."""
    builder = Builder()
    count = draw(st.integers(1, 3))
    values = [builder.input(TensorType((4, 6), "float32"), f"x{k}") for k in range(count)]
    update = builder.input(TensorType((2, 3), "float32"), "update")
    rows = builder.input(TensorType((2, 6), "float32"), "rows")
    at = builder.input(TensorType((2,), "int64"), "at")
    places = builder.input(TensorType((1, 2), "int64"), "places")

    def part(value: Value) -> Value:
        return builder.call("strided_slice", value, begin=(1, 0), end=(3, 3))

    kinds: dict[str, Callable[[Value, Value], Value]] = {
        "slice": lambda v, _: builder.call("dynamic_update_slice", v, update, at),
        "scatter": lambda v, _: builder.call("scatter_nd", v, places, rows, mode="add"),
        "set": lambda v, _: builder.call("strided_set", v, rows, begin=(3,), end=(0,), strides=(-2,)),
        "own": lambda v, w: builder.call("dynamic_update_slice", v, part(w), at),
        "add": lambda v, w: builder.call("add", v, w),
        "reverse": lambda v, _: builder.call("reverse", v, axis=1),
        "view": lambda v, _: builder.call("reshape", builder.call("reshape", v, newshape=(24,)), newshape=(4, 6)),
        "total": lambda v, w: builder.call("add", builder.call("cumsum", v, axis=0), w),
    }
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(sorted(kinds)))
        values.append(kinds[kind](draw(st.sampled_from(values)), draw(st.sampled_from(values))))
    outputs = [draw(st.sampled_from(values)) for _ in range(count + draw(st.integers(0, 2)))]
    graph = builder.output(*outputs)
    for k in range(count):
        role = draw(st.sampled_from(["state", "donated", "none"]))
        if role == "state":
            graph.states[f"x{k}"] = State(k)
        elif role == "donated":
            graph.donated[f"x{k}"] = k
    return graph


@settings(max_examples=60)
@given(programs(), st.integers(0, 2))
def test_any_order_of_updates_and_reads(graph: Graph, seed: int) -> None:
    generator = np.random.default_rng(seed)
    check(graph, [_contents(generator, v) for v in graph.inputs], (seed,))
