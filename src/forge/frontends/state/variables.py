"""Variables of a program that are read and written by name: what they are now, in a graph and in graphs inside of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self, TypeVar

import numpy as np

from forge import dims
from forge.errors import ImportModelError
from forge.frontends.scope import ImportState
from forge.frontends.state.sizes import SizeScope, sources_of
from forge.ir.functions.states import State
from forge.ir.nodes import Value
from forge.ir.types import TensorType


@dataclass
class Variables:
    """What is known of variables.

    Attributes:
        types: by label, where they are known before the variables are read.
        initial: what variables are before the first run, by label.
    """

    types: dict[str, TensorType] = field(default_factory=dict)
    initial: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(kw_only=True)
class VariableState(ImportState):
    """What is the same for the whole import of one function.

    Attributes:
        resources: the variables of the model.
    """

    resources: Variables


V = TypeVar("V", bound=VariableState)


@dataclass(eq=False, repr=False)
class VariableScope(SizeScope[V]):
    """A scope with variables.

    Attributes:
        home: the scope that has the variables of this graph, if it is another one.
        variables: what they are now, by label.
    """

    home: Self | None = None
    variables: dict[str, Value] = field(default_factory=dict)

    def called(self, versions: dict[str, int], prefix: str) -> Self:
        """The scope of another function, which is expanded in this graph."""
        found = super().called(versions, prefix)
        found.home = self.home or self
        return found

    def variable(self, label: str) -> Value:
        """What a variable is now.

        Raises:
            ImportModelError: its sizes are not known.
        """
        home = self.home or self
        if label not in home.variables:
            outer = home.parent
            home.variables[label] = home.first(label) if outer is None else home.capture(outer.variable(label))
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

    def first(self, label: str) -> Value:
        """What a variable is before anything writes it: an input of main that is a state.

        Raises:
            ImportModelError: its sizes are not known.
        """
        known = self.state.resources
        if label not in known.types:
            raise ImportModelError(
                f"variable {label!r} is read before its sizes are known; expected a value that is assigned first")
        self.graph.states[label] = State(None, known.initial.get(label))
        return self.graph.add_input(known.types[label], label)
