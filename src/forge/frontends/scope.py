"""Names in scope while a graph is converted, what holds for the whole import, and regions with what they capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

import numpy as np

from forge import dtypes
from forge.compose import quantized
from forge.errors import ImportModelError
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Category
from forge.ir.types import TensorType

MIN_EXPANSION, EXPANSION_FACTOR = 50_000, 100
"""Limits on the nodes that functions, branches and loops expand to: a number, and a multiple of the nodes in the model."""

MAX_NESTING = 64
"""Graphs inside of each other."""

MAX_CALLS = 32
"""Functions that call each other."""

S = TypeVar("S", bound="ImportState")


@dataclass(kw_only=True)
class ImportState:
    """What is the same for the whole import of one model.

    Attributes:
        size: the model's number of nodes.
        freeze_params: weights become constants instead of parameters.
        params: contents of the parameters by name.
        converted: how many nodes were converted.
    """

    size: int = 0
    freeze_params: bool = True
    params: dict[str, np.ndarray] = field(default_factory=dict)
    converted: int = 0

    def count_node(self) -> None:
        """Counts one more converted node; functions and loops can make a few bytes stand for billions.

        Raises:
            ImportModelError: there are too many.
        """
        self.converted += 1
        self.check_expansion(self.converted)

    def check_expansion(self, nodes: int) -> None:
        """Raises ImportModelError if the model expands to too many ``nodes``."""
        limit = MIN_EXPANSION + EXPANSION_FACTOR * self.size
        if nodes > limit:
            raise ImportModelError(
                f"functions and sub-graphs expand to more than {limit} nodes; expected at most {MIN_EXPANSION}, and "
                f"{EXPANSION_FACTOR} for each of the {self.size} nodes of the model; simplify it"
            )


@dataclass(eq=False, repr=False)
class Scope(Generic[S]):
    """Values by the model's names. A name that a nested graph lacks is captured from ``parent``.

    Attributes:
        versions: of operator sets, by domain.
        prefix: comes before the names of nodes and values.
        calls: functions around this graph.
        taken: names in this graph -> the last number that was appended.
        values: by name; None for absent optional ones.
        weights: contents of initializers by name, read when they are first used.
        parameters: weights that are inputs of main.
        captures: values of the parent -> the inputs of this graph that stand for them.
    """

    graph: Graph
    state: S
    versions: dict[str, int]
    parent: Self | None = None
    prefix: str = ""
    calls: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    values: dict[str, Value | None] = field(default_factory=dict)
    weights: dict[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    parameters: dict[str, Value] = field(default_factory=dict)
    captures: dict[Value, Value] = field(default_factory=dict)
    _withheld: dict[str, str] = field(default_factory=dict)  # outputs that a conversion does not give -> the error of a read

    def nested(self, name: str, prefix: str = "") -> Self:
        """The scope of a sub-graph, which is a graph of its own.

        Raises:
            ImportModelError: graphs are nested too deeply.
        """
        depth, outer = 0, self.parent
        while outer is not None:
            depth, outer = depth + 1, outer.parent
        if depth >= MAX_NESTING:
            raise ImportModelError(f"sub-graph {name!r}: graphs are nested more than {MAX_NESTING} deep")
        return type(self)(Graph(name=name), self.state, self.versions, self, prefix, self.calls)

    def inlined(self, prefix: str) -> Self:
        """The scope of a sub-graph that is converted into this graph."""
        return type(self)(self.graph, self.state, self.versions, self, prefix, self.calls, self.taken)

    def called(self, versions: dict[str, int], prefix: str) -> Self:
        """The scope of a function that is expanded in this graph; it sees none of the names here.

        Raises:
            ImportModelError: functions are nested too deeply.
        """
        if self.calls >= MAX_CALLS:
            raise ImportModelError(f"functions are nested more than {MAX_CALLS} deep; expected no recursion")
        return type(self)(self.graph, self.state, versions, None, prefix, self.calls + 1, self.taken)

    def define(self, name: str, value: Value | None) -> None:
        """Binds ``name``.

        Raises:
            ImportModelError: it is bound already.
        """
        if name in self.values or name in self.weights:
            raise ImportModelError(f"value {name!r} is defined twice; expected single assignment; the model is invalid")
        self.values[name] = value

    def bind(self, outputs: Sequence[str], results: Sequence[Value | None], start: int, name: str) -> None:
        """Binds the outputs of node ``name`` to the results of its conversion, which began at node ``start`` of the graph.

        Raises:
            ImportModelError: there are fewer results than named outputs.
        """
        named = [(i, output) for i, output in enumerate(outputs) if output]
        if named and named[-1][0] >= len(results):
            raise ImportModelError(f"got {len(outputs)} outputs; expected at most {len(results)}")
        made = self.graph.nodes.before(None, len(self.graph.nodes) - start)
        created, named_now = {id(n) for n in made}, list[Node]()
        for index, output in named:
            value = results[index]
            if value is None:
                source = f"output {index} of node {name!r}"
                self._withheld[output] = f"value {output!r} is read: {source}, which its conversion does not give"
                continue
            if value.producer is not None and id(value.producer) in created and not value.name:
                value.name = self.unique(output)
                named_now.append(value.producer)
            self.define(output, value)
        name_nodes(made, dict.fromkeys(named_now, name), name)

    def lookup(self, name: str) -> Value | None:
        """The value called ``name``; None when it stands for an absent optional input of a function.

        Raises:
            ImportModelError: nothing defines it, or it is withheld.
        """
        if name in self.values:
            return self.values[name]
        if name in self._withheld:
            raise ImportModelError(self._withheld[name])
        if name in self.weights:
            self.values[name] = self._materialize(name)
            return self.values[name]
        if self.parent is not None:
            outer = self.parent.lookup(name)
            return outer if outer is None or self.graph is self.parent.graph else self.capture(outer)
        raise ImportModelError(f"value {name!r} is used but nothing defines it; the model is invalid")

    def required(self, name: str) -> Value:
        """The value of a graph output.

        Raises:
            ImportModelError: it is absent.
        """
        value = self.lookup(name)
        if value is None:
            raise ImportModelError(f"output {name!r} is an absent optional value; expected one")
        return value

    def knows(self, name: str) -> bool:
        """Whether ``lookup`` finds ``name``."""
        return name in self.values or name in self.weights or (self.parent is not None and self.parent.knows(name))

    def capture(self, outer: Value) -> Value:
        """``outer``, of the parent scope, as a value of this graph: a constant again, or one more input."""
        if outer not in self.captures:
            if outer.constant is not None:
                return Builder(self.graph).constant(outer.constant, name=self.unique(outer.name))
            self.captures[outer] = self.graph.add_input(outer.type, self.unique(outer.name))
        return self.captures[outer]

    def frozen_value(self, value: Value) -> np.ndarray | None:
        """The array of a parameter that is an input of main."""
        if value.producer is not None or self.parameters.get(value.name) is not value:
            return None
        return self.state.params.get(value.name)

    def unique(self, name: str) -> str:
        """``name`` with the scope's prefix, numbered if it is taken in this graph."""
        wanted = unique = self.prefix + name if name else ""
        while unique and unique in self.taken:
            self.taken[wanted] += 1
            unique = f"{wanted}_{self.taken[wanted]}"
        self.taken.setdefault(unique, 0)
        return unique

    def _materialize(self, name: str) -> Value:
        array = self.weights[name]()
        if self.parent is None and not self.state.freeze_params and _is_weight(array):
            self.state.params[name] = array
            value = self.graph.add_input(TensorType(tuple(array.shape), dtypes.canonical(array.dtype)), name)
            self.parameters[name] = value
            return value
        return quantized.weight(Builder(self.graph), array, self.unique(name))


