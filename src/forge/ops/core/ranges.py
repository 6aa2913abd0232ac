"""What is known of the integers in a tensor: the least and the greatest that it may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ir.op import OpDef, Range
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType, Type

MAX_DEPTH = 24
"""How many operators are looked at, one before the other."""


def element_range(value: Value, depth: int = MAX_DEPTH) -> Range | None:
    """The range of the elements of ``value``, which are integers; None where nothing but their type is known.

    Operators say what they make of ranges by ``OpDef.element_range``.
    """
    if not isinstance(value.type, TensorType) or not dtypes.belongs(value.dtype, "integer or bool"):
        return None
    array = value.constant
    if array is not None:
        return (int(array.min()), int(array.max())) if array.size else (0, 0)
    contents = known_dims(value)
    if contents is not None and contents.size and not any(isinstance(d, bool | np.bool_) for d in contents.ravel()):
        return union([(d, d) for d in contents.ravel()])
    found: Range | None = None
    node = value.producer
    if node is not None and depth and not node.regions:
        ranges = [None if v is None else element_range(v, depth - 1) for v in node.operands]
        found = node.op_def.element_range(node.attrs, [v.type for v in node.results], ranges, *node.operands)[value.index]
    if found is None and dtypes.bits(value.dtype) <= 8:
        found = (0, 1) if value.dtype == "bool" else dtypes.integer_range(value.dtype)
    return found


def union(ranges: Sequence[Range | None]) -> Range | None:
    """What holds for elements of any of ``ranges``."""
    known = [r for r in ranges if r is not None]
    if not known or len(known) < len(ranges):
        return None
    low, high = known[0]
    for least, most in known[1:]:
        low, high = dims.minimum(low, least), dims.maximum(high, most)
    return low, high


def kept(
    op: OpDef[Any], attrs: Any, results: Sequence[Type], ranges: Sequence[Range | None], *operands: Value | None
) -> Sequence[Range | None]:
    """``element_range`` of operators whose results are made of elements of operand 0."""
    return [ranges[0] for _ in results]


def joined(
    op: OpDef[Any], attrs: Any, results: Sequence[Type], ranges: Sequence[Range | None], *operands: Value | None
) -> Sequence[Range | None]:
    """``element_range`` of operators whose result is made of elements of all operands."""
    return [union(ranges)]


def lies_within(found: Range | None, low: Dim, high: Dim) -> bool:
    """Whether all elements of a range are ``low`` to ``high``, for all sizes."""
    if found is None:
        return False
    above, below = dims.bounds(found[0] - low)[0], dims.bounds(high - found[1])[0]
    return above is not None and above >= 0 and below is not None and below >= 0
