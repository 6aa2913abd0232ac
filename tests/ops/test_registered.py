"""``call_registered`` in the graph: types, effects, meaning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import FunctionError, ParseError, TypeInferenceError
from forge.frontends.prune import prune
from forge.ir.builder import Builder
from forge.ir.edits.rewrite import remove_unused
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.parser import parse_module
from forge.ir.printer import print_module
from forge.ir.types import TensorType
from forge.module import IRModule
from forge.options import CompileOptions
from forge.passes import eliminate_common_subexpr, eliminate_dead_code, fold_constants
from tests.passes.checks import AVX2

TEXT = """def @main(%x: Tensor[(n, 4), float32]) {
  %0 = call_registered(%x, function="test.show");
  %1 = call_registered(%x, function="test.sums", shapes=[[n], []], dtypes=["float32", "int64"]);
  (%1.0, %1.1)
}
"""
VECTOR = TensorType((3,), "float32")
SAME: dict[str, Any] = {"function": "test.f", "shapes": [[3]], "dtypes": ["float32"]}


@pytest.fixture
def sums() -> Iterator[list[np.ndarray]]:
    """``test.show`` and ``test.sums``; what they were given."""
    seen: list[np.ndarray] = []
    forge.register_func("test.show", seen.append)

    @forge.register_func("test.sums")
    def sums(x: np.ndarray, rows: np.ndarray, count: np.ndarray) -> None:
        seen.append(x)
        rows[...] = x.sum(axis=1)
        count[...] = x.size

    yield seen
    for name in ("test.show", "test.sums"):
        forge.remove_registered_func(name)


def test_text_hash_and_files(tmp_path: Path) -> None:
    module = parse_module(TEXT)
    assert print_module(module) == TEXT
    assert print_module(parse_module(print_module(module, types=True))) == TEXT
    ir, other = IRModule(TEXT), IRModule(TEXT.replace("test.show", "test.print"))
    assert ir.fingerprint != other.fingerprint
    for name in ("m.forge", "m.relay"):
        ir.save(tmp_path / name)
        assert forge.load(tmp_path / name).fingerprint == ir.fingerprint


def test_the_reference_calls_the_registered_function(sums: list[np.ndarray]) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    rows, count = IRModule(TEXT).get_inference_function("reference")(x)
    np.testing.assert_array_equal(rows, x.sum(axis=1))
    assert count == 8 and len(sums) == 2
    assert not sums[0].flags.writeable and not np.shares_memory(sums[0], x)


def test_the_reference_says_what_is_missing_or_wrong() -> None:
    x = np.zeros((2, 4), np.float32)
    run = IRModule(TEXT.replace("test.show", "test.absent")).get_inference_function("reference")
    with pytest.raises(FunctionError, match=r"the function 'test.absent' is not registered; register it with register_func"):
        run(x)
    forge.register_func("test.absent", lambda x: x)
    with pytest.raises(FunctionError, match=r"'test.absent': number of results; got 1; expected 0, or None where it fills"):
        run(x)
    forge.remove_registered_func("test.absent")


@pytest.mark.parametrize(("attributes", "message"), [
    ({"function": ""}, "function; got ''; expected the name of a registered function"),
    ({"function": "a\0"}, "function; got 'a.x00'"),
    ({"function": "\ud800"}, "function; got '.ud800'; expected the name of a registered function, which is printable text"),
    ({**SAME, "dtypes": []}, "results; got 1 shapes and 0 dtypes; expected one dtype for each shape"),
    ({**SAME, "dtypes": ["string"]}, "element type of a result; got string; expected number or bool"),
    ({**SAME, "dtypes": ["float31"]}, "element type of a result; got float31"),
])
def test_results_that_no_function_can_have_are_refused(attributes: dict[str, Any], message: str) -> None:
    b = Builder()
    with pytest.raises(TypeInferenceError, match=message):
        b.call_multi("call_registered", b.input(VECTOR), **attributes)


def test_operands_are_tensors_of_numbers() -> None:
    b = Builder()
    with pytest.raises(TypeInferenceError, match=r"operand 'values' has the wrong element type; got string"):
        b.call("call_registered", b.input(TensorType((3,), "string")), **SAME)


def test_sizes_of_results_are_known_before_the_call() -> None:
    with pytest.raises(ParseError, match=r"an attribute uses the symbol m, which no earlier value defines"):
        IRModule(TEXT.replace("[[n], []]", "[[m], []]")).get_inference_function("reference")(np.zeros((2, 4), np.float32))


def graph_of(*calls: tuple[str, str]) -> Graph:
    """Calls of functions on one input: operator and function. The first one's result is the output."""
    b = Builder()
    x = b.input(VECTOR, "x")
    values: list[Value] = [b.call(op, x, **{**SAME, "function": function}) for op, function in calls]
    return b.output(values[0])


def functions(graph: Graph) -> list[str]:
    return [n.attrs.function for n in graph.nodes]


def test_calls_with_effects_are_kept_in_order_and_pure_ones_merged_and_removed() -> None:
    plain, pure = "call_registered", "call_registered_pure"
    graph = graph_of((pure, "a"), (plain, "b"), (pure, "a"), (plain, "b"), (pure, "unused"), (plain, "c"))
    options = CompileOptions(target=AVX2)
    assert eliminate_common_subexpr.run(graph, options) == 1
    assert functions(graph) == ["a", "b", "b", "unused", "c"]
    assert eliminate_dead_code.run(graph, options) == 1
    assert functions(graph) == ["a", "b", "b", "c"]


def test_a_branch_with_effects_is_never_removed() -> None:
    def branching() -> tuple[Graph, Node]:
        inside = Builder()
        given = inside.input(VECTOR)
        inside.call_multi("call_registered", given, function="f")
        region = inside.output(given)
        b = Builder()
        flag, x = b.input(TensorType((), "bool"), "flag"), b.input(VECTOR, "x")
        node = b.node("if", [flag, x], {}, [region, region.copy()])
        return b.output(b.call("abs", x)), node

    graph, node = branching()
    remove_unused(graph, node)
    prune(graph)
    eliminate_dead_code.run(graph, CompileOptions(target=AVX2))
    assert [n.op for n in graph.nodes] == ["if", "abs"]
    assert [n.op for n in node.regions[0].nodes] == ["call_registered"]


@pytest.mark.parametrize("op", ["call_registered", "call_registered_pure"])
def test_functions_are_not_called_when_compiling(op: str) -> None:
    b = Builder()
    graph = b.output(b.call(op, b.constant(np.ones(3, np.float32)), **SAME))
    assert fold_constants.run(graph, CompileOptions(target=AVX2)) == 0


def test_a_batch_does_not_go_through_a_function() -> None:
    ir = IRModule('def @main(%x: Tensor[(2, 4), int8]) { call_registered(%x, function="f", shapes=[[2]], dtypes=["int8"]) }')
    with pytest.raises(ValueError, match=r"the function 'f' may combine the elements of a batch"):
        ir.set_batch_size(3)