def name_nodes(made: Sequence[Node], producers: Mapping[Node, str], name: str) -> None:
    """Names what was made of one node of the model, as the model calls it: the product among it, not the bias after that.

    Args:
        producers: of the results that the model reads, with what they are called where there is no product.
        name: of the node of the model.
    """
    heart = next((n for n in reversed(made) if n.op_def.category is Category.CONTRACTION), None) if producers else None
    for node, own in producers.items() if heart is None else [(heart, name)]:
        node.name = node.name or own


def _is_weight(array: np.ndarray) -> bool:
    """Whether an initializer is a parameter of the model; small integers say what an operator does and stay constants."""
    return array.dtype != object and not (array.dtype.kind in "iub" and array.ndim <= 1)


@dataclass
class Region:
    """A converted sub-graph: its own inputs come first, then one input for each captured value."""

    graph: Graph
    captured: list[Value]  # values of the enclosing graph

    def with_captures(self, captured: Sequence[Value], own_inputs: int) -> Graph:
        """The graph with exactly these captured inputs, in this order, after its own ones."""
        present = dict(zip(self.captured, self.graph.inputs[own_inputs:], strict=True))
        inputs = [present.get(v) or Value(v.type, v.name) for v in captured]
        self.graph.inputs = [*self.graph.inputs[:own_inputs], *inputs]
        return self.graph


def merged_captures(regions: Sequence[Region]) -> list[Value]:
    """Values that any of the regions captures, each once, in order of first use."""
    return list(dict.fromkeys(v for region in regions for v in region.captured))
