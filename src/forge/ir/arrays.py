"""Arrays as bytes and back, for files: little-endian, row-major; sub-byte elements take a byte each; strings are a JSON list."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from forge import dtypes


def to_bytes(array: np.ndarray) -> bytes:
    """The contents of ``array``, without its dtype and shape."""
    if dtypes.canonical(array.dtype) == "string":
        return json.dumps([str(s) for s in array.ravel()]).encode()
    if array.dtype.kind in "iufc":
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(array).tobytes()


def from_bytes(data: bytes | memoryview, dtype: Any, shape: Any) -> np.ndarray:
    """The array whose ``to_bytes`` is ``data``; not writable.

    Raises:
        ValueError: the three do not fit each other.
    """
    if not isinstance(dtype, str) or dtype not in dtypes.NAMES:
        raise ValueError(f"got dtype {dtype!r}; expected one of {', '.join(dtypes.NAMES)}")
    if not isinstance(shape, list) or not all(type(d) is int and d >= 0 for d in shape):
        raise ValueError(f"got shape {shape!r}; expected a list of sizes")
    if dtype == "string":
        return _strings(data, shape)
    expected = math.prod(shape) * dtypes.itemsize(dtype)
    if len(data) != expected:
        raise ValueError(f"got {len(data)} bytes; expected {expected} for {dtype} of shape {shape}")
    raw = np.frombuffer(data, np.uint8)
    width = 1 if dtype == "bool" else dtypes.bits(dtype)
    if width < 8 and raw.size and int(raw.max()) >> width:
        raise ValueError(f"an element is no {dtype}")
    return raw.view(dtypes.numpy_dtype(dtype)).reshape(shape)


def _strings(data: bytes | memoryview, shape: list[int]) -> np.ndarray:
    items = json.loads(bytes(data))
    if not isinstance(items, list) or len(items) != math.prod(shape) or not all(isinstance(s, str) for s in items):
        raise ValueError(f"strings do not fit shape {shape}")
    array = np.empty(len(items), object)
    array[:] = items
    array.flags.writeable = False
    return array.reshape(shape)
