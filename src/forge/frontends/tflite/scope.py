"""Tensors in scope while a subgraph is converted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from forge.frontends.state.variables import VariableScope, VariableState
from forge.frontends.tflite.model import Subgraph, TfliteModel
from forge.frontends.tflite.resources import Resource, Resources
from forge.ir.nodes import Value

MAX_NAME = 200
_PRODUCT = re.compile(r"(?i)conv|depthwise|matmul|einsum")
"""In what TensorFlow calls products."""


@dataclass(kw_only=True)
class TfliteState(VariableState):
    """What is the same for the whole import of one function.

    Attributes:
        resources: the variables and tables of the model.
        convert_subgraph: converts a subgraph into the graph of a scope, and gives its outputs, None for handles.
    """

    model: TfliteModel
    resources: Resources
    convert_subgraph: Callable[[TfliteScope, Sequence[Value | Resource | None]], list[Value | Resource]]


@dataclass(eq=False, repr=False)
class TfliteScope(VariableScope[TfliteState]):
    """Tensors of a subgraph.

    Attributes:
        subgraph: the one that is converted.
        names: of its tensors, each its own.
        handles: numbers of tensors -> what they lead to.
    """

    subgraph: Subgraph | None = None
    names: tuple[str, ...] = ()
    handles: dict[int, Resource] = field(default_factory=dict)

    @property
    def tensors(self) -> Subgraph:
        assert self.subgraph is not None
        return self.subgraph

    def nested(self, name: str, prefix: str = "") -> TfliteScope:
        """The scope of a graph inside of this one, for the same subgraph."""
        found = super().nested(name, prefix)
        found.subgraph, found.names = self.subgraph, self.names
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
