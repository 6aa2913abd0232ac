"""Loops whose number of rounds depends on data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.core.composer import Composer

Step = Callable[[Composer, Sequence[Value]], Sequence[Value]]
Condition = Callable[[Composer, Sequence[Value]], Value]


def repeat_while(g: Composer, first: Sequence[Value], goes_on: Condition, step: Step) -> list[Value]:
    """``values = step(values)`` from ``first`` on, while ``goes_on(values)``, a bool of rank 0, holds.

    Both are given a composer of the loop's body, which reads nothing but ``values``; their types do not change.
    """
    inner = Composer(Builder(Graph(name="body")))
    graph = inner.builder.graph
    graph.add_input(TensorType((), "int64"), "round")
    graph.add_input(TensorType((), "bool"), "goes_on")
    values = [graph.add_input(v.type, f"value_{k}") for k, v in enumerate(first)]
    found = step(inner, values)
    graph.outputs = [goes_on(inner, found), *found]
    return g.multi("loop", None, goes_on(g, first), *first, regions=[graph], num_carried=len(first))
