"""Packed weights in pairs along the summed axis, as dot products of bfloat16 read them.

``[..., K, n]`` becomes ``[..., K / 2, n, 2]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.ir.types import TensorType
from forge.te import Expr, Tensor


def paired(weight: np.ndarray) -> np.ndarray:
    """A view of ``weight[..., K, n]`` in pairs; K must be even."""
    *lead, depth, columns = weight.shape
    return np.swapaxes(weight.reshape(*lead, depth // 2, 2, columns), -1, -2)


def plain_type(weight: TensorType, rank: int) -> TensorType:
    """The type without pairs of a weight that is of ``rank`` without them. Only bfloat16 comes in pairs."""
    if weight.rank != rank + 1 or weight.shape[-1] != 2 or weight.dtype != "bfloat16":
        return weight
    return TensorType((*weight.shape[:-3], weight.shape[-3] * 2, weight.shape[-2]), weight.dtype)


def plain_array(weight: np.ndarray, rank: int) -> np.ndarray:
    """The weight without pairs."""
    if weight.ndim == rank:
        return weight
    *lead, half, columns, _ = weight.shape
    return np.swapaxes(weight, -1, -2).reshape(*lead, half * 2, columns)


def element(weight: Tensor, rank: int, indices: Sequence[Expr]) -> Expr:
    """The element at ``indices``, which are those of the weight without pairs."""
    if len(weight.shape) == rank:
        return weight[tuple(indices)]
    *lead, k, column = indices
    return weight[(*lead, k // 2, column, k % 2)]
