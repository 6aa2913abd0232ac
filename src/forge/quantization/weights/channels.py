"""Constant operands by their channels: as rows, and multiplied by a number for each channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge.ir.builder import Builder
from forge.ir.nodes import Node
from forge.ops.nn.normalization import LayerNorm, RmsNorm
from forge.passes.matching import operand


def along(axis: int, rank: int) -> list[int]:
    """Returns the shape in which a vector broadcasts along ``axis`` of an array of this rank."""
    return [-1 if k == axis % rank else 1 for k in range(rank)]


def rows_of(array: np.ndarray, axis: int) -> np.ndarray:
    """Returns ``array`` as ``[N, K]``, with a row for each index along ``axis``."""
    moved = np.moveaxis(array, axis, 0)
    return moved.reshape(len(moved), -1)


def from_rows(rows: np.ndarray, shape: Sequence[int], axis: int) -> np.ndarray:
    """Returns the array of this shape whose `rows_of` are ``rows``."""
    moved = rows.reshape(shape[axis], *(n for k, n in enumerate(shape) if k != axis))
    return np.ascontiguousarray(np.moveaxis(moved, 0, axis))


def set_constant(node: Node, position: int, array: np.ndarray) -> None:
    """Puts a constant in the place of an operand, under its name."""
    builder, name = Builder(node.graph, node, node.location), operand(node, position).name
    node.set_operand(position, builder.constant(np.ascontiguousarray(array), name=name))


@dataclass(frozen=True)
class ChannelOperand:
    """A constant operand with a number for each channel along ``axis``, where it may broadcast."""

    node: Node
    position: int
    axis: int

    @property
    def array(self) -> np.ndarray:
        return np.asarray(operand(self.node, self.position).constant)

    @property
    def rows(self) -> np.ndarray:
        """``[C, others]``"""
        return rows_of(self.array, self.axis)

    def multiply(self, factors: np.ndarray) -> None:
        """Multiplies the constant by ``factors [C]``."""
        changed = self.array * factors.reshape(along(self.axis, max(1, self.array.ndim)))
        set_constant(self.node, self.position, changed.astype(np.float32))


def parameters_of(node: Node) -> list[ChannelOperand] | None:
    """Returns gamma and beta of a normalization over the last axis; None: it is none, or what scales them is not constant."""
    norm = LayerNorm.of(node) or RmsNorm.of(node)
    if norm is None or norm.gamma is None or norm.attrs.axis % norm.data.rank != norm.data.rank - 1:
        return None
    parameters = [k for k, v in enumerate(node.operands) if k and v is not None]
    flags = [node.attributes.get(name, True) for name in ("scale", "center")]
    known = all(v is None or v.constant is not None and v.rank == 1 for v in node.operands[1:])
    return [ChannelOperand(node, k, -1) for k in parameters] if known and all(flags) else None
