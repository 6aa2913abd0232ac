"""Takes a graph to another layout: from the operators that ask for it along all that can be computed in it."""

from __future__ import annotations

from abc import abstractmethod

from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node, Value
from forge.ir.types import TensorType
from forge.ops.core.layout_change import LayoutChange, Shape
from forge.ops.core.op import Op
from forge.passes.rewriting import before, live_nodes, remove_unused


class Relayout(LayoutChange):
    """One graph on its way: `start` converts the operators that ask for the layout, and ``Op.in_layout`` those that follow.

    Conversions are inserted where an operator needs the layout that its operand does not have, once for each value.
    ``new`` holds the values that exist in the layout, by the original one; ``old`` those in the usual layout.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = Builder(graph)
        self.new: dict[Value, Value] = {}
        self.old: dict[Value, Value] = {}

    @abstractmethod
    def start(self, node: Node) -> Value | None:
        """The result of ``node``, in the layout, when it is one that asks for it."""

    @abstractmethod
    def can_follow(self, node: Node) -> bool:
        """Whether the tensors of ``node``, which has one result, are of a kind that the layout is for."""

    @abstractmethod
    def to_new(self, value: Value) -> Value:
        """A conversion into the layout."""

    @abstractmethod
    def to_old(self, value: Value, original: Value) -> Value:
        """A conversion of ``value`` into the layout that ``original`` has."""

    def run(self) -> int:
        """Edits the graph; the number of nodes that compute in the layout now."""
        replaced: list[Node] = []
        for node in live_nodes(self.graph):
            self.builder = before(self.graph, node)
            value = self._converted_result(node)
            if value is None:
                self._read_old(node)
                continue
            same_axes = node.result.rank >= max(v.rank for v in node.operands if v is not None)
            (self.new if same_axes else self.old)[node.result] = value
            replaced.append(node)
        self._restore_outputs()
        for node in reversed(replaced):
            remove_unused(self.graph, node)
        return len(replaced)

    def converted(self, value: Value) -> Value:
        if value not in self.new:
            self.old.setdefault(value, value)
            self.new[value] = self.to_new(self.old[value])
        return self.new[value]

    def usual(self, value: Value) -> Value:
        if value not in self.old:
            self.old[value] = self.to_old(self.new[value], value) if value in self.new else value
        return self.old[value]

    def broadcast(self, value: Value, shape: Shape, result: Shape) -> Value:
        if value.rank == len(result):
            return self.converted(value)
        return self.usual(value) if value.rank == 0 else self.to_new(self.view(value, shape))

    def view(self, value: Value, shape: Shape) -> Value:
        """``value`` in its usual layout, under another shape of as many elements."""
        value = self.usual(value)
        if value.shape == tuple(shape):
            return value
        if value.constant is not None:
            return self.builder.constant(value.constant.reshape([d for d in shape if isinstance(d, int)]), name=value.name)
        return self.builder.call("reshape", value, newshape=tuple(shape))

    def _converted_result(self, node: Node) -> Value | None:
        values = [v for v in (*node.operands, *node.results) if v is not None]
        if len(node.results) != 1 or not all(isinstance(v.type, TensorType) for v in values):
            return None
        value = self.start(node)
        if value is not None or not any(v in self.new for v in values) or not self.can_follow(node):
            return value
        return node.op_def.in_layout(node, self) if isinstance(node.op_def, Op) else None

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
