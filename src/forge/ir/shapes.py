"""Shape arithmetic: what is known of the contents of small integer tensors, as symbolic dimensions."""

from __future__ import annotations

import numpy as np

from forge import dims, dtypes
from forge.dims import DimExpr
from forge.errors import InvalidGraphError
from forge.ir.builder import MISFITS
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType

MAX_ELEMENTS = 1024
_LIMIT = 1 << 63


def fresh_symbol(prefix: str = "d") -> DimExpr:
    """A symbol that no other dimension uses: the extent of a data-dependent result."""
    return dims.fresh(prefix)


def known_dims(value: Value | None, depth: int = 64) -> np.ndarray | None:
    """The contents of an integer or bool tensor as an array (dtype object) of dimensions; None when unknown.

    Follows producers that say how (``OpDef.evaluate_dims``), at most ``depth`` nodes deep. Tensors of more than ``MAX_ELEMENTS``
    elements, and numbers beyond 64 bits, count as unknown.
    """
    return _known(value, depth, {})


def _known(value: Value | None, depth: int, done: dict[Value, np.ndarray | None]) -> np.ndarray | None:
    if value is None or not isinstance(value.type, TensorType) or depth == 0:
        return None
    if not (dtypes.is_integer(value.dtype) or value.dtype == "bool") or not _is_small(value.type):
        return None
    if value not in done:
        constant = value.constant
        done[value] = _objects(constant) if constant is not None else _evaluated(value.producer, depth, done)
    return done[value]


def _objects(array: np.ndarray) -> np.ndarray:
    """The elements as Python's numbers."""
    native = array if array.dtype.kind in "biu" else array.astype(np.int64)
    return native.astype(object)


def _is_small(type_: TensorType) -> bool:
    size = type_.size
    return not isinstance(size, int) or size <= MAX_ELEMENTS


def _evaluated(node: Node | None, depth: int, done: dict[Value, np.ndarray | None]) -> np.ndarray | None:
    if node is None or len(node.results) != 1:
        return None
    operands = [_known(v, depth - 1, done) for v in node.operands]
    types = [None if v is None else v.type for v in node.operands]
    try:
        computed = node.op_def.evaluate_dims(operands, node.attrs, types)
    except (InvalidGraphError, *MISFITS):  # a dimension grew too large; shapes that cannot be (the run will tell)
        return None
    contents = None if computed is None else np.asarray(computed, dtype=object)
    if contents is None or contents.size > MAX_ELEMENTS or contents.ndim != node.result.rank:
        return None
    return contents if all(not isinstance(d, int) or -_LIMIT <= d < 2 * _LIMIT for d in contents.flat) else None
