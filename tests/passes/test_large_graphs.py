"""Passes take time in proportion to the graph: counted in calls and searches, not by the clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node
from forge.ir.types import TensorType
from forge.passes import canonicalize, decompose, eliminate_common_subexpr, fold_constants, fold_scale
from tests.passes.checks import rewrite


def additions(count: int, constant: bool) -> Graph:
    """``count`` additions of the input, or of constants, one after the other."""
    builder = Builder()
    x = builder.input(TensorType((4,), "float32"), "x")
    value = builder.call("nn.relu", x)
    for k in range(count):
        other = builder.constant(np.full(4, k, np.float32)) if constant else x
        value = builder.call("add", value, other)
    return builder.output(value)


def calls(run: Callable[[], Any]) -> int:
    """Calls of Python functions, those of generators that go on included."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(previous)
    return count


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("module", [canonicalize, decompose, eliminate_common_subexpr, fold_constants, fold_scale])
def test_twice_the_nodes_take_twice_the_work(module: Any, constant: bool) -> None:
    small, large = (calls(lambda n=n: rewrite(module.run, additions(n, constant))) for n in (150, 300))  # type: ignore[misc]
    assert large < 2.3 * small


class Searched(list[Node]):
    """A list that counts searches in it."""

    searches = 0

    def index(self, *arguments: Any) -> int:
        self.searches += 1
        return super().index(*arguments)


def test_nodes_that_are_not_decomposed_are_not_searched_for() -> None:
    graph = additions(20, constant=False)
    graph.nodes = nodes = Searched(graph.nodes)
    rewrite(decompose.run, graph)
    assert nodes.searches == 0
