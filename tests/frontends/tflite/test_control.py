"""Branches, loops, variables, tables and signatures of TFLite models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import ForgeError, ImportModelError, OpNotImplemented
from tests.frontends.tflite.writer import Graph, Tensor, model

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ALL_WAYS = (("reference",), ())


def both(data: bytes, *inputs: Any) -> list[Any]:
    """What NumPy's meaning and compiled code give, which are equal."""
    first, second = (forge.from_tflite(data).get_inference_function(*how)(*inputs) for how in ALL_WAYS)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    return first


def body(op: str, number: float, shape: tuple[int, ...] = (2, 3)) -> Graph:
    """``op(x, number)``"""
    graph = Graph(op)
    x = graph.input(shape)
    graph.outputs = list(graph.op(op, [x, graph.constant(np.float32(number))], [graph.tensor(shape)]))
    return graph


def conditional(op: str = "IF", **options: Any) -> bytes:
    main = Graph()
    flag, x = main.input((), "bool" if op == "IF" else "int32"), main.input((2, 3))
    main.outputs = list(main.op(op, [flag, x], [main.tensor((2, 3))], **options))
    return model(main, body("MUL", 2), body("ADD", 10), body("SUB", 1))


@pytest.mark.parametrize(("flag", "expected"), [(True, X * 2), (False, X + 10)])
def test_branches(flag: bool, expected: np.ndarray) -> None:
    data = conditional(then_subgraph_index=1, else_subgraph_index=2)
    np.testing.assert_allclose(both(data, np.array(flag), X), expected)


@pytest.mark.parametrize(("number", "expected"), [(0, X * 2), (1, X + 10), (2, X - 1), (7, X - 1), (-1, X - 1)])
def test_cases(number: int, expected: np.ndarray) -> None:
    data = conditional("STABLEHLO_CASE", branch_subgraph_indices=[1, 2, 3])
    np.testing.assert_allclose(both(data, np.array(number, np.int32), X), expected)


def test_composites_are_their_decompositions() -> None:
    main = Graph()
    x = main.input((2, 3))
    main.outputs = list(main.op("STABLEHLO_COMPOSITE", [x], [main.tensor((2, 3))], name="acme.f", decomposition_subgraph_index=1))
    np.testing.assert_allclose(both(model(main, body("MUL", 3)), X), X * 3)


def loop(limit: str, op: str = "WHILE") -> bytes:
    """``for i in range(n): x = x * 2``; the limit is an input, or 3."""
    main, test, step = Graph(), Graph("test"), Graph("step")
    x = main.input((2, 3))
    n = main.input((), "int32") if limit == "input" else main.constant(np.int32(3))
    start = main.constant(np.int32(0))
    results = [main.tensor((), "int32"), main.tensor((2, 3)), main.tensor((), "int32")]
    main.op(op, [start, x, n], results, cond_subgraph_index=1, body_subgraph_index=2)
    main.outputs = results[1:2]
    i, _, last = test.input((), "int32"), test.input((2, 3)), test.input((), "int32")
    test.outputs = list(test.op("LESS", [i, last], [test.tensor((), "bool")]))
    i, value, last = step.input((), "int32"), step.input((2, 3)), step.input((), "int32")
    (following,) = step.op("ADD", [i, step.constant(np.int32(1))], [step.tensor((), "int32")])
    (doubled,) = step.op("ADD", [value, value], [step.tensor((2, 3))])
    step.outputs = [following, doubled, last]
    return model(main, test, step)


@pytest.mark.parametrize("op", ["WHILE", "STABLEHLO_WHILE"])
def test_loops(op: str) -> None:
    np.testing.assert_allclose(both(loop("input", op), X, np.array(5, np.int32)), X * 32)
    np.testing.assert_allclose(both(loop("input", op), X, np.array(0, np.int32)), X)


def test_loops_that_count_are_scans() -> None:
    ir = forge.from_tflite(loop("constant"))
    assert "scan" in ir.operators and "loop" not in ir.operators
    np.testing.assert_allclose(both(loop("constant"), X), X * 8)


