"""Replaces reads of sequences and optionals whose structure is known by what they read.

``%1 = sequence_construct(%x, %y); sequence_at(%1, 1i64)`` --> ``%y``
``%1 = split_to_sequence(%x); %2 = sequence_at(%1, 2i64)`` --> ``strided_slice(%x, begin=[2], end=[3], axes=[0])``
``%1 = sequence_construct(%x, %y); concat_from_sequence(%1)`` --> ``concatenate(%x, %y)``
``%1 = optional(%x); optional_get_element(%1)`` --> ``%x``

A sequence that nothing reads any more goes, so that no object exists at run time. What would fail at run time stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims
from forge.errors import InvalidGraphError
from forge.ir.builder import Builder
from forge.ir.edits.rewrite import before, on_all_graphs, replace
from forge.ir.nodes import Graph, Node, Value
from forge.ir.retype import infer_again
from forge.ir.types import OptionalType, TensorType
from forge.ops.sequence.sequence import ConcatFromSequenceAttrs, SplitToSequenceAttrs
from forge.options import CompileOptions

MAX_PARTS = 1024
"""Of a tensor that is split; more stay a sequence."""


def run(graph: Graph, options: CompileOptions) -> int:
    return on_all_graphs(graph, lambda g: _Folder(g).run())


@dataclass(frozen=True)
class _Part:
    """``data[begin:end]`` along ``axis``; ``drops``: without that dimension, of size 1."""

    data: Value
    axis: int
    begin: int
    end: int
    drops: bool

    def build(self, builder: Builder) -> Value:
        part = builder.call("strided_slice", self.data, begin=(self.begin,), end=(self.end,), axes=(self.axis,))
        return builder.call("squeeze", part, axis=(self.axis,)) if self.drops else part


_Element = Value | _Part


class _Folder:
    """Visits one graph. ``known`` are the elements of sequences and optionals."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[Value, list[_Element]] = {}
        self.stale: set[Node] = set()  # nodes whose operands have other types now
        self.makers: dict[str, Callable[[Node], list[_Element] | None]] = {
            "sequence_construct": _operands, "sequence_empty": _operands, "optional": _operands, "copy": self._copied,
            "sequence_insert": self._inserted, "sequence_erase": self._erased, "split_to_sequence": _split,
        }
        self.readers: dict[str, Callable[[Node, Builder], Value | None]] = {
            "sequence_at": self._at, "sequence_length": self._length, "concat_from_sequence": self._concat,
            "optional_has_element": self._has, "optional_get_element": self._get,
        }

    def run(self) -> int:
        return sum(self._visit(node) for node in self.graph.nodes)

    def _visit(self, node: Node) -> bool:
        self._retype(node)
        if node.op in self.makers:
            elements = self.makers[node.op](node)
            if elements is not None:
                self.known[node.result] = elements
        return node.op in self.readers and self._fold(node)

    def _retype(self, node: Node) -> None:
        if node not in self.stale:
            return
        try:
            changed = infer_again(node)
        except InvalidGraphError:
            return
        self.stale.update(user for value in changed for user, _ in value.uses)

    def _fold(self, node: Node) -> bool:
        builder = before(self.graph, node)
        value = self.readers[node.op](node, builder)
        if value is None:
            return False
        if self.graph.is_output(node.result):
            value = builder.call("copy", value)
        if value.type != node.result.type:
            self.stale.update(user for user, _ in node.result.uses)
        return replace(self.graph, node, value)

    def _elements(self, node: Node) -> list[_Element] | None:
        operand = node.operands[0]
        return None if operand is None else self.known.get(operand)

    def _copied(self, node: Node) -> list[_Element] | None:
        return self._elements(node)

    def _inserted(self, node: Node) -> list[_Element] | None:
        elements, value = self._elements(node), node.operands[1]
        position = None if elements is None else _position(node, 2, len(elements), len(elements), len(elements))
        if elements is None or position is None or value is None:
            return None
        return [*elements[:position], value, *elements[position:]]

    def _erased(self, node: Node) -> list[_Element] | None:
        elements = self._elements(node)
        position = None if elements is None else _position(node, 1, len(elements), len(elements) - 1, -1)
        return None if elements is None or position is None else elements[:position] + elements[position + 1 :]

    def _at(self, node: Node, builder: Builder) -> Value | None:
        elements = self._elements(node)
        position = None if elements is None else _position(node, 1, len(elements), len(elements) - 1, 0)
        return None if elements is None or position is None else _built(elements[position], builder)

    def _length(self, node: Node, builder: Builder) -> Value | None:
        elements = self._elements(node)
        return None if elements is None else builder.constant(np.array(len(elements), np.int64))

    def _concat(self, node: Node, builder: Builder) -> Value | None:
        elements = self._elements(node)
        assert isinstance(node.attrs, ConcatFromSequenceAttrs)
        if not elements:
            return None
        values = [_built(e, builder) for e in elements]
        axis = node.attrs.axis
        if not _fit(values, None if node.attrs.new_axis else axis):
            return None
        if len(values) == 1 and not node.attrs.new_axis:
            return values[0]
        return builder.call("stack" if node.attrs.new_axis else "concatenate", *values, axis=axis)

    def _has(self, node: Node, builder: Builder) -> Value | None:
        operand = node.operands[0] if node.operands else None
        if operand is None:
            return builder.constant(np.array(False))
        if not isinstance(operand.type, OptionalType):
            return builder.constant(np.array(True))
        elements = self.known.get(operand)
        return None if elements is None else builder.constant(np.array(bool(elements)))

    def _get(self, node: Node, builder: Builder) -> Value | None:
        operand = node.operands[0]
        if operand is not None and not isinstance(operand.type, OptionalType):
            return operand
        elements = self._elements(node)
        return _built(elements[0], builder) if elements else None


