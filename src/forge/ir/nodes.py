"""Values and nodes, of which graphs are made (``ir.graph``).

SSA. A ``Graph`` has inputs, nodes in topological order and outputs. A ``Node`` applies an operator to operands and defines
one ``Value`` per result. What a region (a nested graph) uses from outside is an operand of its node: regions are closed.
Constants are nodes of operator ``constant``. An absent optional operand is None.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dtypes
from forge.dims import Dim
from forge.errors import InvalidGraphError
from forge.ir import op as op_registry
from forge.ir.arrays import held
from forge.ir.attributes import field_names
from forge.ir.node_list import Link
from forge.ir.op import Category, NoAttrs, OpDef
from forge.ir.types import TensorType, Type

if TYPE_CHECKING:
    from forge.ir.graph import Graph

INPUT = "input"
"""What ``Value.op`` is for an input."""


class Value:
    """A result of a node (``producer``, ``index``) or an input of a graph (``producer`` is None).

    It has the properties of nodes: ``op``, ``attributes``, ``operands``, ``results``, ``pred``, ``succ``, ``shape``, ``dtype``,
    ``size``. Those of a result are its producer's, except for users, shape, dtype and size, which are its own. An input has
    the operator "input", without operands and attributes; so a traversal may begin at the inputs.
    """

    __slots__ = ("index", "name", "producer", "type", "uses")

    def __init__(self, type_: Type, name: str = "", producer: Node | None = None, index: int = 0) -> None:
        self.type = type_
        self.name = name
        self.producer = producer
        self.index = index
        self.uses: dict[tuple[Node, int], None] = {}  # (user, operand number) in order of use, without outputs of graphs

    @property
    def tensor_type(self) -> TensorType:
        """The type, when it is a ranked tensor.

        Raises:
            InvalidGraphError: it is not.
        """
        if not isinstance(self.type, TensorType):
            raise InvalidGraphError(f"value %{self.name}: got {self.type}; expected a tensor of known rank")
        return self.type

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.tensor_type.shape

    @property
    def dtype(self) -> str:
        return self.tensor_type.dtype

    @property
    def rank(self) -> int:
        return len(self.tensor_type.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return self.tensor_type.size

    @property
    def op(self) -> str:
        """Name of the producer's operator, "input" for an input."""
        return INPUT if self.producer is None else self.producer.op

    @property
    def attributes(self) -> dict[str, Any]:
        return {} if self.producer is None else self.producer.attributes

    @property
    def operands(self) -> list[Value | None]:
        return [] if self.producer is None else self.producer.operands

    @property
    def results(self) -> list[Value]:
        return [self] if self.producer is None else self.producer.results

    @property
    def pred(self) -> list[Node]:
        """Nodes that produce the operands, in operand order."""
        return [] if self.producer is None else self.producer.pred

    @property
    def succ(self) -> list[Node]:
        """Nodes that use the value, each once, in order of use."""
        return list(dict.fromkeys(user for user, _ in self.uses))

    @property
    def label(self) -> str:
        """For messages: the name, or what it is."""
        unnamed = "an unnamed input" if self.producer is None else f"result {self.index} of {self.producer.label}"
        return f"%{self.name}" if self.name else unnamed

    @property
    def constant(self) -> np.ndarray | None:
        """The array, when a constant node produces this value."""
        if self.producer is not None and isinstance(self.producer.attrs, ConstantAttrs):
            return self.producer.attrs.value
        return None

    def __repr__(self) -> str:
        return f"<{'input' if self.producer is None else 'value'} {self._shown_name()}: {self.type}>"

    def _shown_name(self) -> str:
        """As in the text of its graph: ``%x``, ``%3``, ``%3.1``."""
        if self.name or self.producer is None or (number := self.producer.number) is None:
            return f"%{self.name or self.index}"
        return f"%{number}" if len(self.producer.results) == 1 else f"%{number}.{self.index}"