def list_write(
    dtype: str = "float32", scale: float | None = None, of_element: float | None = None, computes_rest: bool = False
) -> bytes:
    """``concatenate(x[:i], element, x[i + 1:])``, as the TensorFlow converter writes it."""
    main = Graph()
    x, element = main.input((4, 3), dtype, scale=scale), main.input((1, 3), dtype, scale=of_element)
    i = main.input((), "int32")
    one, zero, minus = (main.constant(np.array(v, np.int32)) for v in ([1], [0], [-1]))
    (at,) = main.op("RESHAPE", [i, one], [main.tensor((1,), "int32")])
    (size,) = main.op("CONCATENATION", [at, minus], [main.tensor((2,), "int32")])

    def part(begin: Tensor, sizes: Tensor) -> Tensor:
        return main.op("SLICE", [x, begin, sizes], [main.tensor((1, 3), dtype, scale=scale, signature=[-1, 3])])[0]

    before = part(main.constant(np.zeros(2, np.int32)), size)
    (plus,) = main.op("ADD", [i, main.constant(np.int32(1))], [main.tensor((), "int32")])
    (next_at,) = main.op("RESHAPE", [plus, one], [main.tensor((1,), "int32")])
    (begin,) = main.op("CONCATENATION", [next_at, zero], [main.tensor((2,), "int32")])
    rest = main.input((2,), "int32") if computes_rest else main.constant(np.full(2, -1, np.int32))
    parts = [before, element, part(begin, rest)]
    main.outputs = list(main.op("CONCATENATION", parts, [main.tensor((4, 3), dtype, scale=scale)], axis=0))
    return model(main)


def test_a_written_element_of_a_list_is_no_copy_of_it() -> None:
    data = list_write()
    assert forge.from_tflite(data).operators["dynamic_update_slice"] == 1
    whole, row = np.arange(12, dtype=np.float32).reshape(4, 3), np.full((1, 3), -1, np.float32)
    expected = whole.copy()
    expected[2] = -1
    np.testing.assert_array_equal(both(data, whole, row, np.array(2, np.int32)), expected)


def test_what_only_resembles_a_written_element_is_a_concatenation() -> None:
    whole, row, at = np.arange(12, dtype=np.float32).reshape(4, 3), np.full((1, 3), -1, np.float32), np.array(2, np.int32)
    data = list_write(computes_rest=True)
    assert "dynamic_update_slice" not in forge.from_tflite(data).operators
    expected = np.concatenate([whole[:2], row, whole[3:]])
    np.testing.assert_array_equal(both(data, whole, row, at, np.array([-1, -1], np.int32)), expected)
    data = list_write("int8", 0.5, 1.0)  # the element is rounded to the steps of the list
    assert "dynamic_update_slice" not in forge.from_tflite(data).operators
    expected = np.concatenate([whole[:2], 2 * row, whole[3:]]).astype(np.int8)
    np.testing.assert_array_equal(both(data, whole.astype(np.int8), row.astype(np.int8), at), expected)


def with_variable(*, writes_in_branch: bool = False) -> bytes:
    """A variable that begins as [1, 2, 3]; ``step`` adds its input and gives the sum, ``read`` reads it."""
    first, reads, step, add, keep = Graph("once"), Graph("read"), Graph("step"), Graph("add"), Graph("keep")

    def handle(graph: Graph) -> Tensor:
        return graph.op("VAR_HANDLE", [], [graph.tensor((), "resource")], shared_name="total")[0]

    def assign(graph: Graph, of: Tensor, value: Tensor) -> None:
        graph.op("ASSIGN_VARIABLE", [of, value], [])

    def read(graph: Graph, of: Tensor) -> Tensor:
        return graph.op("READ_VARIABLE", [of], [graph.tensor((3,))])[0]

    assign(first, handle(first), first.constant(np.array([1, 2, 3], np.float32)))
    for graph in (reads, step):
        graph.op("CALL_ONCE", [], [], init_subgraph_index=2)
    reads.outputs = [read(reads, handle(reads))]
    flag = step.input((), "bool")
    x, own = step.input((3,)), handle(step)
    if writes_in_branch:
        step.op("IF", [flag, own, x], [step.tensor((3,))], then_subgraph_index=3, else_subgraph_index=4)
        step.outputs = [read(step, own)]
        for graph in (add, keep):
            of, value = graph.input((), "resource"), graph.input((3,))
            (total,) = graph.op("ADD", [read(graph, of), value], [graph.tensor((3,))])
            if graph is add:
                assign(graph, of, total)
            graph.outputs = [total]
        graphs = [step, reads, first, add, keep]
    else:
        (total,) = step.op("ADD", [read(step, own), x], [step.tensor((3,))])
        assign(step, own, total)
        step.outputs = [total]
        graphs = [step, reads, first]
    signatures = {
        "step": (0, {"flag": flag, "x": x}, {"sum": step.outputs[0]}), "read": (1, {}, {"value": reads.outputs[0]})}
    return model(*graphs, signatures=signatures)


