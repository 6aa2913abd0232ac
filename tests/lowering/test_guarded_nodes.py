"""Control flow and operators on sequences in guard mode, against the interpreter: on three CPUs, in one and in two chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from forge.driver import check_options, compile_module
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.parser import parse_module
from forge.target import Target
from tests import guard_runtime

TARGETS = {"host": "llvm", "avx2": "llvm -mcpu=x86-64-v3", "baseline": "llvm -mcpu=x86-64"}


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def integer(value: int) -> np.ndarray:
    return np.array(value, np.int64)


@dataclass(frozen=True)
class Row:
    name: str
    text: str
    inputs: Callable[[], list[list[Any]]]
    """Inputs of several calls."""


ROWS = [
    Row("if", """
def @main(%c: bool, %x: Tensor[(n, 5), float32]) {
  if(%c, %x) {
    then_branch = fn (%a: Tensor[(n, 5), float32]) { %0 = nn.relu(%a); add(%0, %0) },
    else_branch = fn (%a: Tensor[(n, 5), float32]) { nn.softmax(%a) }
  }
}""", lambda: [[np.array(c), floats(n, 5)] for c in (True, False) for n in (1, 7, 33)]),
    Row("loop", """
def @main(%t: int64, %x: Tensor[(n), float32]) {
  loop(%t, None, %x, num_carried=1) {
    body = fn (%i: int64, %c: bool, %y: Tensor[(n), float32]) { %0 = tanh(%y); %1 = sum(%0, axis=[0]); (%c, %0, %1, %0) }
  }
}""", lambda: [[integer(t), floats(n)] for t in (0, 1, 5) for n in (1, 19)]),
    Row("scan", """
def @main(%s: Tensor[(3), float32], %x: Tensor[(n, 3), float32]) {
  scan(%s, %x, num_states=1) {
    body = fn (%a: Tensor[(3), float32], %b: Tensor[(3), float32]) { %0 = add(%a, %b); (%0, %0) }
  }
}""", lambda: [[floats(3), floats(n, 3)] for n in (0, 1, 9)]),
    Row("construct", """
def @main(%x: Tensor[(n), float32], %y: Tensor[(m), float32]) {
  %0 = sequence_construct(%x, %y, %x); %1 = sequence_at(%0, 1i64); %2 = nn.relu(%1); (%0, %2)
}""", lambda: [[floats(n), floats(m)] for n, m in ((0, 3), (17, 1))]),
    Row("insert", """
def @main(%s: Sequence[Tensor[(k), float32]], %x: Tensor[(n), float32], %p: int64) {
  %0 = sequence_insert(%s, %x, %p); %1 = sequence_insert(%0, %x); (%0, %1)
}""", lambda: [[[floats(2), floats(5)], floats(3), integer(p)] for p in (-2, 0, 1, 2)]),
    Row("erase", """
def @main(%s: Sequence[Tensor[(k), float32]], %p: int64) {
  %0 = sequence_erase(%s, %p); %1 = sequence_length(%0); (%0, %1)
}""", lambda: [[[floats(2), floats(5), floats(1)], integer(p)] for p in (-3, 0, 1, 2)]),
    Row("split", """
def @main(%x: Tensor[(n, 3), float32], %size: int64, %sizes: Tensor[(k), int64]) {
  %0 = split_to_sequence(%x); %1 = split_to_sequence(%x, %size); %2 = split_to_sequence(%x, %sizes);
  %3 = split_to_sequence(%x, axis=1, keepdims=False); (%0, %1, %2, %3)
}""", lambda: [[floats(n, 3), integer(2), np.array([n - 1, 1])] for n in (1, 4, 9)]),
    Row("concat", """
def @main(%s: Sequence[Tensor[(k, 3), float32]]) {
  %0 = concat_from_sequence(%s); %1 = exp(%0); %2 = concat_from_sequence(%s, axis=1, new_axis=True); (%1, %2)
}""", lambda: [[[floats(n, 3) for _ in range(k)]] for n, k in ((0, 1), (2, 3), (5, 1))]),
    Row("map", """
def @main(%s: Sequence[Tensor[(k), float32]], %y: float32) {
  sequence_map(%s, %y) {
    body = fn (%a: Tensor[(k), float32], %b: float32) { %0 = multiply(%a, %b); %1 = sum(%0, axis=[0]); (%0, %1) }
  }
}""", lambda: [[[floats(n) for n in sizes], np.float32(2)] for sizes in ((), (3,), (1, 0, 20))]),
    Row("optional", """
def @main(%o: Optional[Tensor[(k), float32]], %x: Tensor[(n), float32]) {
  %0 = optional_has_element(%o);
  %1 = if(%0, %o, %x) {
    then_branch = fn (%a: Optional[Tensor[(k), float32]], %b: Tensor[(n), float32]) {
      %0 = optional_get_element(%a); nn.relu(%0)
    },
    else_branch = fn (%a: Optional[Tensor[(k), float32]], %b: Tensor[(n), float32]) { exp(%b) }
  };
  %2 = optional(%x);
  (%0, %1, %2, %o)
}""", lambda: [[o, floats(3)] for o in (None, floats(0), floats(11))]),
    Row("collecting", """
def @main(%t: int64, %x: Tensor[(n), float32]) {
  %0 = sequence_empty();
  %1 = loop(%t, None, %0, %x, num_carried=2) {
    body = fn (%i: int64, %c: bool, %s: Sequence[Tensor[(k), float32]], %y: Tensor[(m), float32]) {
      %0 = concatenate(%y, %y); %1 = sequence_insert(%s, %0); (%c, %1, %0)
    }
  };
  %2 = concat_from_sequence(%1.0);
  (%1.0, %2)
}""", lambda: [[integer(t), floats(n)] for t, n in ((1, 3), (4, 1), (5, 2))]),
]


def compare(got: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(got, list) and len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            compare(a, b)
    elif expected is None:
        assert got is None
    else:
        assert got.shape == np.shape(expected) and got.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)


def check(row: Row, target: str, threads: int, level: int = 3) -> None:
    graph: Graph = parse_module(row.text).main
    compiled = compile_module(Module(graph.copy()), check_options(TARGETS[target], opt_level=level), use_cache=False)
    for inputs in row.inputs():
        compare(guard_runtime.run(compiled, graph, inputs, threads), list(run_graph(graph, inputs)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_on_this_machine(row: Row, threads: int) -> None:
    check(row, "host", threads)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_without_optimization(row: Row) -> None:
    check(row, "host", 2, level=0)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("target", ["avx2", "baseline"])
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_on_lesser_machines(row: Row, target: str, threads: int) -> None:
    if Target.parse(TARGETS[target]).missing_on_host():
        pytest.skip(f"this machine is below {target}")
    check(row, target, threads)


def test_a_failing_region_gives_its_memory_back() -> None:
    row = next(r for r in ROWS if r.name == "split")
    graph = parse_module(row.text).main
    compiled = compile_module(Module(graph.copy()), use_cache=False)
    with pytest.raises(RuntimeError, match="do not add up"):
        guard_runtime.run(compiled, graph, [floats(4, 3), integer(2), np.array([9])])
