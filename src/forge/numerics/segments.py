"""Parts of graphs that are cut out with what their inputs were, and the search for a small one that shows a difference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from forge.errors import ForgeError
from forge.ir.constants.joined import is_constant
from forge.ir.edits.extract import extract
from forge.ir.graph import Graph
from forge.ir.interp import run_graph
from forge.ir.nodes import Node, Value

FAILURES = (ForgeError, ArithmeticError, LookupError, TypeError, ValueError, NotImplementedError)
"""What the interpreter may raise of a graph that a stage has broken."""

Wrong = Callable[[Graph, Sequence[Any]], list[int]]
"""Of a graph and its inputs: numbers of the outputs that are wrong."""


@dataclass(frozen=True)
class Segment:
    """A graph, and arrays for its inputs in order."""

    graph: Graph
    inputs: list[Any]


class Contents:
    """A graph with what the interpreter computes for all of its values."""

    def __init__(self, graph: Graph, inputs: Sequence[Any]) -> None:
        self.graph = graph
        self.values: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
        run_graph(graph, inputs, observer=lambda node, results: self.values.update(zip(node.results, results)))
        self.known = depending_on(graph, graph.inputs)

    def cut(self, nodes: Collection[Node], outputs: Sequence[Value] = ()) -> Segment | None:
        """Cuts out the part that consists of ``nodes`` and the constants that they read; None where it cannot stand alone.

        Args:
            outputs: None given: all results that are read elsewhere or are outputs of the graph.
        """
        inside = set(nodes)
        read = [v for node in nodes for v in node.operands if v is not None and v.producer not in inside]
        inputs = [v for v in dict.fromkeys(read) if v in self.known and not is_constant(v)]
        wanted = list(outputs) or [v for node in nodes for v in node.results if self._leaves(v, inside)]
        try:
            graph = extract(self.graph, wanted, inputs)
        except ForgeError:
            return None
        arrays = [self.values[v] for v in inputs]
        by_name = {v.name: self.values[v] for v in self.graph.inputs}
        others = graph.inputs[len(inputs) :]
        if any(v.name not in by_name for v in others):
            return None
        return Segment(graph, [*arrays, *(by_name[v.name] for v in others)])

    def _leaves(self, value: Value, inside: set[Node]) -> bool:
        return self.graph.is_output(value) or any(user not in inside for user, _ in value.uses)


def depending_on(graph: Graph, inputs: Iterable[Value]) -> set[Value]:
    """Returns the values of ``graph`` that depend on inputs, with these."""
    known = set(inputs)
    for node in graph.nodes:
        if any(v in known for v in node.operands):
            known.update(node.results)
    return known


def shrink(graph: Graph, inputs: Sequence[Any], wrong: Wrong) -> Segment:
    """Finds a part of ``graph`` that is wrong, which is not if a node less is at its beginning or its end.

    Nodes are taken in their order: first the end of the part is searched for, then its beginning, each by halving.
    """
    contents = Contents(graph, inputs)
    nodes = list(graph.nodes)

    def fails(begin: int, end: int) -> bool:
        segment = contents.cut(nodes[begin:end])
        return segment is not None and bool(_wrong(wrong, segment))

    end = first(lambda count: fails(0, count), len(nodes))
    begin = end - first(lambda count: fails(end - count, end), end)
    found = contents.cut(nodes[begin:end])
    whole = Segment(graph, list(inputs))
    return whole if found is None or not _wrong(wrong, found) else _fewer_outputs(found, wrong)


def _fewer_outputs(segment: Segment, wrong: Wrong) -> Segment:
    """``segment`` with one of the wrong outputs, if it is wrong alone, too."""
    graph = segment.graph
    contents = Contents(graph, segment.inputs)
    for number in _wrong(wrong, segment):
        smaller = contents.cut(list(graph.nodes), [graph.outputs[number]])
        if smaller is not None and _wrong(wrong, smaller):
            return smaller
    return segment


def _wrong(wrong: Wrong, segment: Segment) -> list[int]:
    try:
        return wrong(segment.graph, segment.inputs)
    except FAILURES:
        return []


def first(fails: Callable[[int], bool], count: int) -> int:
    """Finds a number up to ``count`` that fails, while the one before does not; ``count`` fails, and 0 does not."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return high
