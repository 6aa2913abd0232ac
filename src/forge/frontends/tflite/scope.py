"""Tensors in scope while a subgraph is converted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from forge import dims
from forge.errors import ImportModelError
from forge.frontends.scope import ImportState
from forge.frontends.state.sizes import SizeScope, sources_of
from forge.frontends.tflite.model import Subgraph, TfliteModel
from forge.frontends.tflite.resources import Resource, Resources
from forge.ir.functions.states import State
from forge.ir.nodes import Value

MAX_NAME = 200
_PRODUCT = re.compile(r"(?i)conv|depthwise|matmul|einsum")
"""In what TensorFlow calls products."""


@dataclass(kw_only=True)
class TfliteState(ImportState):
    """What is the same for the whole import of one function.

    Attributes:
        resources: the variables and tables of the model.
        convert_subgraph: converts a subgraph into the graph of a scope, and gives its outputs, None for handles.
    """

    model: TfliteModel
    resources: Resources
    convert_subgraph: Callable[[TfliteScope, Sequence[Value | Resource | None]], list[Value | Resource]]


@dataclass(eq=False, repr=False)
class TfliteScope(SizeScope[TfliteState]):
    """Tensors of a subgraph.

    Attributes:
        subgraph: the one that is converted.
        names: of its tensors, each its own.
        handles: numbers of tensors -> what they lead to.
        home: the scope that has the variables of this graph, if it is another one.
        variables: what they are now, by label.
    """

    subgraph: Subgraph | None = None
    names: tuple[str, ...] = ()
    handles: dict[int, Resource] = field(default_factory=dict)
    home: TfliteScope | None = None
    variables: dict[str, Value] = field(default_factory=dict)

    @property
    def tensors(self) -> Subgraph:
        assert self.subgraph is not None
        return self.subgraph

    def called(self, versions: dict[str, int], prefix: str) -> TfliteScope:
        """The scope of another subgraph, which is expanded in this graph."""
        found = super().called(versions, prefix)
        found.home = self.home or self
        return found

    def enter(self, subgraph: Subgraph) -> None:
        """Begins with the tensors of a subgraph: those that have contents are constants."""
        self.subgraph, self.names = subgraph, unique_names(subgraph)
        for name, tensor in zip(self.names, subgraph.tensors):
            if tensor.contents is not None and not tensor.is_variable:
                self.weights[name] = tensor.contents

    def get(self, number: int) -> Value | None:
        """The tensor of a number; None for -1, and for handles.

        Raises:
            ImportModelError: nothing defines it.
        """
        if number < 0 or number in self.handles:
            return None
        label = self.state.resources.labels.get(self.tensors.tensors[number])
        return self.lookup(self.names[number]) if label is None else self.variable(label)

    def variable(self, label: str) -> Value:
        """What a variable is now.

        Raises:
            ImportModelError: its sizes are not known.
        """
        home = self.home or self
        if label not in home.variables:
            outer = home.parent
            home.variables[label] = home._state(label) if outer is None else home.capture(outer.variable(label))
        return home.variables[label]

    def set_variable(self, label: str, value: Value) -> None:
        """A variable is ``value`` from now on.

        Raises:
            ImportModelError: it was of another type.
        """
        before = self.state.resources.types.setdefault(label, value.tensor_type)
        if value.dtype != before.dtype or value.rank != before.rank or any(map(dims.different, value.shape, before.shape)):
            raise ImportModelError(f"variable {label!r} of {before} becomes {value.type}; expected the same type")
        (self.home or self).variables[label] = value

    def source(self, symbol: str) -> tuple[Value, int]:
        """As of any scope, of the inputs of this graph where one has it, else of what was computed here."""
        home = self.home or self
        computed = (value for node in home.graph.nodes for value in node.results)
        own = sources_of(symbol, home.graph.inputs) or (sources_of(symbol, computed) if home.parent is None else [])
        if own:
            return own[0]
        if home.parent is None:
            raise ImportModelError(f"size {symbol!r} is read as a number, and nothing has it; expected an input that has it")
        value, axis = home.parent.source(symbol)
        return home.capture(value), axis

    def _state(self, label: str) -> Value:
        known = self.state.resources
        if label not in known.types:
            raise ImportModelError(
                f"variable {label!r} is read before its sizes are known; expected a value that is assigned first")
        self.graph.states[label] = State(None, known.initial.get(label))
        return self.graph.add_input(known.types[label], label)


def unique_names(subgraph: Subgraph) -> tuple[str, ...]:
    """What tensors are called: by the file, with a number where it gives a name twice, or none."""
    kept = {*subgraph.inputs, *subgraph.outputs}
    taken: set[str] = set()
    found = []
    for number, tensor in enumerate(subgraph.tensors):
        wanted = tensor.name if number in kept else _short(tensor.name)
        name = wanted[:MAX_NAME] or f"tensor_{number}"
        while name in taken:
            name = f"{name}_{number}"
        taken.add(name)
        found.append(name)
    return tuple(found)


def _short(name: str) -> str:
    """Of the names of all that the converter has put together, which semicolons separate, that of the product, or the first."""
    parts = [part for part in name.split(";") if part]
    products = [part for part in parts if _PRODUCT.search(part.rpartition("/")[2])]
    return (products or parts or [name])[0]