@pytest.mark.parametrize("writes_in_branch", [False, True])
def test_variables_are_states_that_signatures_share(writes_in_branch: bool, tmp_path: Any) -> None:
    ir = forge.from_tflite(with_variable(writes_in_branch=writes_in_branch))
    ir.compile(output_path=tmp_path / "build")
    session = forge.Runtime(tmp_path / "build").session()
    start, x = np.array([1, 2, 3], np.float32), np.array([1, 1, 2], np.float32)
    np.testing.assert_array_equal(session["read"](), start)
    np.testing.assert_array_equal(session(np.array(True), x), start + x)
    after = start + x if writes_in_branch else start + 2 * x
    np.testing.assert_array_equal(session(np.array(False), x), after)
    np.testing.assert_array_equal(session["read"](), after)


def test_variables_of_layers_are_kept() -> None:
    main = Graph()
    x, state = main.input((1, 2)), main.tensor((1, 2), is_variable=True, name="state")
    weights = [main.constant(np.eye(2, dtype=np.float32)) for _ in range(2)]
    bias = main.constant(np.zeros(2, np.float32))
    main.outputs = list(main.op("RNN", [x, *weights, bias, state], [main.tensor((1, 2))], fused_activation_function="NONE"))
    for how in ALL_WAYS:
        run = forge.from_tflite(model(main)).get_inference_function(*how)
        for number in (1, 2, 3):
            np.testing.assert_allclose(run(np.array([[1, 2]], np.float32)), [[number, 2 * number]])


def table(keys: np.ndarray, values: np.ndarray, default: Any, dtypes: tuple[str, str]) -> bytes:
    main, first = Graph(), Graph("once")
    main.op("CALL_ONCE", [], [], init_subgraph_index=1)

    def handle(graph: Graph) -> Tensor:
        types = dict(zip(("key_dtype", "value_dtype"), dtypes))
        return graph.op("HASHTABLE", [], [graph.tensor((1,), "resource")], table_id=7, **types)[0]

    first.op("HASHTABLE_IMPORT", [handle(first), first.constant(keys, dtypes[0]), first.constant(values, dtypes[1])], [])
    own, x = handle(main), main.input((3,), dtypes[0])
    found = main.op("HASHTABLE_FIND", [own, x, main.constant(np.array(default), dtypes[1])], [main.tensor((3,), dtypes[1])])
    size = main.op("HASHTABLE_SIZE", [own], [main.tensor((1,), "int64")])
    main.outputs = [*found, *size]
    return model(main, first)


def test_tables() -> None:
    words, numbers = np.array(["a", "b"], object), np.array([3, 5], np.int64)
    for how in ALL_WAYS:
        run = forge.from_tflite(table(words, numbers, -1, ("string", "int64"))).get_inference_function(*how)
        found, size = run(np.array(["b", "z", "a"], object))
        assert found.tolist() == [5, -1, 3] and size.tolist() == [2]
        run = forge.from_tflite(table(numbers, words, "?", ("int64", "string"))).get_inference_function(*how)
        assert run(np.array([5, 4, 3]))[0].tolist() == ["b", "?", "a"]


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ForgeError, match="got subgraph 9; expected one below 4"):
        forge.from_tflite(conditional(then_subgraph_index=9))
    main, once = Graph(), Graph("once")
    main.op("CALL_ONCE", [], [], init_subgraph_index=1)
    main.outputs = [main.input((1,))]
    once.op("ABS", [once.constant(np.zeros(1, np.float32))], [once.tensor((1,))])
    with pytest.raises(OpNotImplemented, match="which runs once: got ABS of computed values"):
        forge.from_tflite(model(main, once))
    main = Graph()
    x = main.input((2, 3))
    main.outputs = list(main.op("STABLEHLO_COMPOSITE", [x], [main.tensor((2, 3))], decomposition_subgraph_index=0))
    with pytest.raises(ImportModelError, match="nested more than"):
        forge.from_tflite(model(main))
    for name in ("CALL", "DELEGATE", "SKIP_GRAM"):
        main = Graph()
        main.outputs = list(main.op(name, [main.input((1,))], [main.tensor((1,))]))
        with pytest.raises(OpNotImplemented, match=name):
            forge.from_tflite(model(main))
