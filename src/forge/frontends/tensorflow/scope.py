"""Values in scope while a graph of TensorFlow is converted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from forge import dtypes
from forge.compose import quantized
from forge.errors import ImportModelError
from forge.frontends.state.variables import VariableScope, VariableState
from forge.frontends.tensorflow.model import Body, Ref, TensorFlowModel
from forge.frontends.tensorflow.resources import Operand, Resources
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.types import TensorType

MAX_NAME = 200


@dataclass(kw_only=True)
class TensorFlowState(VariableState):
    """What is the same for the whole import of one function.

    Attributes:
        resources: the variables and tables of the model.
        layout: of convolutions in the result, "" for the model's.
        config: what the user says of single operators.
        wanted: outputs of nodes that the caller reads.
        evaluate: converts what values need.
    """

    model: TensorFlowModel
    resources: Resources
    layout: str = ""
    config: dict[str, bool] = field(default_factory=dict)
    wanted: Collection[Ref] = ()
    evaluate: Callable[[TensorFlowScope, Sequence[Ref], Sequence[str]], list[Operand]]


@dataclass(eq=False, repr=False)
class TensorFlowScope(VariableScope[TensorFlowState]):
    """Values of a graph.

    Attributes:
        body: the graph that is converted.
        handles: outputs that are not tensors.
        done: nodes that are converted.
        own: of a region inside the graph, the nodes that belong into it; others are converted outside.
        active: nodes that wait for what they read.
    """

    body: Body | None = None
    handles: dict[str, Operand] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    own: Collection[str] | None = None
    active: set[str] = field(default_factory=set)

    @property
    def nodes(self) -> Body:
        assert self.body is not None
        return self.body

    def nested(self, name: str, prefix: str = "") -> TensorFlowScope:
        """The scope of a graph inside of this one."""
        found = super().nested(name, prefix)
        found.prefix = self.prefix
        found.body = self.body
        found.own = ()
        return found

    def put(self, ref: Ref, value: Operand) -> None:
        """An output of a node is ``value``."""
        name = name_of(ref)
        if isinstance(value, Value):
            self.define(name, value)
        else:
            self.handles[name] = value

    def get(self, ref: Ref) -> Operand:
        """An output of a node.

        Raises:
            ImportModelError: nothing defines it.
        """
        name = name_of(ref)
        if name in self.handles:
            return self.handles[name]
        if name not in self.values and name not in self.weights and self.parent is not None and self.own is not None:
            outer = self.parent.get(ref)
            return self.brought(outer) if isinstance(outer, Value) else outer
        found = self.lookup(name)
        if found is None:
            raise ImportModelError(f"value {name!r} is absent; the model is invalid")
        return found

    def has(self, ref: Ref) -> bool:
        """Whether an output is known here."""
        name = name_of(ref)
        return name in self.handles or name in self.values or name in self.weights

    def first(self, label: str) -> Value:
        """What a variable is before anything writes it: a state where a call writes it, else a constant."""
        known = self.state.resources
        contents = self.state.model.variables.get(label)
        if label in known.written:
            if contents is not None and label not in known.initial:
                known.initial[label] = contents()
                found = known.initial[label]
                known.types[label] = TensorType(found.shape, dtypes.canonical(found.dtype))
            return super().first(label)
        if contents is None:
            raise ImportModelError(
                f"variable {label!r} has no contents; expected a SavedModel with its variables, a concrete function, or a frozen "
                "graph, in which variables are constants")
        return quantized.weight(Builder(self.graph), contents(), self.unique(label[:MAX_NAME]))

    def set_variable(self, label: str, value: Value) -> None:
        """A variable is ``value`` from now on; what it is already is not a write: programs of jax give all variables back."""
        if (self.home or self).variables.get(label) is not value:
            self.state.resources.seen.add(label)
            super().set_variable(label, value)


def name_of(ref: Ref) -> str:
    """What an output of a node is called."""
    return ref[0] if ref[1] == 0 else f"{ref[0]}:{ref[1]}"
