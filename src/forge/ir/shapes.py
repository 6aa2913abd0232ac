"""Shape arithmetic: what is known of the contents of small integer tensors, as symbolic dimensions."""

from __future__ import annotations

import itertools

import numpy as np

from forge import dims, dtypes
from forge.dims import DimExpr
from forge.ir.nodes import Value
from forge.ir.types import TensorType

MAX_ELEMENTS = 1024
_FRESH = itertools.count()


def fresh_symbol(prefix: str = "d") -> DimExpr:
    """A symbol that no other dimension uses: the extent of a data-dependent result."""
    return dims.symbol(f"{prefix}_{next(_FRESH)}")


def known_dims(
    value: Value | None, depth: int = 64, seen: dict[Value, np.ndarray | None] | None = None
) -> np.ndarray | None:
    """The contents of an integer or bool tensor as an array (dtype object) of dimensions; None when unknown.

    Follows producers that say how (``OpDef.evaluate_dims``), at most ``depth`` nodes deep, each once.
    """
    seen = {} if seen is None else seen
    if value is None:
        return None
    if value not in seen:
        seen[value] = _known(value, depth, seen)
    return seen[value]


def _known(value: Value, depth: int, seen: dict[Value, np.ndarray | None]) -> np.ndarray | None:
    if not isinstance(value.type, TensorType) or depth == 0:
        return None
    if not (dtypes.is_integer(value.dtype) or value.dtype == "bool"):
        return None
    constant = value.constant
    if constant is not None:
        return constant.astype(object) if constant.size <= MAX_ELEMENTS else None
    if value.producer is None or len(value.producer.results) != 1:
        return None
    node = value.producer
    operands = [known_dims(v, depth - 1, seen) for v in node.operands]
    types = [None if v is None else v.type for v in node.operands]
    found = node.op_def.evaluate_dims(operands, node.attrs, types)
    return None if found is None else np.asarray(found, dtype=object)
