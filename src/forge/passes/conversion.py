"""Takes a graph to another form of its tensors: another layout, or another precision.

Nodes are visited in order; those that a pass converts give results in the new form. Conversions are inserted where an operand is
not in the form that its node needs, once for each value; so those between two converted nodes never come about.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from forge.ir.builder import Builder
from forge.ir.edits.rewrite import before, remove_unused
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType
from forge.ops.core.layout_change import LayoutChange, Shape
from forge.ops.core.op import Op


class Conversion(ABC):
    """A graph on its way. ``new`` and ``old`` hold the values that exist in a form, by the original value.

    ``copied`` are the original values whose new form is converted from the old one. ``builder`` inserts before the node that is
    visited.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = Builder(graph)
        self.new: dict[Value, Value] = {}
        self.old: dict[Value, Value] = {}
        self.copied: set[Value] = set()

    @abstractmethod
    def convert(self, node: Node) -> bool:
        """Puts other results for those of ``node`` into ``new``, or into ``old`` where their form is that; False: it stays."""

    @abstractmethod
    def to_new(self, value: Value) -> Value:
        """Converts ``value`` into the new form."""

    @abstractmethod
    def to_old(self, value: Value, original: Value) -> Value:
        """Converts ``value`` into the form that ``original`` has."""

    def run(self) -> int:
        """Edits the graph; the number of nodes that are converted."""
        replaced: list[Node] = []
        for node in self.graph.nodes:
            self.builder = before(self.graph, node)
            if self.convert(node):
                replaced.append(node)
            else:
                self._read_old(node)
        self._restore_outputs()
        for node in reversed(replaced):
            remove_unused(self.graph, node)
        return len(replaced)

    def converted(self, value: Value) -> Value:
        """Returns ``value`` in the new form."""
        if value not in self.new:
            self.new[value] = self.to_new(self.old.setdefault(value, value))
            self.copied.add(value)
        return self.new[value]

    def usual(self, value: Value) -> Value:
        """Returns ``value`` in its old form."""
        if value not in self.old:
            self.old[value] = self.to_old(self.new[value], value) if value in self.new else value
        return self.old[value]

    def is_new(self, value: Value) -> bool:
        """Returns whether the node that computes ``value`` gives it in the new form."""
        return value in self.new and value not in self.copied

    def _read_old(self, node: Node) -> None:
        for position, value in enumerate(node.operands):
            if value is not None and (old := self.usual(value)) is not value:
                node.set_operand(position, old)

    def _restore_outputs(self) -> None:
        self.builder = Builder(self.graph)
        for value in dict.fromkeys(self.graph.outputs):
            if (old := self.usual(value)) is not value:
                self.graph.outputs = [old if out is value else out for out in self.graph.outputs]
                old.name, value.name = value.name, ""
                if value in self.new:
                    self.new[value].name = ""


class Relayout(Conversion, LayoutChange):
    """A conversion to another layout: `start` converts the operators that ask for it, ``Op.in_layout`` those that follow."""

    @abstractmethod
    def start(self, node: Node) -> Value | None:
        """Returns the result of ``node``, in the layout, when it is one that asks for it."""

    @abstractmethod
    def can_follow(self, node: Node) -> bool:
        """Returns whether the tensors of ``node``, which has one result, are of a kind that the layout is for."""

    def convert(self, node: Node) -> bool:
        values = [v for v in (*node.operands, *node.results) if v is not None]
        if len(node.results) != 1 or not all(isinstance(v.type, TensorType) for v in values):
            return False
        value = self.start(node)
        if value is None and isinstance(node.op_def, Op) and any(v in self.new for v in values) and self.can_follow(node):
            value = node.op_def.bind(node).in_layout(self)
        if value is None:
            return False
        same_axes = node.result.rank >= max(v.rank for v in node.operands if v is not None)
        (self.new if same_axes else self.old)[node.result] = value
        return True

    def broadcast(self, value: Value, shape: Shape, result: Shape) -> Value:
        if value.rank == len(result):
            return self.converted(value)
        return self.usual(value) if value.rank == 0 else self.to_new(self.view(value, shape))

    def view(self, value: Value, shape: Shape) -> Value:
        """Returns ``value`` in its usual layout, under another shape of as many elements."""
        value = self.usual(value)
        if value.shape == tuple(shape):
            return value
        if value.constant is not None:
            return self.builder.constant(value.constant.reshape([d for d in shape if isinstance(d, int)]), name=value.name)
        return self.builder.call("reshape", value, newshape=tuple(shape))
