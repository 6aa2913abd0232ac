"""What convolutions and matrix products say of themselves: which operand is the weight, and what its axes are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from forge.ir.nodes import Node, Value
from forge.ops.core.op import Op

A = TypeVar("A")


def contents(value: Value) -> np.ndarray | None:
    """The array that a constant holds."""
    return value.constant


class Product(Op[A]):
    """A sum of products of data and a weight.

    ``Product.of(node)`` is bound to a node of any such operator, as ``Conv2D.of(node)`` is. The weight may be known at run time
    only, as in attention.
    """

    @property
    def left(self) -> Value:
        """The data."""
        return self._operand(0)

    @property
    def right(self) -> Value:
        """The weight."""
        return self._operand(1)

    def _operand(self, position: int) -> Value:
        value = self.node.operands[position]
        assert value is not None
        return value

    @property
    def groups(self) -> int:
        """Equal parts of the channels of data and result: each of the result is summed over its own of the data."""
        return 1

    @property
    def depth_axis(self) -> int:
        """The axis of the data along which products are summed; that of the channels, of which groups sum a part each."""
        raise NotImplementedError

    @property
    def weight_axis(self) -> int:
        """The axis of the weight whose elements make different channels of the result, or of a group of it."""
        raise NotImplementedError

    @property
    def channel_axis(self) -> int:
        """The axis of the result that the weight makes: that of the channels of a convolution, of the columns of a matrix."""
        raise NotImplementedError

    def channels_of(self, value: Value) -> int:
        """The axis of the channels in ``value``, which is the result, or a view of it that moves no channel."""
        return value.rank - 1 if self.channel_axis == self.result.rank - 1 else self.channel_axis

    @property
    def is_by_matrix(self) -> bool:
        """Whether each row of the data is multiplied by the same matrix."""
        return self.right.rank == 2 and self.depth_axis == self.left.rank - 1

    def scaled(self, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """``weight`` with which each channel of the result is ``scale`` times as large; computed in float64."""
        along = [-1 if k == self.weight_axis else 1 for k in range(weight.ndim)]
        return np.asarray(weight.astype(np.float64) * scale.reshape(along), weight.dtype)

    def bias(self, result: Value | None = None, known: Callable[[Value], Any] = contents) -> tuple[Node, int] | None:
        """The node that alone reads the result and adds a constant vector over its channels, and the place of this operand.

        Args:
            result: the value that is read, where it is another view of the result with the same channels.
            known: gives None for a vector that is not constant.
        """
        result = self.result if result is None else result
        if len(result.uses) != 1:
            return None
        ((user, position),) = result.uses
        axis = self.channels_of(result)
        if user.op not in ("nn.bias_add", "add") or user.attributes.get("axis", -1) % result.rank != axis:
            return None
        other = user.operands[1 - position]
        if other is None or other.rank != 1 or other.shape[0] != result.shape[axis] or known(other) is None:
            return None
        return user, 1 - position