def _built(element: _Element, builder: Builder) -> Value:
    return element if isinstance(element, Value) else element.build(builder)


def _operands(node: Node) -> list[_Element] | None:
    return [v for v in node.operands if v is not None]


def _position(node: Node, index: int, length: int, last: int, standard: int) -> int | None:
    """The position from the start, where it is known and in range."""
    operand = node.operands[index] if index < len(node.operands) else None
    given = np.array(standard) if operand is None else operand.constant
    if given is None:
        return None
    position = int(given.reshape(-1)[0])
    position += length if position < 0 else 0
    return position if 0 <= position <= last else None


def _split(node: Node) -> list[_Element] | None:
    data, attrs = node.operands[0], node.attrs
    assert data is not None and isinstance(attrs, SplitToSequenceAttrs)
    extent = data.shape[attrs.axis]
    sizes = _sizes(node, extent) if isinstance(extent, int) else None
    if sizes is None or len(sizes) > MAX_PARTS:
        return None
    ends = np.cumsum(sizes).tolist()
    drops = not attrs.keepdims and (len(node.operands) < 2 or node.operands[1] is None)
    return [_Part(data, attrs.axis % data.rank, end - size, end, drops) for size, end in zip(sizes, ends)]


def _sizes(node: Node, extent: int) -> list[int] | None:
    """Sizes of the parts, where they are known and right."""
    operand = node.operands[1] if len(node.operands) > 1 else None
    if operand is None:
        return [1] * extent
    split = operand.constant
    if split is None:
        return None
    if split.ndim == 0:
        size = int(split)
        return [min(size, extent - begin) for begin in range(0, extent, size)] or [0] if size > 0 else None
    return split.tolist() if split.sum() == extent and (split >= 0).all() else None


def _fit(values: Sequence[Value], axis: int | None) -> bool:
    """Whether tensors certainly have equal sizes but for ``axis``."""
    first = values[0].type
    if not isinstance(first, TensorType):
        return False
    free = None if axis is None else axis % first.rank
    for value in values[1:]:
        type_ = value.type
        if not isinstance(type_, TensorType) or type_.rank != first.rank or type_.dtype != first.dtype:
            return False
        if not all(k == free or dims.equal(a, b) for k, (a, b) in enumerate(zip(first.shape, type_.shape))):
            return False
    return True
