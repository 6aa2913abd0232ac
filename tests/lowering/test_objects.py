"""Sequences and optionals in machine code against the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.errors import CompileError
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import OptionalType, SequenceType, TensorType, Type, UnrankedType
from forge_runtime import ExecutionError, InputError, Runtime

F32 = "float32"
N, K = dims.symbol("n"), dims.symbol("k")
VECTOR = TensorType((N,), F32)
ROWS = TensorType((N, 3), F32)
FLAG = TensorType((), "bool")
COUNT = TensorType((), "int64")
LIST = SequenceType(TensorType((K,), F32))
Build = Callable[..., Sequence[Value]]
LEVELS = (0, 3)


def graph(types: Sequence[Type], build: Build) -> Graph:
    builder = Builder()
    return builder.output(*build(builder, *[builder.input(t, f"x{k}") for k, t in enumerate(types)]))


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def lists(*lengths: int) -> list[np.ndarray]:
    return [floats(n) for n in lengths]


def compiled(built: Graph, level: int = 3) -> Runtime:
    return compile_module(Module(built.copy()), check_options(opt_level=level), use_cache=False).runtime()


def call(runtime: Runtime, built: Graph, feed: Sequence[Any]) -> list[Any]:
    got = runtime(**{v.name: a for v, a in zip(built.inputs, feed, strict=True)})
    return [got] if len(built.outputs) == 1 else list(got)


def same(got: Any, expected: Any) -> None:
    if expected is None:
        assert got is None
    elif isinstance(expected, list):
        assert isinstance(got, list) and len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
    else:
        assert got.shape == np.shape(expected) and got.dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(got, expected)


def check(built: Graph, *feeds: Sequence[Any]) -> None:
    """Compiled at two levels and interpreted, the graph gives the same values for every feed."""
    for level in LEVELS:
        runtime = compiled(built, level)
        for feed in feeds:
            same(call(runtime, built, feed), list(run_graph(built, list(feed))))


def fails(built: Graph, feed: Sequence[Any], message: str) -> None:
    """Compiled at two levels and interpreted, the graph refuses the feed."""
    for level in LEVELS:
        with pytest.raises(ExecutionError, match=message):
            call(compiled(built, level), built, feed)
    with pytest.raises((ValueError, IndexError)):
        run_graph(built, list(feed))


def test_construct_and_take() -> None:
    built = graph([VECTOR, ROWS], lambda b, x, y: [
        (s := b.call("sequence_construct", x, b.call("nn.relu", x))), b.call("sequence_length", s),
        b.call("nn.relu", b.call("sequence_at", s, b.constant(np.array(-1)))),
        b.call("sequence_construct", y)])
    check(built, [floats(4), floats(4, 3)], [floats(0), floats(0, 3)])


@pytest.mark.parametrize("position", [None, 0, 1, -1, 2, -2, 3, -3])
def test_insert_and_erase(position: int | None) -> None:
    def build(b: Builder, s: Value, x: Value, p: Value) -> list[Value]:
        places = [] if position is None else [p]
        longer = b.call("sequence_insert", s, x, *places)
        return [longer, b.call("sequence_erase", longer, *places), s]

    check(graph([LIST, VECTOR, COUNT], build), [lists(2, 5, 0), floats(4), np.array(position or 0)])


@pytest.mark.parametrize(("operator", "position"), [
    ("sequence_insert", 4), ("sequence_insert", -4), ("sequence_erase", 3), ("sequence_erase", -4), ("sequence_at", 3),
    ("sequence_at", -4)])
def test_positions_out_of_range(operator: str, position: int) -> None:
    def build(b: Builder, s: Value, x: Value, p: Value) -> list[Value]:
        given = [s, x, p] if operator == "sequence_insert" else [s, p]
        return [b.call(operator, *given)]

    feed = [lists(1, 2, 3), floats(2), np.array(position)]
    fails(graph([LIST, VECTOR, COUNT], build), feed, f"{operator}.*got position {position}")


def test_nothing_to_erase() -> None:
    fails(graph([LIST], lambda b, s: [b.call("sequence_erase", s)]), [[]], "got position -1")


@pytest.mark.parametrize("axis", [0, 1])
def test_split(axis: int) -> None:
    built = graph([ROWS, COUNT, TensorType((K,), "int64")], lambda b, x, size, sizes: [
        b.call("split_to_sequence", x, axis=axis), b.call("split_to_sequence", x, axis=axis, keepdims=False),
        b.call("split_to_sequence", x, size, axis=axis), b.call("split_to_sequence", x, sizes, axis=axis)])
    sizes = {0: [1, 0, 2], 1: [0, 3]}[axis]
    check(built, [floats(3, 3), np.array(2), np.array(sizes)], [floats(3, 3), np.array(9), np.array([3])])


def test_split_of_nothing() -> None:
    built = graph([ROWS, COUNT], lambda b, x, size: [b.call("split_to_sequence", x), b.call("split_to_sequence", x, size)])
    check(built, [floats(0, 3), np.array(2)])


@pytest.mark.parametrize("sizes", [[1, 1], [4], [-1, 4], [2, 2]])
def test_split_sizes_must_fit(sizes: list[int]) -> None:
    built = graph([ROWS, TensorType((K,), "int64")], lambda b, x, s: [b.call("split_to_sequence", x, s)])
    fails(built, [floats(3, 3), np.array(sizes)], "do not add up")


def test_split_size_must_be_positive() -> None:
    built = graph([ROWS, COUNT], lambda b, x, s: [b.call("split_to_sequence", x, s)])
    fails(built, [floats(3, 3), np.array(0)], "not positive")


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int) -> None:
    built = graph([SequenceType(TensorType((K, 3), F32))], lambda b, s: [
        b.call("concat_from_sequence", s, axis=axis), b.call("concat_from_sequence", s, axis=axis, new_axis=True)])
    check(built, [[floats(2, 3), floats(2, 3) + 1]], [[floats(0, 3)]])


def test_concat_of_other_lengths() -> None:
    built = graph([LIST], lambda b, s: [b.call("nn.relu", b.call("concat_from_sequence", s))])
    check(built, [lists(3, 0, 5)])
    fails(built, [[]], "the sequence is empty")
    fails(graph([LIST], lambda b, s: [b.call("concat_from_sequence", s, new_axis=True)]), [lists(2, 3)], "other ranks, sizes")


def appending(limit: Callable[[Builder, Value], Value] | None = None) -> Graph:
    def body(b: Builder, i: Value, c: Value, s: Value, x: Value) -> list[Value]:
        step = b.call("add", x, b.call("cast", i, dtype=F32))
        return [c, b.call("sequence_insert", s, step)]

    inner = graph([COUNT, FLAG, LIST, VECTOR], body)
    return graph([COUNT, VECTOR, LIST], lambda b, t, x, s: [
        *b.node("loop", [t, None, s, x], {"num_carried": 1}, [inner]).results])


def test_a_loop_appends() -> None:
    check(appending(), [np.array(5), floats(3), []], [np.array(0), floats(3), lists(1)], [np.array(40), floats(0), lists(1, 2)])


def test_versions_of_a_sequence_share_elements_and_stay_apart() -> None:
    def build(b: Builder, s: Value, x: Value) -> list[Value]:
        one = b.call("sequence_insert", s, x)
        two = b.call("sequence_insert", one, b.call("negative", x))
        other = b.call("sequence_insert", one, b.call("exp", b.call("nn.relu", b.call("negative", b.call("abs", x)))))
        shorter = b.call("sequence_erase", two, b.constant(np.array(0)))
        return [s, one, two, other, shorter, b.call("sequence_insert", shorter, x)]

    check(graph([LIST, VECTOR], build), [lists(2), floats(3)], [[], floats(1)])


def test_branches_give_sequences() -> None:
    then, other = (graph([LIST, VECTOR], lambda b, s, x, p=p: [b.call("sequence_insert", s, x, *p(b))])
                   for p in (lambda b: [], lambda b: [b.constant(np.array(0))]))
    built = graph([FLAG, LIST, VECTOR], lambda b, f, s, x: b.node("if", [f, s, x], {}, [then, other]).results)
    check(built, [np.array(True), lists(2, 1), floats(3)], [np.array(False), lists(2, 1), floats(3)])


def test_map_over_sequences() -> None:
    body = graph([TensorType((K,), F32), TensorType((K,), F32), VECTOR],
                 lambda b, x, y, z: [b.call("add", x, y), b.call("sum", z, axis=(0,))])
    built = graph([LIST, LIST, VECTOR], lambda b, s, t, z: b.node(
        "sequence_map", [s, t, z], {"num_sequences": 2}, [body]).results)
    check(built, [lists(2, 3), lists(2, 3), floats(4)], [[], [], floats(1)])
    fails(built, [lists(2), [], floats(1)], "different lengths")


def test_optionals() -> None:
    maybe = OptionalType(VECTOR)
    built = graph([maybe, VECTOR], lambda b, o, x: [
        b.call("optional_has_element", o), b.call("optional_has_element", x), b.call("optional_has_element", None),
        b.call("optional", x), b.call("optional", None, type="Tensor[(3), float32]"), o])
    check(built, [floats(3), floats(3)], [None, floats(2)])
    taken = graph([maybe], lambda b, o: [b.call("nn.relu", b.call("optional_get_element", o))])
    check(taken, [floats(3)], [floats(0)])
    fails(taken, [None], "the optional is empty")


def test_optional_of_a_sequence() -> None:
    built = graph([OptionalType(LIST)], lambda b, o: [
        b.call("sequence_length", b.call("optional_get_element", o)), b.call("optional", b.call("optional_get_element", o)), o])
    check(built, [lists(2, 3)], [[]])


def test_strings_in_sequences() -> None:
    words = TensorType((2,), "string")
    built = graph([SequenceType(words), words], lambda b, s, w: [
        (longer := b.call("sequence_insert", s, w)),
        b.call("string.concat", b.call("sequence_at", longer, b.constant(np.array(0))), w)])
    check(built, [[np.array(["a", "bc"], object)], np.array(["é", ""], object)], [[], np.array(["x", "yz"], object)])


def test_ranks_may_differ() -> None:
    built = graph([VECTOR, ROWS, COUNT], lambda b, x, y, p: [
        (s := b.call("sequence_construct", x, y)), (one := b.call("sequence_at", s, p)), b.call("sequence_insert", s, one), one])
    assert isinstance(built.outputs[1].type, UnrankedType)
    check(built, [floats(2), floats(2, 3), np.array(0)], [floats(2), floats(2, 3), np.array(1)])


def test_a_reader_that_needs_the_rank_is_named() -> None:
    body = graph([UnrankedType(F32)], lambda b, x: [b.call("sequence_construct", x)])

    def build(b: Builder, f: Value, x: Value, y: Value) -> Sequence[Value]:
        one = b.call("sequence_at", b.call("sequence_construct", x, y), b.constant(np.array(0)))
        return b.node("if", [f, one], {}, [body, body.copy()], "choose").results

    built = graph([FLAG, VECTOR, ROWS], build)
    with pytest.raises(CompileError, match=r"\(sequence_at\): got Tensor\[\?, .*; node choose \(if\) needs to know its rank"):
        compile_module(Module(built), check_options(opt_level=0), use_cache=False)


@pytest.mark.parametrize(("value", "message"), [
    (np.zeros(3, F32), "expected a list of arrays"), ([np.zeros(3, np.float64)], "another dtype"),
    ([floats(2, 2)], "another rank"),
    ([[floats(2)]], "another dtype"), ([None], "not an array"), ([np.zeros(2, "datetime64[s]")], "wrong dtype; got datetime64"),
    ([np.zeros((1,) * 9, F32)], "at most 8"), (None, "expected a list")])
def test_wrong_inputs_are_refused(value: Any, message: str) -> None:
    built = graph([LIST], lambda b, s: [b.call("sequence_length", s)])
    with pytest.raises(InputError, match=f"input 'x0'.*{message}"):
        compiled(built)(x0=value)


def test_a_wrong_shape_is_refused() -> None:
    built = graph([SequenceType(TensorType((2,), F32))], lambda b, s: [b.call("sequence_length", s)])
    with pytest.raises(InputError, match="another shape"):
        compiled(built)(x0=lists(3))


def test_strided_elements_and_one_list() -> None:
    built = graph([LIST], lambda b, s: [b.call("concat_from_sequence", s)])
    whole = floats(12)
    runtime = compiled(built)
    np.testing.assert_array_equal(runtime([whole[::2], whole[::-3]]), [*whole[::2], *whole[::-3]])
    np.testing.assert_array_equal(runtime(x0=(whole[:2],)), whole[:2])
    runtime.warm_up(1, [[whole]])


def test_outputs_are_not_written_in_place() -> None:
    built = graph([VECTOR], lambda b, x: [b.call("sequence_construct", x)])
    with pytest.raises(InputError, match="sequences are not written in place"):
        compiled(built).run([floats(2)], outputs=[np.empty((), "V24")])


def test_outputs_outlive_the_model() -> None:
    runtime = compiled(appending())
    results = [runtime(x0=np.array(n), x1=floats(3), x2=[]) for n in (3, 300)]
    del runtime
    assert [len(r) for r in results] == [3, 300]
    np.testing.assert_array_equal(results[1][299], floats(3) + np.float32(299))
