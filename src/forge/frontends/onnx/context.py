"""What a converter builds with: the graph at the node being converted, and what is known of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from forge import dims
from forge.dims import Dim
from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx.broadcast import aligned
from forge.frontends.onnx.fold import fold
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Value
from forge.ir.op import get_op
from forge.ir.shapes import known_dims
from forge.ops.elementwise_base import Elementwise

if TYPE_CHECKING:
    from forge.frontends.onnx.scope import Scope


class Context:
    """Given to a converter as its first argument, one for each node of the model."""

    def __init__(self, scope: Scope, node: onnx.NodeProto, opset: int, name: str) -> None:
        self.scope = scope
        self.node = node
        self.opset = opset
        self.name = name
        self.builder = Builder(scope.graph, location=name)

    @property
    def num_outputs(self) -> int:
        """Outputs that the node lists, absent ones in between included."""
        return len(self.node.output)

    @property
    def convert_config(self) -> dict[str, Any]:
        return self.scope.options.convert_config

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is named, that is, may be read."""
        return index < len(self.node.output) and bool(self.node.output[index])

    def call(self, op: str, *operands: Value | None, **attributes: Any) -> Value:
        """Applies a Forge operator with one result; small results of constants are computed at once."""
        (result,) = self.multi(op, *operands, **attributes)
        return result

    def multi(self, op: str, *operands: Value | None, regions: Sequence[Graph] = (), **attributes: Any) -> list[Value]:
        """Applies a Forge operator with any number of results."""
        present = trimmed(operands)
        if op == "where" or isinstance(get_op(op), Elementwise):
            present = list(aligned(self.builder, [v for v in present if v is not None]))
        node = self.builder.node(get_op(op), present, attributes, regions)
        return fold(self.builder, node)

    def constant(self, value: Any, dtype: str | None = None) -> Value:
        return self.builder.constant(value, dtype)

    def scalar(self, value: float, like: Value) -> Value:
        """A constant of rank 0 and the element type of ``like``."""
        return self.builder.constant(value, like.dtype)

    def array(self, value: Value | None) -> np.ndarray | None:
        """The contents of ``value`` when they are known now."""
        if value is None:
            return None
        return value.constant if value.constant is not None else self.scope.frozen_value(value)

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
                f"{what} is computed at run time; expected a constant; fix it with shape= or in the exporter"
            )
        return known

    def cast(self, value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else self.call("cast", value, dtype=dtype)

    def reshape(self, value: Value, shape: Sequence[Dim]) -> Value:
        """``value`` with sizes that are all given."""
        return value if tuple(shape) == value.shape else self.call("reshape", value, newshape=tuple(shape), allowzero=True)

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


__all__ = ["Context", "Value", "trimmed"]
