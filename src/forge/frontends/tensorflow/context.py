"""What a converter of an operator builds with."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.frontends.control import ControlContext
from forge.frontends.tensorflow.model import Node
from forge.frontends.tensorflow.resources import Operand
from forge.frontends.tensorflow.scope import TensorFlowScope, name_of
from forge.ir.nodes import Value


class Context(ControlContext):
    """Given to a converter as its first argument, one for each node.

    Attributes:
        node: with its inputs, and its attributes, those that are element types among ``types``.
    """

    scope: TensorFlowScope

    def __init__(self, scope: TensorFlowScope, node: Node, name: str) -> None:
        super().__init__(scope, name, [name_of((node.name, 0))])
        self.node = node

    def inside(self, scope: TensorFlowScope) -> Context:
        return Context(scope, self.node, self.name)

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is read."""
        ref = self.node.name, index
        return ref in self.scope.nodes.read or ref in self.scope.state.wanted

    def dtype(self, attribute: str) -> str:
        """An attribute that is an element type.

        Raises:
            OpAttributeInvalid: there is none of this name.
        """
        found = self.node.types.get(attribute)
        if not isinstance(found, str):
            raise self.invalid(f"attribute {attribute!r} is missing; expected an element type")
        return found

    def size(self, size: Dim) -> Value:
        return self.scope.size(self, size)

    def tensor(self, operand: Operand) -> Value:
        """An operand that must be a tensor; of a reference to a variable, what the variable is.

        Raises:
            OpAttributeInvalid: it is none.
        """
        if isinstance(operand, Value):
            return operand
        kind = getattr(operand, "kind", "list")
        if kind != "reference":
            raise self.invalid(f"got a handle of a {kind}; expected a tensor")
        return self.scope.variable(operand.name)  # type: ignore[union-attr]

    def moved(self, value: Value, order: Sequence[int]) -> Value:
        """``value`` transposed: its dimension ``order[k]`` is the k-th."""
        return value if tuple(order) == tuple(range(value.rank)) else self.call("transpose", value, axes=tuple(order))

    def axes_of(self, value: Value | None, rank: int, what: str = "axis") -> tuple[int, ...]:
        """Axes that a constant tensor lists, counted from the front, each once."""
        given = () if value is None else self.required_ints(value, what)
        return tuple(dict.fromkeys(self.axis(axis, rank, what) for axis in given))

    def one_int(self, value: Value, what: str) -> int:
        """A number that must be known."""
        found = self.required_ints(value, what)
        if len(found) != 1:
            raise self.invalid(f"{what}: got {len(found)} numbers; expected one")
        return found[0]

    def broadcast(self, value: Value, shape: Sequence[Dim]) -> Value:
        """``value`` with the sizes ``shape``, repeated along dimensions of 1."""
        same = value.rank == len(shape) and all(dims.equal(a, b) for a, b in zip(value.shape, shape))
        return value if same else self.call("broadcast_to", value, shape=tuple(shape))
