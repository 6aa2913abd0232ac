"""Names in scope while a graph is converted, and regions with what they capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from forge import dtypes
from forge.errors import ImportModelError
from forge.frontends.onnx.ranks import Ranks
from forge.frontends.onnx.tensors import TensorReader
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Value
from forge.ir.types import TensorType

MIN_EXPANSION, EXPANSION_FACTOR = 50_000, 100
"""Functions, branches and loops may expand to so many nodes, and to so many times the nodes that the model has."""

FunctionKey = tuple[str, str, str]  # domain, name, overload


@dataclass
class Options:
    """What is the same for the whole import of one model; ``size`` is its number of nodes."""

    reader: TensorReader
    freeze_params: bool = True
    convert_config: dict[str, Any] = field(default_factory=dict)
    functions: dict[FunctionKey, onnx.FunctionProto] = field(default_factory=dict)
    params: dict[str, np.ndarray] = field(default_factory=dict)
    size: int = 0
    converted: int = 0
    ranks: Ranks = field(default_factory=Ranks)

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


class Scope:
    """Values by the model's names. A name that a nested graph lacks is captured from ``parent``."""

    def __init__(
        self,
        graph: Graph,
        options: Options,
        opsets: dict[str, int],
        parent: Scope | None = None,
        prefix: str = "",
        function_depth: int = 0,
        taken: dict[str, int] | None = None,
    ) -> None:
        self.graph = graph
        self.options = options
        self.opsets = opsets
        self.parent = parent
        self.prefix = prefix
        self.function_depth = function_depth
        self.values: dict[str, Value | None] = {}
        self.initializers: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {}
        self.parameters: dict[str, Value] = {}
        self.withheld: dict[str, str] = {}  # outputs that a conversion does not give -> what to say when one is read
        self.captures: dict[Value, Value] = {}  # value of the parent -> input of this graph
        self.taken = {} if taken is None else taken  # names in this graph -> the last number that was put behind

    def define(self, name: str, value: Value | None) -> None:
        """Binds ``name``.

        Raises:
            ImportModelError: it is bound already.
        """
        if name in self.values or name in self.initializers:
            raise ImportModelError(f"value {name!r} is defined twice; expected single assignment; the model is invalid")
        self.values[name] = value

    def withhold(self, name: str, reason: str) -> None:
        """Makes reading ``name`` an error."""
        self.withheld[name] = reason

    def lookup(self, name: str) -> Value | None:
        """The value called ``name``; None when it stands for an absent optional input of a function.

        Raises:
            ImportModelError: nothing defines it, or it is withheld.
        """
        if name in self.values:
            return self.values[name]
        if name in self.withheld:
            raise ImportModelError(self.withheld[name])
        if name in self.initializers:
            self.values[name] = self._materialise(name)
            return self.values[name]
        if self.parent is not None:
            outer = self.parent.lookup(name)
            return outer if outer is None or self.graph is self.parent.graph else self.capture(outer)
        raise ImportModelError(f"value {name!r} is used but nothing defines it; the model is invalid")

    def knows(self, name: str) -> bool:
        """Whether ``lookup`` finds ``name``."""
        return name in self.values or name in self.initializers or (self.parent is not None and self.parent.knows(name))

    def inlined(self, prefix: str) -> Scope:
        """A scope for a sub-graph that is converted into this graph; names in it start with ``prefix``."""
        return Scope(self.graph, self.options, self.opsets, self, prefix, self.function_depth, self.taken)

    def add_initializers(self, proto: onnx.GraphProto) -> None:
        """Makes the graph's initializers known; they become constants when they are first used.

        Raises:
            ImportModelError: one has no name.
        """
        for tensor in proto.initializer:
            if not tensor.name:
                raise ImportModelError("an initializer has no name; expected one; the model is invalid")
            self.initializers[tensor.name] = tensor
        for sparse in proto.sparse_initializer:
            self.initializers[sparse.values.name] = sparse

    def capture(self, outer: Value) -> Value:
        """``outer``, of the parent scope, as a value of this graph: a constant again, or one more input."""
        if outer not in self.captures:
            if outer.constant is not None:
                return Builder(self.graph).constant(outer.constant, name=self.unique(outer.name))
            self.captures[outer] = self.graph.add_input(outer.type, self.unique(outer.name))
            if outer in self.options.ranks.loose:
                self.options.ranks.loose.add(self.captures[outer])
        return self.captures[outer]

    def frozen_value(self, value: Value) -> np.ndarray | None:
        """The array of a parameter that is an input of main."""
        if value.producer is not None or self.parameters.get(value.name) is not value:
            return None
        return self.options.params.get(value.name)

    def unique(self, name: str) -> str:
        """``name`` with the scope's prefix, numbered if it is taken in this graph."""
        wanted = unique = self.prefix + name if name else ""
        while unique and unique in self.taken:
            self.taken[wanted] += 1
            unique = f"{wanted}_{self.taken[wanted]}"
        self.taken.setdefault(unique, 0)
        return unique

    def initializer(self, name: str) -> np.ndarray:
        """The contents of an initializer of this graph."""
        tensor = self.initializers[name]
        reader = self.options.reader
        return reader.sparse_array(tensor) if isinstance(tensor, onnx.SparseTensorProto) else reader.array(tensor)

    def _materialise(self, name: str) -> Value:
        array = self.initializer(name)
        if self.parent is None and not self.options.freeze_params and _is_weight(array):
            self.options.params[name] = array
            value = self.graph.add_input(TensorType(tuple(array.shape), dtypes.canonical(array.dtype)), name)
            self.parameters[name] = value
            return value
        return Builder(self.graph).constant(array, name=self.unique(name))


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
