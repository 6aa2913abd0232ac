"""Operators with regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge.ops  # noqa: F401
from forge import dims
from forge.dims import DimExpr
from forge.errors import TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.interp import run_graph
from forge.ir.types import SequenceType, TensorType, Type, UnrankedType

F32 = "float32"
VECTOR = TensorType((3,), F32)
COUNT = TensorType((), "int64")
FLAG = TensorType((), "bool")


def region(types: list[Type], build: Any) -> Graph:
    builder = Builder()
    return builder.output(*build(builder, *[builder.input(t) for t in types]))


def numbers(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def branches(then_op: str, else_op: str) -> list[Graph]:
    return [region([VECTOR], lambda b, x, op=op: [b.call(op, x)]) for op in (then_op, else_op)]


def test_if_runs_the_branch_that_the_condition_chooses() -> None:
    builder = Builder()
    condition, x = builder.input(FLAG), builder.input(VECTOR)
    node = builder.node("if", [condition, x], {}, branches("negative", "abs"))
    graph = builder.output(node.result)
    assert node.result.type == VECTOR
    for flag, expected in ((True, [-1, 2, -3]), (False, [1, 2, 3])):
        (result,) = run_graph(graph, [np.array(flag), numbers(1, -2, 3)])
        np.testing.assert_array_equal(result, numbers(*expected))


def test_if_gives_different_sizes_a_new_symbol_and_different_ranks_no_rank() -> None:
    builder = Builder()
    condition, x = builder.input(FLAG), builder.input(VECTOR)
    half = region([VECTOR], lambda b, x: [b.call("strided_slice", x, begin=(0,), end=(2,)), b.call("copy", x)])
    whole = region([VECTOR], lambda b, x: [b.call("copy", x), b.call("expand_dims", x, axis=0)])
    node = builder.node("if", [condition, x], {}, [half, whole])
    first, second = (v.type for v in node.results)
    assert isinstance(first, TensorType) and isinstance(first.shape[0], DimExpr)
    assert second == UnrankedType(F32)


def test_if_refuses_branches_with_other_element_types() -> None:
    builder = Builder()
    condition, x = builder.input(FLAG), builder.input(VECTOR)
    other = region([VECTOR], lambda b, x: [b.call("cast", x, dtype="int32")])
    with pytest.raises(TypeInferenceError, match="if: types do not fit together"):
        builder.node("if", [condition, x], {}, [branches("abs", "abs")[0], other])


def test_if_refuses_a_region_that_does_not_take_the_captured_values() -> None:
    builder = Builder()
    with pytest.raises(TypeInferenceError, match="if: inputs of the region; got 1; expected 0 and 0 captured"):
        builder.node("if", [builder.input(FLAG)], {}, branches("abs", "abs"))


def loop_body() -> Graph:
    def build(b: Builder, i: Any, condition: Any, total: Any, step: Any) -> list[Any]:
        added = b.call("add", total, step)
        small = b.call("less", b.call("sum", added), b.constant(100.0, F32))
        return [small, added, b.call("cast", i, dtype=F32)]

    return region([COUNT, FLAG, VECTOR, VECTOR], build)


@pytest.mark.parametrize(("limit", "flag", "trips"), [
    (4, True, 4), (100, True, 34), (5, False, 0), (None, True, 34), (3, None, 3),
])
def test_loop(limit: int | None, flag: bool | None, trips: int) -> None:
    builder = Builder()
    operands = [None if limit is None else builder.constant(limit), None if flag is None else builder.constant(flag)]
    start, step = builder.input(VECTOR), builder.input(VECTOR)
    node = builder.node("loop", [*operands, start, step], {"num_carried": 1}, [loop_body()])
    graph = builder.output(*node.results)
    total, scanned = run_graph(graph, [numbers(0, 0, 0), numbers(1, 1, 1)])
    np.testing.assert_array_equal(total, np.full(3, trips, np.float32))
    np.testing.assert_array_equal(scanned, np.arange(trips, dtype=np.float32))
    assert node.results[0].type == VECTOR


def test_loop_without_condition_has_a_known_number_of_iterations() -> None:
    builder = Builder()
    values = [builder.input(VECTOR), builder.input(VECTOR)]
    node = builder.node("loop", [builder.constant(5), None, *values], {"num_carried": 1}, [loop_body()])
    assert node.results[1].type == TensorType((5,), F32)


def test_loop_that_grows_its_value() -> None:
    n = dims.symbol("inside")
    body = region([COUNT, FLAG, TensorType((n,), F32)], lambda b, i, c, x: [c, b.call("concatenate", x, x)])
    builder = Builder()
    start = builder.input(VECTOR)
    node = builder.node("loop", [builder.constant(2), builder.constant(True), start], {"num_carried": 1}, [body])
    (result,) = run_graph(builder.output(node.result), [numbers(1, 2, 3)])
    np.testing.assert_array_equal(result, np.tile(numbers(1, 2, 3), 4))
    assert isinstance(node.result.shape[0], DimExpr)


def scan_body() -> Graph:
    scalar = TensorType((), F32)
    return region([scalar, scalar, scalar], lambda b, s, x, c: [b.call("add", s, x), b.call("multiply", x, c)])


@pytest.mark.parametrize("backwards", [False, True])
def test_scan(backwards: bool) -> None:
    builder = Builder()
    state, data, factor = builder.input(TensorType((), F32)), builder.input(VECTOR), builder.input(TensorType((), F32))
    attributes = {"num_states": 1, "num_scan_inputs": 1, "input_directions": (int(backwards),)}
    node = builder.node("scan", [state, data, factor], attributes, [scan_body()])
    total, scaled = run_graph(builder.output(*node.results), [np.float32(10), numbers(1, 2, 3), np.float32(2)])
    assert total == 16
    np.testing.assert_array_equal(scaled, numbers(6, 4, 2) if backwards else numbers(2, 4, 6))
    assert [v.type for v in node.results] == [TensorType((), F32), VECTOR]


def test_scan_along_other_axes_and_in_reverse_order() -> None:
    body = region([TensorType((2,), F32)], lambda b, x: [b.call("negative", x)])
    builder = Builder()
    data = builder.input(TensorType((2, 3), F32))
    attributes = {"input_axes": (1,), "output_axes": (-1,), "output_directions": (1,)}
    node = builder.node("scan", [data], attributes, [body])
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    (result,) = run_graph(builder.output(node.result), [values])
    np.testing.assert_array_equal(result, -values[:, ::-1])
    assert node.result.type == TensorType((2, 3), F32)


def sequence_of(builder: Builder, *operands: Any) -> Any:
    return builder.call("sequence_construct", *operands)


def test_sequence_operators() -> None:
    builder = Builder()
    a, b = builder.input(VECTOR), builder.input(TensorType((2,), F32))
    first = builder.constant(0)
    items = sequence_of(builder, a, b)
    assert isinstance(items.type, SequenceType)
    longer = builder.call("sequence_insert", items, a, first)
    shorter = builder.call("sequence_erase", longer, builder.constant(-1))
    graph = builder.output(
        builder.call("sequence_length", longer), builder.call("sequence_length", shorter),
        builder.call("sequence_at", longer, builder.constant(-1)), builder.call("concat_from_sequence", longer),
    )
    three, two, last, joined = run_graph(graph, [numbers(1, 2, 3), numbers(4, 5)])
    assert (int(three), int(two)) == (3, 2)
    np.testing.assert_array_equal(last, numbers(4, 5))
    np.testing.assert_array_equal(joined, numbers(1, 2, 3, 1, 2, 3, 4, 5))


def test_two_elements_of_a_sequence_may_differ_in_size() -> None:
    builder = Builder()
    items = sequence_of(builder, builder.input(VECTOR), builder.input(TensorType((2,), F32)))
    one, other = (builder.call("sequence_at", items, builder.constant(k)) for k in (0, 1))
    assert one.type != other.type
    run_graph(builder.output(one, other), [numbers(1, 2, 3), numbers(4, 5)])


@pytest.mark.parametrize(("split", "sizes"), [(None, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), ([4, 1], [4, 1])])
def test_split_to_sequence(split: Any, sizes: list[int]) -> None:
    builder = Builder()
    data = builder.input(TensorType((5, 2), F32))
    operands = [data] if split is None else [data, builder.constant(split)]
    (parts,) = run_graph(builder.output(builder.call("split_to_sequence", *operands)), [np.ones((5, 2), np.float32)])
    assert [p.shape for p in parts] == [(s, 2) for s in sizes]


def test_sequence_map() -> None:
    body = region([VECTOR, VECTOR], lambda b, x, y: [b.call("add", x, y)])
    builder = Builder()
    a, b = builder.input(VECTOR), builder.input(VECTOR)
    node = builder.node("sequence_map", [sequence_of(builder, a, b), a], {"num_sequences": 1}, [body])
    (sums,) = run_graph(builder.output(node.result), [numbers(1, 2, 3), numbers(4, 5, 6)])
    np.testing.assert_array_equal(np.stack(sums), [[2, 4, 6], [5, 7, 9]])


def test_optional_operators() -> None:
    builder = Builder()
    x = builder.input(VECTOR)
    full, empty = builder.call("optional", x), builder.call("optional", type="Tensor[(3), float32]")
    graph = builder.output(
        builder.call("optional_has_element", full), builder.call("optional_has_element", empty),
        builder.call("optional_get_element", full),
    )
    has, lacks, value = run_graph(graph, [numbers(1, 2, 3)])
    assert bool(has) and not bool(lacks)
    np.testing.assert_array_equal(value, numbers(1, 2, 3))


def test_empty_optional_has_no_element_to_give() -> None:
    builder = Builder()
    empty = builder.call("optional", type="float32")
    with pytest.raises(ValueError, match="the optional is empty"):
        run_graph(builder.output(builder.call("optional_get_element", empty)), [])
