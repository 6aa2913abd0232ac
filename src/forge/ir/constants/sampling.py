"""Comparing large arrays: by samples first, in full where those are equal."""

from __future__ import annotations

import hashlib

import numpy as np

from forge.ir.arrays import identity

MAX_SAMPLED, SAMPLES_PER_AXIS = 1 << 16, 16
"""Arrays of so many bytes are compared by a digest of all; larger ones first by so many elements along each axis."""


def sample(array: np.ndarray) -> bytes:
    """A digest of type, shape and some of the elements: of all, where they take few bytes."""
    state = hashlib.blake2b(str((array.dtype, array.shape)).encode(), digest_size=16)
    if array.nbytes > MAX_SAMPLED:
        array = array[tuple(slice(None, None, -(-extent // SAMPLES_PER_AXIS)) for extent in array.shape)]
    state.update(array.tobytes())
    return state.digest()


def have_equal_bytes(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether arrays of one `sample` are equal, bit by bit; rows of some ``MAX_SAMPLED`` bytes of each are copied at a time."""
    if first.nbytes <= MAX_SAMPLED or identity(first) == identity(second):
        return True
    rows = max(1, MAX_SAMPLED * len(first) // first.nbytes)
    return all(first[k : k + rows].tobytes() == second[k : k + rows].tobytes() for k in range(0, len(first), rows))
