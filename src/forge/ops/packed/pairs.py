"""Packed weights in groups along the summed axis, as dot products read them: pairs of narrow floats, pairs or fours of int8.

``[..., K, n]`` becomes ``[..., K / g, n, g]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from forge.ir.types import TensorType
from forge.te import Expr, Tensor

GROUPS = {"bfloat16": (2, 4), "float16": (2,), "int8": (2, 4, 8)}
"""How many numbers a group of a dtype may have: words of up to 64 bits."""

MULTIPLE = 4
"""Sums of products of bytes have a multiple of this many, so that they can be computed in groups of every size."""


def paired(weight: np.ndarray, group: int = 2) -> np.ndarray:
    """A view of ``weight[..., K, n]`` in groups, which K must be a multiple of."""
    *lead, depth, columns = weight.shape
    return np.swapaxes(weight.reshape(*lead, depth // group, group, columns), -1, -2)


def plain_type(weight: TensorType, rank: int) -> TensorType:
    """The type without groups of a weight that is of ``rank`` without them."""
    group = weight.shape[-1] if weight.rank == rank + 1 else None
    if group not in GROUPS.get(weight.dtype, ()):
        return weight
    return TensorType((*weight.shape[:-3], weight.shape[-3] * group, weight.shape[-2]), weight.dtype)


def plain_array(weight: np.ndarray, rank: int) -> np.ndarray:
    """The weight without groups."""
    if weight.ndim == rank:
        return weight
    *lead, steps, columns, group = weight.shape
    return np.swapaxes(weight, -1, -2).reshape(*lead, steps * group, columns)


def parts_sum(weight: np.ndarray) -> np.ndarray:
    """The float32 that the parts of a weight add up to, from the smallest on; the first axis counts parts."""
    return reduce(lambda low, high: high + low, weight.astype(np.float32)[::-1])


def element(weight: Tensor, rank: int, indices: Sequence[Expr]) -> Expr:
    """The element at ``indices``, which are those of the weight without groups."""
    if len(weight.shape) == rank:
        return weight[tuple(indices)]
    *lead, k, column = indices
    group = weight.shape[-1]
    return weight[(*lead, k // group, column, k % group)]
