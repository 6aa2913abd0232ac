"""Replaces reads of sequences and optionals whose structure is known by what they read.

``%1 = sequence_construct(%x, %y); sequence_at(%1, 1i64)`` --> ``%y``
``%1 = split_to_sequence(%x); %2 = sequence_at(%1, 2i64)`` --> ``strided_slice(%x, begin=[2], end=[3], axes=[0])``
``%1 = sequence_construct(%x, %y); concat_from_sequence(%1)`` --> ``concatenate(%x, %y)``
``%1 = optional(%x); optional_get_element(%1)`` --> ``%x``

A sequence that nothing reads any more goes, so that no object exists at run time. What would fail at run time stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from forge import dims
from forge.errors import InvalidGraphError
from forge.ir.builder import Builder
from forge.ir.edits.rewrite import before, replace
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.retype import infer_again
from forge.ir.types import OptionalType, TensorType
from forge.ops.sequence.sequence import SplitToSequence
from forge.passes.base import on_each_graph
from forge.passes.matching import operand

MAX_PARTS = 1024
"""Of a tensor that is split; more stay a sequence."""


_Element = Callable[[Builder], Value]
"""Builds the value of an element where it is read."""
_Elements = list[_Element]


def _known(value: Value) -> _Element:
    return lambda builder: value


class _Folder:
    """Visits one graph. ``known`` are the elements of sequences and optionals."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[Value, _Elements] = {}
        self.stale: set[Node] = set()  # nodes whose operands have other types now

    def visit(self, node: Node) -> bool:
        if node in self.stale:
            self._retype(node)
        read = self._elements(node)
        if node.op in MAKERS:
            made = MAKERS[node.op](node)
        else:
            made = CHANGES[node.op](node, read) if read is not None and node.op in CHANGES else None
        if made is not None:
            self.known[node.result] = made
        return read is not None and node.op in READERS and self._fold(node, read)

    def _retype(self, node: Node) -> None:
        with suppress(InvalidGraphError):
            self.stale.update(user for value in infer_again(node) for user, _ in value.uses)

    def _fold(self, node: Node, elements: _Elements) -> bool:
        builder = before(self.graph, node)
        value = READERS[node.op](node, elements, builder)
        if value is None:
            return False
        if self.graph.is_output(node.result):
            value = builder.call("copy", value)
        if value.type != node.result.type:
            self.stale.update(user for user, _ in node.result.uses)
        return replace(self.graph, node, value)

    def _elements(self, node: Node) -> _Elements | None:
        """What is known of the first operand; where an optional is read, an absent one is empty, any other value its element."""
        first = node.operands[0] if node.operands else None
        if node.op.startswith("optional_") and (first is None or not isinstance(first.type, OptionalType)):
            return [] if first is None else [_known(first)]
        return None if first is None else self.known.get(first)


def _operands(node: Node) -> _Elements | None:
    return [_known(v) for v in node.operands if v is not None]


def _inserted(node: Node, elements: _Elements) -> _Elements | None:
    position = _position(node, 2, elements, len(elements), len(elements))
    return None if position is None else [*elements[:position], _known(operand(node, 1)), *elements[position:]]


def _erased(node: Node, elements: _Elements) -> _Elements | None:
    position = _position(node, 1, elements, len(elements) - 1, -1)
    return None if position is None else elements[:position] + elements[position + 1 :]


def _at(node: Node, elements: _Elements, builder: Builder) -> Value | None:
    position = _position(node, 1, elements, len(elements) - 1, 0)
    return None if position is None else elements[position](builder)


def _concat(node: Node, elements: _Elements, builder: Builder) -> Value | None:
    if not elements:
        return None
    values, axis, stacks = [element(builder) for element in elements], node.attrs.axis, node.attrs.new_axis
    if not _fit(values, None if stacks else axis):
        return None
    if len(values) == 1 and not stacks:
        return values[0]
    return builder.call("stack" if stacks else "concatenate", *values, axis=axis)


def _position(node: Node, index: int, elements: _Elements, last: int, standard: int) -> int | None:
    """The position from the start, where it is known and in range."""
    given = node.operands[index] if index < len(node.operands) else None
    array = np.array(standard) if given is None else given.constant
    if array is None:
        return None
    position = int(array.reshape(-1)[0])
    position += len(elements) if position < 0 else 0
    return position if 0 <= position <= last else None


def _split(node: Node) -> _Elements | None:
    split = SplitToSequence.of(node)
    assert split is not None
    data, axis = split.data, split.attrs.axis % split.data.rank
    drops = not split.attrs.keepdims and split.split is None
    sizes = _sizes(split.split, data.shape[axis]) if isinstance(data.shape[axis], int) else None
    if sizes is None or len(sizes) > MAX_PARTS:
        return None

    def part(begin: int, end: int, builder: Builder) -> Value:
        piece = builder.call("strided_slice", data, begin=(begin,), end=(end,), axes=(axis,))
        return builder.call("squeeze", piece, axis=(axis,)) if drops else piece

    return [partial(part, end - size, end) for size, end in zip(sizes, np.cumsum(sizes).tolist())]


def _sizes(given: Value | None, extent: int) -> list[int] | None:
    """Sizes of the parts, where they are known and right."""
    if given is None:
        return [1] * extent
    split = given.constant
    if split is None:
        return None
    if split.ndim == 0:
        size = int(split)
        return [min(size, extent - begin) for begin in range(0, extent, size)] or [0] if size > 0 else None
    return split.tolist() if split.sum() == extent and (split >= 0).all() else None


MAKERS: Mapping[str, Callable[[Node], _Elements | None]] = {
    "sequence_construct": _operands, "sequence_empty": _operands, "optional": _operands, "split_to_sequence": _split,
}
CHANGES: Mapping[str, Callable[[Node, _Elements], _Elements | None]] = {
    "copy": lambda node, elements: elements, "sequence_insert": _inserted, "sequence_erase": _erased,
}
READERS: Mapping[str, Callable[[Node, _Elements, Builder], Value | None]] = {
    "sequence_at": _at,
    "sequence_length": lambda node, elements, builder: builder.constant(np.array(len(elements), np.int64)),
    "concat_from_sequence": _concat,
    "optional_has_element": lambda node, elements, builder: builder.constant(np.array(bool(elements))),
    "optional_get_element": lambda node, elements, builder: elements[0](builder) if elements else None,
}


def _fit(values: Sequence[Value], axis: int | None) -> bool:
    """Whether tensors certainly have equal sizes but for ``axis``."""
    first = values[0].type
    if not isinstance(first, TensorType):
        return False
    free = None if axis is None else axis % first.rank
    return all(isinstance(t, TensorType) and (t.rank, t.dtype) == (first.rank, first.dtype)
               and all(k == free or dims.equal(a, b) for k, (a, b) in enumerate(zip(first.shape, t.shape)))
               for t in (v.type for v in values[1:]))


run = on_each_graph(lambda graph: sum(map(_Folder(graph).visit, graph.nodes)))
