"""What compositions are built with: a builder that lines up shapes, computes small constants at once, and knows what is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented, option
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.op import get_op
from forge.ir.shapes import known_dims
from forge.ops.core.broadcast import aligned, taken_for_equal
from forge.ops.core.fold import fold
from forge.ops.core.inference import UnprovenSizesError
from forge.ops.elementwise.rows import Elementwise

MAX_PREMISES = 32
"""Sizes that one node takes for equal, at most."""


class Composer:
    """Applies operators through ``builder``.

    Operands of elementwise operators are broadcast where symbolic sizes need it; small results of constants are constants, so
    that whoever asks (``array``, ``dims``, ``ints``) learns all that is known of a value now.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    @property
    def runs_always(self) -> bool:
        """Whether each call runs what is built, as no branch or loop does."""
        return True

    def call(self, op: str, *operands: Value | None, **attributes: Any) -> Value:
        """Applies an operator with one result."""
        (result,) = self.multi(op, *operands, **attributes)
        return result

    def multi(self, op: str, *operands: Value | None, regions: Sequence[Graph] = (), **attributes: Any) -> list[Value]:
        """Applies an operator with any number of results."""
        present = trimmed(operands)
        if op == "where" or isinstance(get_op(op), Elementwise):
            present = list(aligned(self.builder, [v for v in present if v is not None]))
        return fold(self.builder, self._node(op, present, attributes, regions))

    def _node(self, op: str, operands: list[Value | None], attributes: dict[str, Any], regions: Sequence[Graph]) -> Node:
        """A node; sizes that its operator needs to be equal, and that may be, are taken for equal and checked at run time."""
        for _ in range(MAX_PREMISES):
            try:
                return self.builder.node(get_op(op), operands, attributes, regions)
            except UnprovenSizesError as error:
                fitted = None if regions else taken_for_equal(self.builder, operands, *error.sizes)
                if fitted is None:
                    raise
                operands = fitted
        return self.builder.node(get_op(op), operands, attributes, regions)

    def constant(self, value: Any, dtype: str | None = None) -> Value:
        return self.builder.constant(value, dtype)

    def scalar(self, value: float, like: Value) -> Value:
        """A constant of rank 0 and the element type of ``like``."""
        return self.builder.constant(value, like.dtype)

    def array(self, value: Value | None) -> np.ndarray | None:
        """The contents of ``value`` when they are known now."""
        return None if value is None else value.constant

    def dims(self, value: Value | None) -> tuple[Dim, ...] | None:
        """The contents of an integer tensor, flattened, as dimensions; None when they arrive at run time."""
        known = self.array(value) if value is not None else None
        if known is None:
            known = known_dims(value)
        return None if known is None else tuple(_plain(d) for d in known.ravel())

    def ints(self, value: Value | None) -> tuple[int, ...] | None:
        """``dims`` when all are plain numbers."""
        known = self.dims(value)
        return known if known is not None and dims.is_static(*known) else None  # type: ignore[return-value]

    def required_ints(self, value: Value, what: str) -> tuple[int, ...]:
        """``ints``.

        Raises:
            OpAttributeUnimplemented: the contents are not known.
        """
        known = self.ints(value)
        if known is None:
            raise OpAttributeUnimplemented(
                f"{what} is computed at run time; expected a constant; fix it with {option('shape=')} or in the exporter"
            )
        return known

    def cast(self, value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else self.call("cast", value, dtype=dtype)

    def reshape(self, value: Value, shape: Sequence[Dim]) -> Value:
        """``value`` with sizes that are all given."""
        return value if tuple(shape) == value.shape else self.call("reshape", value, newshape=tuple(shape), allowzero=True)

    def extent(self, value: Value, axis: int, dtype: str = "int64") -> Value:
        """A size of ``value`` as a tensor of rank 0."""
        size = value.shape[axis]
        if isinstance(size, int):
            return self.constant(size, dtype)
        return self.call("take", self.call("shape_of", value, dtype=dtype), self.constant(axis, "int64"), axis=0)

    def size(self, size: Dim) -> Value:
        """``size`` as a tensor of rank 0 and type int64; importers that know what symbols stand for override it.

        Raises:
            OpAttributeUnimplemented: it is symbolic.
        """
        if not isinstance(size, int):
            raise self.unsupported(f"got the symbolic size {size}; expected a number; fix it with {option('shape=')}")
        return self.constant(size, "int64")

    def vector(self, sizes: Sequence[Dim]) -> Value:
        """``sizes`` as a tensor of rank 1 and type int64."""
        if dims.is_static(*sizes):
            return self.constant(list(sizes), "int64")
        return self.call("stack", *map(self.size, sizes), axis=0)

    def count(self, stop: Value, size: Dim | None = None) -> Value:
        """0, 1, .. stop - 1 as int64; ``size`` is ``stop`` where it is known."""
        numbers = self.call("arange", self.constant(0, "int64"), stop, self.constant(1, "int64"), dtype="int64")
        return numbers if size is None else self.reshape(numbers, (size,))

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """``axis`` counted from the front.

        Raises:
            OpAttributeInvalid: it is out of range.
        """
        if not -rank <= axis < max(rank, 1):
            raise OpAttributeInvalid(f"{what}: got {axis}; expected {-rank} to {rank - 1} for rank {rank}")
        return axis + rank if axis < 0 else axis

    def invalid(self, message: str) -> OpAttributeInvalid:
        return OpAttributeInvalid(message)

    def unsupported(self, message: str) -> OpAttributeUnimplemented:
        return OpAttributeUnimplemented(message)


def trimmed(operands: Sequence[Value | None]) -> list[Value | None]:
    """``operands`` without absent ones at the end."""
    kept = list(operands)
    while kept and kept[-1] is None:
        kept.pop()
    return kept


def _plain(value: Any) -> Dim:
    if isinstance(value, bool | np.bool_):
        return int(value)
    return int(value) if isinstance(value, np.integer) else value