class Node:
    """An application of an operator. Create with ``Builder.call`` or ``Graph.insert``."""

    __slots__ = ("attrs", "graph", "link", "location", "name", "op_def", "operands", "origin", "regions", "results")

    def __init__(
        self,
        op_def: OpDef[Any],
        operands: Sequence[Value | None],
        attrs: Any,
        result_types: Sequence[Type],
        regions: Sequence[Graph] = (),
        name: str = "",
        location: str = "",
        result_names: Sequence[str] = (),
    ) -> None:
        self.op_def = op_def
        self.operands: list[Value | None] = list(operands)
        self.attrs = attrs
        self.regions: list[Graph] = list(regions)
        self.name = name
        self.location = location
        self.graph: Graph | None = None
        self.link: Link | None = None
        self.origin: tuple[str, ...] = ()  # names of the rules that led to the node, the first one first
        names = [*result_names, *[""] * (len(result_types) - len(result_names))]
        self.results = [Value(t, n, self, i) for i, (t, n) in enumerate(zip(result_types, names))]

    @property
    def op(self) -> str:
        """Name of the operator."""
        return self.op_def.name

    @property
    def number(self) -> int | None:
        """That the node has in the text of its graph (``%3 = ...``); None for a constant and outside of graphs."""
        if self.graph is None or isinstance(self.attrs, ConstantAttrs):
            return None
        others = (n for n in self.graph.nodes if not isinstance(n.attrs, ConstantAttrs))
        return next((k for k, node in enumerate(others) if node is self), None)

    @property
    def label(self) -> str:
        """For messages: what the node is called, and the operator."""
        return " ".join(word for word in (self.shown_name, f"({self.op})") if word)

    @property
    def shown_name(self) -> str:
        """The node's name, else that of a result, of its place in the model that it came from, or its number (``%3``)."""
        known = filter(None, (self.name, *(v.name for v in self.results), self.location))
        return str(next(known, "")) or ("" if self.number is None else f"%{self.number}")

    @property
    def result(self) -> Value:
        """The only result."""
        if len(self.results) != 1:
            raise InvalidGraphError(f"node {self.label}: has {len(self.results)} results; expected one")
        return self.results[0]

    @property
    def attributes(self) -> dict[str, Any]:
        """All attributes, defaults included."""
        return {name: getattr(self.attrs, name) for name in field_names(self.attrs.__class__)}

    @property
    def shape(self) -> Any:
        """Shape of the result; a list of them if there is more than one; None for what is not a tensor of known rank."""
        return self._of_results(lambda v: v.shape)

    @property
    def dtype(self) -> Any:
        """Element type of the result; a list, or None, as in `shape`."""
        return self._of_results(lambda v: v.dtype)

    @property
    def size(self) -> Any:
        """Number of elements of the result; a list, or None, as in `shape`."""
        return self._of_results(lambda v: math.prod(v.shape))

    def _of_results(self, read: Callable[[Value], Any]) -> Any:
        found = [read(v) if isinstance(v.type, TensorType) else None for v in self.results]
        return found[0] if len(found) == 1 else found

    @property
    def pred(self) -> list[Node]:
        """Nodes that produce the operands, in operand order."""
        return [v.producer for v in self.operands if v is not None and v.producer is not None]

    @property
    def succ(self) -> list[Node]:
        """Nodes that use a result, each once, in graph order of use."""
        return list(dict.fromkeys(user for value in self.results for user, _ in value.uses))

    def walk(self) -> Iterator[Node]:
        """The node, then all those of its regions."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def set_operand(self, position: int, value: Value | None) -> None:
        old = self.operands[position]
        if self.graph is not None and old is not None:
            del old.uses[self, position]
        self.operands[position] = value
        if self.graph is not None and value is not None:
            value.uses[self, position] = None

    def __repr__(self) -> str:
        return f"<node {self.shown_name}".rstrip() + f": {self.op}>"


@dataclasses.dataclass(frozen=True, eq=False)
class ConstantAttrs:
    """``value`` as `arrays.held` gives it: read-only. Whoever made the array must not write to it any more.

    Raises:
        TypeError: it has no element type of Forge.
    """

    value: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", held(self.value))


class Constant(OpDef[ConstantAttrs]):
    """A tensor known at compile time."""

    name = "constant"
    Attrs = ConstantAttrs
    category = Category.OTHER

    def infer(self, attrs: ConstantAttrs, *operands: Value | None) -> Sequence[Type]:
        return [TensorType(tuple(attrs.value.shape), dtypes.canonical(attrs.value.dtype))]

    def reference(self, attrs: ConstantAttrs, *operands: Any) -> Sequence[Any]:
        return [attrs.value]


CONSTANT = op_registry.register(Constant())

__all__ = ["CONSTANT", "ConstantAttrs", "NoAttrs", "Node", "Value"]
