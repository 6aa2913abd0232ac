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
_LARGEST_PRODUCT = {32: 1 << 20, 64: 1 << 32}  # by bits of the type: products of sizes up to this must not overflow


def known_dims(value: Value | None, depth: int = 64) -> np.ndarray | None:
    """The contents of an integer or bool tensor as an array (dtype object) of dimensions; None when unknown.

    Follows producers that say how (``OpDef.evaluate_dims``), at most ``depth`` nodes deep. Tensors of more than ``MAX_ELEMENTS``
    elements count as unknown. Numbers are those of the element type: they wrap. A symbolic dimension counts as unknown where it
    may leave the range of its type, for then only the run knows what it wraps to; see ``_fits``.
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
        computed = node.op_def.evaluate_dims(node.attrs, types, *node.op_def.arguments(operands))
    except (InvalidGraphError, *MISFITS):  # a dimension grew too large; shapes that cannot be (the run will tell)
        return None
    contents = None if computed is None else np.asarray(computed, dtype=object)
    if contents is None or contents.size > MAX_ELEMENTS or contents.ndim != node.result.rank:
        return None
    return _of_type(contents, node.result.dtype)


def _of_type(contents: np.ndarray, dtype: str) -> np.ndarray | None:
    """``contents`` as elements of a type; None where only the run knows them.

    Operators compute with unbounded integers on exact operands, so that numbers are right modulo two to the number of bits.
    """
    result = np.empty(contents.shape, dtype=object)
    for position, dim in enumerate(contents.flat):
        if isinstance(dim, DimExpr):
            if not _fits(dim, dtype):
                return None
            result.flat[position] = dim
        else:
            result.flat[position] = bool(dim) if dtype == "bool" else dtypes.wrap_int(int(dim), dtype)
    return result


def _fits(dim: DimExpr, dtype: str) -> bool:
    """Whether a symbolic dimension is in the range of an integer type.

    For all sizes in types of 16 bits and less; in wider ones, in which models compute sizes, as long as no product of sizes
    exceeds ``_LARGEST_PRODUCT``. What has no known bounds is taken to be an int64.
    """
    if dtype == "bool" or not dims.is_int64(dim):
        return False
    smallest, greatest = dtypes.integer_range(dtype)
    low, high = dims.bounds(dim, _LARGEST_PRODUCT.get(dtypes.bits(dtype)))
    if dtype == "int64":
        return (low is None or low >= smallest) and (high is None or high <= greatest)
    return low is not None and low >= smallest and high is not None and high <= greatest
