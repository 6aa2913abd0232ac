"""How operators compute on tensors in another layout than their usual one: what a pass provides, and what operators share.

An operator says in ``Op.in_layout`` which operands and attributes it has there; a pass decides where it is worth it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from forge.dims import Dim

if TYPE_CHECKING:
    from forge.ir.builder import Builder
    from forge.ir.nodes import Node, Value
    from forge.ops.core.op import Op

Shape = Sequence[Dim]


class LayoutChange(ABC):
    """Another layout: axes in another order, one axis in blocks, whose elements are a new last axis, or an axis more.

    ``builder`` inserts nodes before the one that is converted. Elements beyond the extent of a blocked axis, in its last block,
    are undefined: nothing may combine the elements of a block.
    """

    builder: Builder

    @abstractmethod
    def order(self, rank: int) -> tuple[int | None, ...]:
        """For each axis here of a tensor that usually has ``rank``: which one it is there; None for one that is added."""

    def block(self, axis: int) -> int:
        """The size of the blocks of the usual ``axis``, counted from the front; 1: it is not blocked."""
        return 1

    def name(self, layout: str) -> str | None:
        """The layout here of a tensor of the usual ``layout``, say "NCHW"; None: it has no name, or is not converted."""
        return None

    @abstractmethod
    def converted(self, value: Value) -> Value:
        """``value`` in this layout."""

    @abstractmethod
    def usual(self, value: Value) -> Value:
        """``value`` in its usual layout."""

    def can_broadcast(self, shapes: Sequence[Shape], result: Shape) -> bool:
        """Whether tensors of the usual ``shapes``, each of the rank of ``result``, broadcast to ``result`` here too."""
        return True

    @abstractmethod
    def broadcast(self, value: Value, shape: Shape, result: Shape) -> Value:
        """``value``, seen as of the usual ``shape``, so that it broadcasts here to what ``result`` is here."""

    def vector(self, value: Value, axis: int, result: Shape) -> Value:
        """``value``, a vector along the usual ``axis``, so that it broadcasts here to what ``result`` is here."""
        return self.broadcast(value, [value.shape[0] if k == axis else 1 for k in range(len(result))], result)

    def axis(self, axis: int, rank: int) -> int:
        """Where the usual ``axis`` of a tensor of ``rank`` is; its blocks, if it has them."""
        return self.order(rank).index(axis % rank)

    def call(self, node: Node, *operands: Value | None, **changes: Any) -> Value:
        """``node`` on other operands and with changed attributes."""
        return self.builder.call(node.op_def, *operands, name=node.name, **{**node.attributes, **changes})

    def on_first(self, node: Node, **changes: Any) -> Value:
        """``node`` with its first operand in this layout and the others as usual."""
        first, *others = node.operands
        assert first is not None
        return self.call(node, self.converted(first), *(None if v is None else self.usual(v) for v in others), **changes)


def elementwise(op: Op[Any], change: LayoutChange) -> Value | None:
    """``Op.in_layout`` where elements of the result depend on those of the broadcast operands at their place only."""
    node, shape = op.node, op.result.shape
    shapes = [() if v is None else (*(1,) * (len(shape) - v.rank), *v.shape) for v in node.operands]
    if not change.can_broadcast([s for v, s in zip(node.operands, shapes) if v is not None], shape):
        return None
    return change.call(node, *(None if v is None else change.broadcast(v, s, shape) for v, s in zip(node.operands, shapes)))


def along_axis(op: Op[Any], change: LayoutChange) -> Value | None:
    """``Op.in_layout`` of operators with attribute ``axis`` of the first operand; others are vectors or scalars."""
    axis, rank = op.attrs.axis, op.result.rank
    return None if change.block(axis % rank) > 1 else change.on_first(op.node, axis=change.axis(axis, rank))


def named_layout(op: Op[Any], change: LayoutChange) -> Value | None:
    """``Op.in_layout`` of operators whose attributes ``layout`` and ``out_layout`` name the layout, which may be any."""
    attributes = op.node.attributes
    names = {key: change.name(attributes[key]) for key in ("layout", "out_layout") if attributes.get(key)}
    return None if None in names.values() else change.on_first(op.node, **names)
