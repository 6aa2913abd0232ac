"""Tensors in scope while a subgraph is converted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from forge.frontends.scope import ImportState
from forge.frontends.state.sizes import SizeScope
from forge.frontends.tflite.model import Subgraph, TfliteModel
from forge.ir.nodes import Value


@dataclass(kw_only=True)
class TfliteState(ImportState):
    """What is the same for the whole import of one function.

    Attributes:
        convert_subgraph: converts a subgraph into the graph of a scope, and gives its outputs.
        resources: what is known of variables and tables, by name.
    """

    model: TfliteModel
    convert_subgraph: Callable[[TfliteScope, Sequence[Value | None]], list[Value]]
    resources: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class TfliteScope(SizeScope[TfliteState]):
    """Tensors of a subgraph.

    Attributes:
        subgraph: the one that is converted.
        names: of its tensors, each its own.
        variables: numbers of tensors that are variables -> what they are now.
    """

    subgraph: Subgraph | None = None
    names: tuple[str, ...] = ()
    variables: dict[int, Value] = field(default_factory=dict)

    @property
    def tensors(self) -> Subgraph:
        assert self.subgraph is not None
        return self.subgraph

    def enter(self, subgraph: Subgraph) -> None:
        """Begins with the tensors of a subgraph: those that have contents are constants."""
        self.subgraph, self.names = subgraph, unique_names(subgraph)
        for name, tensor in zip(self.names, subgraph.tensors):
            if tensor.contents is not None and not tensor.is_variable:
                self.weights[name] = tensor.contents

    def get(self, number: int) -> Value | None:
        """The tensor of a number; None for -1.

        Raises:
            ImportModelError: nothing defines it.
        """
        if number < 0:
            return None
        return self.variables[number] if number in self.variables else self.lookup(self.names[number])


def unique_names(subgraph: Subgraph) -> tuple[str, ...]:
    """What tensors are called: by the file, with a number where it gives a name twice, or none."""
    taken: set[str] = set()
    found = []
    for number, tensor in enumerate(subgraph.tensors):
        name = tensor.name[:200] or f"tensor_{number}"
        while name in taken:
            name = f"{name}_{number}"
        taken.add(name)
        found.append(name)
    return tuple(found)
