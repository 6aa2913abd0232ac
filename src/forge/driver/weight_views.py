"""Weights as JSON: which are views of a module's arrays, and which are arrays of their own.

An array within the memory of another is described by where it begins there, its shape and its strides; and that memory by the
order of axes in which the other array is contiguous, for importers transpose without a copy.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from forge import dtypes
from forge.backends.weights import Weights
from forge.lowering.memory import WEIGHT_ALIGNMENT

Arrays = Mapping[str, np.ndarray]
"""A module's arrays by their digests."""


def described(weights: Weights, arrays: Arrays) -> tuple[dict[str, Any], Weights]:
    """What `restored` takes, and the block of those weights that are not views of ``arrays``."""
    places = _Places(arrays)
    entries: list[list[Any]] = []
    made: list[tuple[int, np.ndarray]] = []
    size = 0
    for offset, array in weights.entries:
        dtype = dtypes.canonical(array.dtype)
        found = places.of(array)
        if found is None:
            size += -size % WEIGHT_ALIGNMENT
            made.append((size, array))
            entries.append([offset, dtype, array.shape, None, size, None])
            size += array.nbytes
        else:
            digest, order, begin = found
            entries.append([offset, dtype, array.shape, [digest, order], begin, array.strides])
    return {"size": weights.size, "digest": weights.known_digest, "entries": entries}, Weights(size, made)


def restored(description: Mapping[str, Any], arrays: Arrays, made: np.ndarray) -> Weights:
    """The weights that `described` saw; ``made`` is the block of bytes that it returned.

    Raises:
        KeyError, TypeError, ValueError: the description is not one of these arrays.
    """
    entries = []
    for offset, dtype, shape, source, begin, strides in description["entries"]:
        memory = made if source is None else _bytes_of(arrays[source[0]], source[1])
        entries.append((offset, np.ndarray(shape, dtypes.numpy_dtype(dtype), memory, begin, strides)))
    return Weights(description["size"], entries, description["digest"])


def _bytes_of(array: np.ndarray, order: list[int]) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(order)).reshape(-1).view(np.uint8)


class _Places:
    """Arrays by where they are in memory, those without holes."""

    def __init__(self, arrays: Arrays) -> None:
        orders = {digest: np.argsort([-s for s in a.strides], kind="stable").tolist() for digest, a in arrays.items()}
        suitable = [d for d, a in arrays.items() if a.dtype != object and a.transpose(orders[d]).flags.c_contiguous]
        self._places = sorted((*byte_bounds(arrays[digest]), digest, orders[digest]) for digest in suitable)
        self._begins = [begin for begin, *_ in self._places]

    def of(self, array: np.ndarray) -> tuple[str, list[int], int] | None:
        """The digest of the array whose memory ``array`` is within, the order of its axes there, and where ``array`` begins."""
        low, high = byte_bounds(array)
        number = bisect.bisect_right(self._begins, low) - 1
        if number < 0 or high > self._places[number][1]:
            return None
        begin, _, digest, order = self._places[number]
        return digest, order, array.__array_interface__["data"][0] - begin
