"""The memory plan: blocks that live at the same time never share bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forge
from forge import dims, dtypes
from forge.driver import check_options, compile_module, optimized_graph
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.lowering import arena
from forge.lowering.arena import Block, most_live_bytes
from forge.lowering.groups import form_groups
from forge.lowering.memory import ALIGNMENT, MemoryPlan, Step, materialize_outputs, plan_memory, steps_of, view_root
from tests import guard

Apply = Callable[[Builder, list[Value]], Value]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Chains, joins, views and constants over tensors of equal rows; static or symbolic in the first dimension."""
    builder = Builder()
    rows = draw(st.sampled_from([4, dims.symbol("n"), dims.symbol("n") * 2]))
    extents: list[dims.Dim] = [rows, 8]
    values = [builder.input(TensorType(tuple(extents), "float32"), f"x{k}") for k in range(draw(st.integers(1, 2)))]
    if not isinstance(rows, int):
        builder.input(TensorType((dims.symbol("n"),), "float32"), "n")
    for _ in range(draw(st.integers(1, 12))):
        values.append(_apply(builder, draw(st.sampled_from(sorted(_KINDS))), [draw(st.sampled_from(values)) for _ in range(2)]))
    return builder.output(*draw(st.lists(st.sampled_from(values), min_size=1, max_size=3)))


def _apply(builder: Builder, kind: str, values: list[Value]) -> Value:
    return _KINDS[kind](builder, values)


def _dense(width: int) -> Apply:
    def add(builder: Builder, values: list[Value]) -> Value:
        weight = builder.constant(np.full((width, 8), width, np.float32))
        wide = builder.call("nn.dense", values[0], weight)
        back = builder.constant(np.full((8, width), width, np.float32))
        return builder.call("nn.dense", wide, back)

    return add


def _view(builder: Builder, values: list[Value]) -> Value:
    flat = builder.call("reshape", values[0], newshape=(-1,))
    return builder.call("reshape", flat, newshape=tuple(values[0].shape))


_KINDS: dict[str, Apply] = {
    "softmax": lambda b, v: b.call("nn.softmax", v[0]),
    "relu": lambda b, v: b.call("nn.relu", v[0]),
    "add": lambda b, v: b.call("add", *v),
    "narrow": _dense(3),
    "wide": _dense(40),
    "view": _view,
}


def planned(graph: Graph, fuse: bool = True) -> tuple[list[Step], MemoryPlan]:
    materialize_outputs(graph)
    steps = steps_of(form_groups(graph, fuse))
    return steps, plan_memory(graph, steps)


def size_of(value: Value, symbols: dict[str, int]) -> int:
    return dims.evaluate(value.tensor_type.size, symbols) * dtypes.itemsize(value.dtype)


def check_lifetimes(steps: list[Step], plan: MemoryPlan, symbols: dict[str, int]) -> int:
    """Runs the steps on a map of the arena: whoever reads a block must find it as it was written. Returns the bytes used."""
    arena_size = plan.arena_size_at(symbols)
    owner = np.full(arena_size, -1, np.int64)
    highest = 0
    for step in steps:
        for value in step.reads:
            begin, end = _place(plan, value, symbols)
            kept = owner[begin:end] == id(view_root(value))
            assert kept.all(), f"%{value.name} was overwritten before it was read"
        ranges = [_place(plan, value, symbols) for value in step.writes]
        read = [_place(plan, value, symbols) for value in step.reads]
        for (begin, end), value in zip(ranges, step.writes):
            assert begin % ALIGNMENT == 0
            assert end <= arena_size
            assert not any(max(begin, b) < min(end, e) for b, e in read), f"%{value.name} overwrites an operand of its own kernel"
            owner[begin:end] = id(value)
            highest = max(highest, end)
    return highest


def _place(plan: MemoryPlan, value: Value, symbols: dict[str, int]) -> tuple[int, int]:
    """Bytes of the arena that hold ``value``; none where it lies elsewhere."""
    location = plan.location(value)
    if location.base != "arena":
        return 0, 0
    begin = plan.arena.layout_at(symbols)[0][location.index]
    return begin, begin + size_of(value, symbols)


@settings(max_examples=150)
@given(graphs(), st.booleans(), st.integers(1, 9))
def test_no_block_is_overwritten_while_it_lives(graph: Graph, fuse: bool, n: int) -> None:
    steps, plan = planned(graph, fuse)
    symbols = {"n": n}
    used = check_lifetimes(steps, plan, symbols)
    size = plan.arena_size_at(symbols)
    assert size < used + 2 * ALIGNMENT  # rounded up, and a line that empty tensors may read
    assert most_live_bytes(blocks_of(steps, plan, symbols)) <= size


