"""Weights as JSON: which are views of a module's arrays, and which are arrays of their own.

An array within the memory of another is described by where it begins there, its shape and its strides.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from forge import dtypes
from forge.driver.weights import Weights
from forge.lowering.memory import WEIGHT_ALIGNMENT

Arrays = Mapping[str, np.ndarray]
"""A module's arrays by their digests."""


def described(weights: Weights, arrays: Arrays) -> tuple[dict[str, Any], Weights]:
    """What `restored` takes, and the block of those weights that are no views of ``arrays``."""
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
            digest, begin = found
            entries.append([offset, dtype, array.shape, digest, begin, array.strides])
    return {"size": weights.size, "entries": entries}, Weights(size, made)


def restored(description: Mapping[str, Any], arrays: Arrays, made: np.ndarray) -> Weights:
    """The weights that `described` saw; ``made`` is the block of bytes that it returned.

    Raises:
        KeyError, TypeError, ValueError: the description is not one of these arrays.
    """
    entries = []
    for offset, dtype, shape, digest, begin, strides in description["entries"]:
        memory = made if digest is None else _bytes_of(arrays[digest])
        entries.append((offset, np.ndarray(shape, dtypes.numpy_dtype(dtype), memory, begin, strides)))
    return Weights(description["size"], entries)


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class _Places:
    """Contiguous arrays by where they are in memory."""

    def __init__(self, arrays: Arrays) -> None:
        suitable = [(*byte_bounds(a), digest) for digest, a in arrays.items() if a.flags.c_contiguous and a.dtype != object]
        self._bounds = sorted(suitable)
        self._begins = [begin for begin, _, _ in self._bounds]

    def of(self, array: np.ndarray) -> tuple[str, int] | None:
        """The digest of the array whose memory ``array`` is within, and where in there its first element begins."""
        low, high = byte_bounds(array)
        number = bisect.bisect_right(self._begins, low) - 1
        if number < 0 or high > self._bounds[number][1]:
            return None
        begin, _, digest = self._bounds[number]
        return digest, array.__array_interface__["data"][0] - begin
