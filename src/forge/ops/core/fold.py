"""Computes small constants while a graph is built, so that operands which stand for attributes become known."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.errors import ForgeError
from forge.ir import interp
from forge.ir.builder import Builder
from forge.ir.nodes import Node, Value
from forge.ir.op import Category, Trait
from forge.ir.shapes import MAX_ELEMENTS, known_dims
from forge.ir.types import TensorType


def fold(builder: Builder, node: Node) -> list[Value]:
    """The results of ``node``, which was just appended; replaced by constants when they are small and known."""
    arrays = _from_dims(node)
    if arrays is None:
        arrays = _from_constants(node)
    if arrays is None:
        return node.results
    builder.graph.remove(node)
    return [builder.constant(array) for array in arrays]


def _from_dims(node: Node) -> list[np.ndarray] | None:
    if len(node.results) != 1 or not node.op_def.is_pure:
        return None
    known = known_dims(node.results[0])
    if known is None or not dims.is_static(*known.ravel()):
        return None
    return [np.asarray(known, dtypes.numpy_dtype(node.results[0].dtype))]


def _from_constants(node: Node) -> list[Any] | None:
    operands = [None if v is None else v.constant for v in node.operands]
    if any(c is None and v is not None for c, v in zip(operands, node.operands)) or not any(o is not None for o in operands):
        return None
    op = node.op_def
    if unpacks(node) or not op.is_pure or op.traits & Trait.HOST or node.regions or not all(_is_small(v) for v in node.results):
        return None
    if sum(o.size for o in operands if o is not None) > MAX_ELEMENTS:
        return None
    try:
        return list(interp.evaluate(node, operands, {}, lambda *_: []))
    except (ForgeError, KeyError, ValueError, IndexError):
        return None


def unpacks(node: Node) -> bool:
    """Whether ``node`` widens integers as weights are, matrices of few bits, or biases, vectors of int32 with scales.

    Until they are compiled they keep their bits.
    """
    data = node.operands[0] if node.op_def.unpacks else None
    if data is None or not isinstance(data.type, TensorType) or not dtypes.is_integer(data.dtype):
        return False
    if data.rank < 2:
        return data.rank == 1 and data.dtype == "int32" and node.op_def.category is Category.QUANTIZATION
    held, wanted = (dtypes.bits(v.dtype) for v in (data, node.result))
    return held <= 8 and (wanted > held or node.result.size != data.size)


def _is_small(value: Value) -> bool:
    if not isinstance(value.type, TensorType) or not value.type.is_static:
        return False
    size = value.type.size
    return isinstance(size, int) and size <= MAX_ELEMENTS