@settings(max_examples=50)
@given(graphs())
def test_outputs_have_memory_of_their_own(graph: Graph) -> None:
    steps, plan = planned(graph, True)
    places = [plan.location(v) for v in graph.outputs]
    assert [p.base for p in places] == ["output"] * len(places)
    assert sorted(p.index for p in places) == list(range(len(places)))
    assert steps or not graph.outputs


def test_the_check_finds_an_overlap() -> None:
    builder = Builder()
    x = builder.input(TensorType((4, 8), "float32"), "x")
    a, b = builder.call("nn.softmax", x), builder.call("nn.softmax", x, axis=0)
    steps, plan = planned(builder.output(builder.call("nn.softmax", builder.call("add", a, b))), False)
    check_lifetimes(steps, plan, {})
    plan.locations[b] = plan.locations[a]
    with pytest.raises(AssertionError, match="overwritten"):
        check_lifetimes(steps, plan, {})


def test_the_arena_of_the_demo_is_near_its_lower_bound(digits: forge.IRModule) -> None:
    module = digits.copy()
    module.set_batch_size(16)
    steps, plan = planned(optimized_graph(module.mod, check_options("llvm -mcpu=x86-64-v3")), True)
    assert isinstance(plan.arena_size, int)
    bound = most_live_bytes(blocks_of(steps, plan, {}))
    assert 0 < bound <= plan.arena_size <= 1.25 * bound
    check_lifetimes(steps, plan, {})


def blocks_of(steps: list[Step], plan: MemoryPlan, symbols: dict[str, int]) -> list[Block]:
    """The blocks of the arena, of these sizes."""
    blocks: dict[int, Block] = {}
    for number, step in enumerate(steps):
        for value in (*step.writes, *step.reads):
            place = plan.location(value)
            if place.base == "arena":
                size = dims.evaluate(plan.arena.parts[place.index].size, symbols)
                blocks.setdefault(place.index, Block(size, number, number)).last = number
    return list(blocks.values())


def check_size(steps: list[Step], plan: MemoryPlan, symbols: dict[str, int]) -> None:
    """The arena is as small as that of blocks of known sizes."""
    blocks = blocks_of(steps, plan, symbols)
    assert plan.arena_size_at(symbols) <= 1.1 * arena.place(blocks) + ALIGNMENT, symbols


@given(graphs(), st.booleans(), st.integers(0, 600))
def test_random_graphs_need_as_much_as_with_known_sizes(graph: Graph, fuse: bool, n: int) -> None:
    steps, plan = planned(graph, fuse)
    check_size(steps, plan, {"n": n})


def _maybe_empty(builder: Builder, kind: str) -> Value:
    """A tensor of rows of 2048 elements, which has none when the inputs are those of ``test_reads_of_nothing``."""
    if kind == "constant":
        return builder.constant(np.zeros((0, 2048), np.float32))
    extents: dict[str, dims.Dim] = {"static": 0, "symbolic": dims.symbol("n"), "late": 4}
    data = builder.input(TensorType((extents[kind], 2048), "float32"), "data")
    if kind == "late":
        wanted = builder.call("argwhere", builder.input(TensorType((4,), "bool"), "wanted"))
        data = builder.call("take", data, builder.call("squeeze", wanted, axis=(1,)), axis=0)
    return builder.call("nn.softmax", data)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("kind", ["constant", "static", "symbolic", "late"])
def test_reads_of_nothing(kind: str, opt_level: int) -> None:
    """Indices into an empty tensor are clamped to what is not there: it is read, after a block of no bytes, in the arena."""
    builder = Builder()
    places = builder.input(TensorType((3,), "int64"), "places")
    graph = builder.output(builder.call("take", _maybe_empty(builder, kind), places, axis=0, mode="clip"))
    data = np.zeros((4 if kind == "late" else 0, 2048), np.float32)
    given = {"places": np.zeros(3, np.int64), "wanted": np.zeros(4, bool), "data": data}
    compiled = compile_module(Module(graph), check_options(opt_level=opt_level), use_cache=False)
    (result,) = guard.run(compiled, graph, [given[v.name] for v in graph.inputs])
    assert result.shape == (3, 2048)


def test_sizes_that_inputs_make_negative_move_no_other_block() -> None:
    text = """def @main(%x: Tensor[(1, 1, n), float32], %y: Tensor[(m), float32]) {
      %0 = nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [-500, -500]]);
      %1 = cumsum(%0, axis=2);
      %2 = cumsum(%y, axis=0);
      %3 = cumsum(%2, axis=0);
      (sum(%3, axis=[0]), sum(cumsum(%1, axis=2), axis=[2]))
    }"""
    run = forge.IRModule(text).get_inference_function()
    assert run(np.ones((1, 1, 10), np.float32), np.ones(4000, np.float32))[0] > 1e10
